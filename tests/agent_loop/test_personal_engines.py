"""Both engines carry the same prompt; what they answer becomes a change; where they differ, `compare` says."""

import json
import os
import stat
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from agent_loop.personalization import (
    BasinUpdate,
    ClaudeProcessEngine,
    ClientEngine,
    DamagedMemoryError,
    EngineError,
    JsonFileStore,
    MemoryStore,
    PersonalizationError,
    PersonalMemory,
    Provenance,
    Update,
    apply_update,
    build_consolidation_prompt,
    build_summary_prompt,
    build_update_prompt,
    compare_engines,
    create_initial_state,
)
from agent_loop.personalization.transcripts import shorten_conversation
from unified_llm import Client, InvalidRequestError, Message, Role
from unified_llm.testing import ScriptedAdapter

BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
SEEDS = [{"label": "Planning", "keywords": ["outline"]}, {"label": "Debugging"}]
STATE = create_initial_state(SEEDS)
GROW = json.dumps({"basin_updates": [{"id": "planning", "weight_delta": 0.1, "new_keywords": ["milestones"]}]})
FALL = json.dumps({"basin_updates": [{"id": "debugging", "weight_delta": -0.1}], "phase_shift": True})
SUMMARY = json.dumps({"summary": "They planned a move.", "vibes": ["calm"]})


def scripted(*answers: object, **options: object) -> tuple[ScriptedAdapter, ClientEngine]:
    adapter = ScriptedAdapter(*answers)
    return adapter, ClientEngine(Client({"scripted": adapter}, "scripted"), **options)


@pytest.fixture
def claude(tmp_path: Path) -> "Claude":
    return Claude(tmp_path)


class Claude:
    """A program that stands in for `claude`: it notes what it was given, and answers or misbehaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def engine(self, then: str, timeout: float = 60.0) -> ClaudeProcessEngine:
        program = self.folder / "claude"
        program.write_text(
            f"#!/bin/sh\ncd {self.folder}\nprintf '%s\\n' \"$@\" > arguments\necho $$ > pid\n"
            f'echo "$CLAUDE_CODE_MAX_OUTPUT_TOKENS" > tokens\n{then}\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return ClaudeProcessEngine(command=[str(program)], timeout=timeout, variables={"PATH": os.environ["PATH"]})

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def is_gone(self, name: str) -> bool:
        try:
            state = Path(f"/proc/{int(self.read(name))}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        return state == "Z"


@BOTH_LOOPS
async def test_both_engines_send_the_same_prompt_in_the_same_roles(claude: Claude) -> None:
    adapter, engine = scripted(GROW)
    prompt = build_update_prompt(STATE, "They planned — naïvely.", ["calm"])
    local = claude.engine(f"cat > stdin\nprintf '%s' '{GROW}'")
    answers = [await one.call(prompt.system, prompt.user, "some-model", prompt.max_tokens) for one in (engine, local)]
    assert answers == [GROW, GROW]
    [request] = adapter.requests
    assert request.messages == [Message.system(prompt.system), Message.user(prompt.user)]
    assert claude.read("stdin") == prompt.user
    arguments = claude.read("arguments")
    assert f"--system-prompt\n{prompt.system}\n" in arguments
    assert "--model\nsome-model\n" in arguments
    assert arguments.startswith("-p\n")
    assert prompt.user not in arguments, "arguments can be read by everyone on the machine"
    assert (request.model, request.max_tokens) == ("some-model", 800)
    assert claude.read("tokens") == "800\n"


async def test_a_schema_goes_along_only_where_it_is_asked_for() -> None:
    memory_store = MemoryStore()
    await memory_store.save(STATE)
    for structured in (False, True):
        adapter, engine = scripted(GROW, structured=structured, temperature=0.0)
        await PersonalMemory(store=memory_store, engine=engine, model="m").ingest("They planned.")
        [request] = adapter.requests
        assert (request.response_format is not None) is structured
        assert request.temperature == 0.0
    assert request.response_format is not None
    schema = request.response_format.json_schema
    assert schema is not None
    assert schema["properties"]["basin_updates"]["items"]["properties"]["id"]["enum"] == ["planning", "debugging"]


def test_prompts_hold_what_the_model_needs() -> None:
    state = apply_update(STATE, Update(emerging_patterns=["asks why"]))
    prompt = build_update_prompt(state, "Long. " * 5000, ["calm", "Calm"])
    assert "weight_delta" in prompt.system
    assert '"id": "planning"' in prompt.user
    assert "asks why" in prompt.user
    assert prompt.user.endswith('"vibes": ["calm"]}')
    assert len(prompt.user) < 6000
    assert json.loads(prompt.user.partition("\n")[2].partition("\n\nThe conv")[0])["basins"][1]["id"] == "debugging"
    assert "outline" in build_consolidation_prompt(STATE.basins[0]).user
    assert build_summary_prompt("Person: hi").user.endswith("Person: hi")


@BOTH_LOOPS
async def test_ingesting_asks_stores_and_keeps_the_provenance() -> None:
    adapter, engine = scripted(SUMMARY, GROW)
    memory = PersonalMemory(store=MemoryStore(), engine=engine, model="m")
    await memory.seed(SEEDS)
    with adapter:
        ingested = await memory.ingest_conversation("Person: Help me plan a move.")
    assert "They planned a move." in adapter.requests[1].messages[1].text
    assert adapter.requests[0].messages[0].role is Role.SYSTEM
    assert ingested.state == await memory.load()
    assert ingested.state.basins[0].weight == pytest.approx(0.6)
    assert ingested.state.basins[0].keywords == ["outline", "milestones"]
    assert [snapshot.by for snapshot in await memory.store.history()] == [
        Provenance(action="seed"),
        Provenance(engine="scripted", model="m", action="ingest"),
    ]
    assert "Planning [60% ↑]" in await memory.context()


async def test_a_change_made_meanwhile_is_kept() -> None:
    store = MemoryStore()
    await store.save(STATE)

    async def meanwhile() -> None:
        await store.update(lambda state: apply_update(state, json.loads(FALL)))

    _, engine = scripted(GROW)
    memory = PersonalMemory(store=store, engine=SlowEngine(engine, meanwhile), model="m")
    state = (await memory.ingest("They planned.")).state
    assert (state.update_count, state.phase) == (2, 2)


class SlowEngine:
    """Something happens while it thinks."""

    name = "slow"

    def __init__(self, engine: ClientEngine, meanwhile: object) -> None:
        self.engine, self.meanwhile = engine, meanwhile

    async def call(self, system: str, user: str, model: str, max_tokens: int) -> str:
        await self.meanwhile()
        return await self.engine.call(system, user, model, max_tokens)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("I'd rather not.", "gave no update: the answer holds no complete JSON"), (InvalidRequestError("no"), "no")],
)
async def test_a_useless_answer_changes_nothing(answer: object, reason: str) -> None:
    _, engine = scripted(answer)
    memory = PersonalMemory(store=MemoryStore(), engine=engine, model="m")
    await memory.seed(SEEDS)
    with pytest.raises(EngineError, match=reason):
        await memory.ingest("They planned.")
    assert (await memory.load()).update_count == 0


async def test_what_is_missing_is_said(tmp_path: Path) -> None:
    _, engine = scripted()
    memory = PersonalMemory(store=MemoryStore(), engine=engine)
    assert await memory.context() == ""
    with pytest.raises(PersonalizationError, match="seed it first"):
        await memory.ingest("x")
    await memory.seed(SEEDS)
    with pytest.raises(PersonalizationError, match="only force replaces it"):
        await memory.seed(SEEDS)
    await memory.seed([{"label": "Other"}], force=True)
    assert [basin.id for basin in (await memory.load()).basins] == ["other"]
    with pytest.raises(PersonalizationError, match="the summary is empty"):
        await memory.ingest(" ")
    with pytest.raises(PersonalizationError, match="the conversation is empty"):
        await memory.ingest_conversation([])
    with pytest.raises(PersonalizationError, match="no engine"):
        await PersonalMemory(store=memory.store).ingest("x")
    with pytest.raises(PersonalizationError, match="there is no basin 'nobody'; there are other"):
        await memory.consolidate(["nobody"])
    (tmp_path / "memory.json").write_text("{")
    with pytest.raises(DamagedMemoryError):
        await PersonalMemory(store=JsonFileStore(tmp_path / "memory.json")).seed(SEEDS, force=True)


async def test_a_full_basin_is_consolidated_and_not_evicted() -> None:
    full = apply_update(
        STATE, Update(basin_updates=[BasinUpdate(id="planning", new_keywords=[f"k{n}" for n in range(12)])])
    )
    adapter, engine = scripted('{"keywords": ["milestones", "order"]}', '{"keywords": []}')
    memory = PersonalMemory(store=MemoryStore(), engine=engine, model="m")
    await memory.store.save(full)
    assert await memory.consolidate() == ["planning"]
    basin = (await memory.load()).basins[0]
    assert (basin.keywords, basin.cap_hits, basin.weight) == (["milestones", "order"], 0, full.basins[0].weight)
    assert (await memory.store.history())[-1].by == Provenance(engine="scripted", model="m", action="consolidate")
    assert await memory.consolidate() == [], "none is full any more"
    with adapter:
        assert await memory.consolidate(["planning"]) == [], "an answer without keywords changes nothing"
    assert len(await memory.store.history()) == 2


@BOTH_LOOPS
async def test_compare_shows_where_engines_differ(claude: Claude) -> None:
    _, engine = scripted(GROW)
    local = claude.engine(f"cat > stdin\nprintf '%s' '{FALL}'")
    result = await compare_engines([(engine, "m"), (local, "n")], STATE, "They planned.", ["calm"])
    assert [(one.engine, one.model) for one in result.proposals] == [("scripted", "m"), ("claude", "n")]
    differences = {item.field: list(item.values) for item in result.differences}
    assert differences == {
        "planning.weight": [0.6, 0.49],
        "debugging.weight": [0.49, 0.4],
        "planning.new_keywords": [["milestones"], None],
        "phase_shift": [False, True],
    }


async def test_compare_of_equals_shows_nothing_and_a_failure_is_part_of_it(claude: Claude) -> None:
    (_, first), (_, second) = scripted(GROW), scripted(f"```json\n{GROW}\n```")
    assert (await compare_engines([(first, "m"), (second, "m")], STATE, "x")).differences == []
    _, first = scripted(GROW)
    result = await compare_engines([(first, "m"), (claude.engine("echo no login >&2; exit 3"), "")], STATE, "x")
    assert "ended with status 3: no login" in result.proposals[1].error
    assert {item.field for item in result.differences} >= {"planning.weight", "error"}


@pytest.mark.parametrize(
    ("then", "reason"),
    [("exit 4", "ended with status 4: it said nothing"), ("echo 'please log in'; exit 1", "please log in")],
)
async def test_a_failing_process_says_why(claude: Claude, then: str, reason: str) -> None:
    with pytest.raises(EngineError, match=reason):
        await claude.engine(then).call("s", "u" * 1_000_000, "", 10)


async def test_a_missing_program_says_so() -> None:
    with pytest.raises(EngineError, match="can't be started: No such file or directory; install it"):
        await ClaudeProcessEngine(command=["no-such-program-here"]).call("s", "u", "", 10)


@BOTH_LOOPS
async def test_a_slow_process_is_ended_with_its_children(claude: Claude) -> None:
    engine = claude.engine("sleep 60 & echo $! > child\nwait", timeout=0.5)
    with pytest.raises(EngineError, match=r"no answer within 0.5 seconds"):
        await engine.call("s", "u", "", 10)
    await wait_until_gone(claude, "pid", "child")


@BOTH_LOOPS
async def test_cancelling_ends_the_process(claude: Claude) -> None:
    engine = claude.engine("sleep 60 & echo $! > child\nwait")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.call, "s", "u", "", 10)
        with anyio.fail_after(30):
            while not (claude.folder / "child").exists() or not claude.read("child"):
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    await wait_until_gone(claude, "pid", "child")


@BOTH_LOOPS
async def test_cancelling_while_it_starts_ends_its_children_too(claude: Claude) -> None:
    engine = claude.engine("sleep 60 & echo $! > child\nwait")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.call, "s", "u", "", 10)
        with anyio.fail_after(30):
            while not (claude.folder / "child").exists() or not claude.read("child"):
                await anyio.lowlevel.checkpoint()
                # The event loop stands still, so that the process is further than the loop knows.
                time.sleep(0.1)  # noqa: ASYNC251
        tasks.cancel_scope.cancel()
    await wait_until_gone(claude, "pid", "child")


async def wait_until_gone(claude: Claude, *names: str) -> None:
    with anyio.fail_after(10):
        while not all(claude.is_gone(name) for name in names):
            await anyio.sleep(0.01)


async def test_much_output_on_both_streams_blocks_nothing(claude: Claude) -> None:
    engine = claude.engine("head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 300000 /dev/zero | tr '\\0' o; cat")
    assert len(await engine.call("s", "u" * 300_000, "", 10)) == 600_000


def test_a_long_conversation_keeps_both_ends() -> None:
    text = "begin " + "x" * 100_000 + " end"
    short = shorten_conversation(text, 1000)
    assert len(short) <= 1000
    assert short.startswith("begin ")
    assert short.endswith(" end")
    assert shorten_conversation("short", 1000) == "short"
