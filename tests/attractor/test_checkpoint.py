"""Context, journal and checkpoint (sections 5.1 and 5.3), and the directory they live in (section 5.6)."""

import json
import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest
from attractor.errors import CheckpointError, ContextValueError, RunDirectoryError
from attractor.outcome import Outcome, StageStatus
from attractor.state.artifacts import ArtifactError, ArtifactStore
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import Context
from attractor.state.journal import CheckpointStore, RewritePolicy, load_checkpoint
from attractor.state.run_directory import RunDirectory, default_runs_root, stage_name
from attractor.state.step import Entry, RunStatus, Step
from hypothesis import given
from hypothesis import strategies as st

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NEVER = RewritePolicy(smallest_interval=1e9)


def stage(node: str, next_node: str = "", outcome: Outcome | None = None, **fields: object) -> Step:
    return Step(node_id=node, outcome=outcome or Outcome.success(), next_node=next_node, **fields)  # type: ignore[arg-type]


def fresh() -> Checkpoint:
    return Checkpoint(run_id="r1", graph_hash="h", next_node="a")


class Colour(StrEnum):
    RED = "red"


def test_context_values_are_shared_by_key() -> None:
    context = Context({"a": 1})
    context.set("b", Colour.RED)
    context.apply_updates({"c": (1, [2.5, None]), "d": True})
    assert context.snapshot() == {"a": 1, "b": "red", "c": [1, [2.5, None]], "d": True}
    assert type(context.get("b")) is str
    assert [context.get_string(key) for key in ("a", "d", "x")] == ["1", "true", ""]
    assert context.get("x", "default") == "default"


def test_context_keeps_what_it_was_given() -> None:
    value = {"list": [1]}
    context = Context()
    context.set("k", value)
    value["list"].append(2)
    context.get("k")["list"].append(3)
    assert context.get("k") == {"list": [1]}


def test_context_clone_is_isolated() -> None:
    context = Context({"k": [1]})
    context.append_log("one")
    branch = context.clone()
    branch.set("k", [2])
    branch.append_log("two")
    assert (context.get("k"), context.logs) == ([1], ("one",))
    assert (branch.get("k"), branch.logs) == ([2], ("one", "two"))


def test_context_knows_what_changed() -> None:
    context = Context({"same": "x", "one": 1})
    context.set("same", "x")
    context.set("one", True)
    context.set("list", [1])
    changes = context.take_changes()
    assert changes == {"one": True, "list": [1]}
    assert changes["one"] is True
    assert context.take_changes() == {}


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), float("nan"), {1: "x"}, [{"deep": {3}}]])
def test_context_refuses_what_is_not_json_and_names_the_key(value: object) -> None:
    context = Context()
    with pytest.raises(ContextValueError, match=r"'my\.key"):
        context.apply_updates({"good": 1, "my.key": value})
    assert context.snapshot() == {}


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_values_keep_their_types_on_disk(tmp_path_factory: pytest.TempPathFactory, values: dict[str, object]) -> None:
    folder = tmp_path_factory.mktemp("run")
    store = CheckpointStore(folder, fresh(), NEVER)
    store.append(Entry(stage("a", "b"), 1.0, values))
    from_journal = load_checkpoint(folder).context_values
    store.close()
    from_file = Checkpoint.load(folder).context_values
    assert repr(from_journal) == repr(from_file) == repr(Context(values).snapshot())


def test_checkpoint_is_saved_before_the_first_node(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, fresh())
    saved = json.loads((tmp_path / "checkpoint.json").read_bytes())
    assert (saved["current_node"], saved["next_node"], saved["completed_nodes"]) == ("", "a", [])
    assert saved["format"] == 1
    store.close()


def test_resume_reads_the_journal_beyond_the_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, fresh(), NEVER)
    store.append(Entry(stage("a", "b", edge=0), 1.0, {"x": 1}, ("hello",)))
    store.append(Entry(stage("b", "c", Outcome.fail("no", word="odd", terminal=True), attempts=3), 2.0, {}))
    assert Checkpoint.load(tmp_path).completed_nodes == []
    loaded = load_checkpoint(tmp_path)
    assert loaded.completed_nodes == ["a", "b"]
    assert (loaded.current_node, loaded.next_node, loaded.status) == ("b", "c", RunStatus.RUNNING)
    assert loaded.node_outcomes["b"] == Outcome.fail("no", word="odd", terminal=True)
    assert (loaded.node_retries, loaded.executions, loaded.logs) == ({"b": 2}, {"a": 1, "b": 3}, ["hello"])
    assert loaded.failures == {"b": ("no", 1)}
    store.close()
    assert Checkpoint.load(tmp_path) == load_checkpoint(tmp_path) == loaded


def test_skipped_stage_completes_without_an_outcome() -> None:
    checkpoint = fresh()
    checkpoint.apply(Entry(stage("a", "b", Outcome(status=StageStatus.SKIPPED)), 1.0, {}))
    assert (checkpoint.completed_nodes, checkpoint.node_outcomes) == (["a"], {})


@pytest.mark.parametrize("cut", [1, 20, 10_000])
def test_torn_last_journal_line_is_a_step_that_never_was(tmp_path: Path, cut: int) -> None:
    store = CheckpointStore(tmp_path, fresh(), NEVER)
    store.append(Entry(stage("a", "b"), 1.0, {}))
    whole = (tmp_path / "journal.jsonl").stat().st_size
    store.append(Entry(stage("b", "c"), 2.0, {"k": "v" * 10_000}))
    os.truncate(tmp_path / "journal.jsonl", whole + cut)
    loaded = load_checkpoint(tmp_path)
    assert loaded.completed_nodes == ["a"]
    again = CheckpointStore(tmp_path, loaded, NEVER)
    again.append(Entry(stage("b", "c"), 3.0, {}))
    assert load_checkpoint(tmp_path).completed_nodes == ["a", "b"]
    again.close()


def test_damaged_line_within_the_journal_is_an_error(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, fresh(), NEVER)
    for node in "abc":
        store.append(Entry(stage(node, "d"), 1.0, {}))
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([*lines[:2], b'{"node":', *lines[3:]]))
    with pytest.raises(CheckpointError, match="line 3 is damaged"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"current_node": "pl', "not valid JSON"),
        ("", "not valid JSON"),
        ("{}", "no checkpoint of this program"),
        ("[1]", "no checkpoint of this program"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1, "status": "running"}', "'run_id' is missing"),
    ],
)
def test_corrupt_checkpoint_is_an_error_that_says_what_to_do(tmp_path: Path, content: str, says: str) -> None:
    CheckpointStore(tmp_path, fresh()).close()
    (tmp_path / "checkpoint.json").write_text(content)
    with pytest.raises(CheckpointError, match=says) as caught:
        load_checkpoint(tmp_path)
    assert any(advice in str(caught.value) for advice in ("delete", "start a new run", "resume it with"))
    (tmp_path / "checkpoint.json").unlink()
    assert load_checkpoint(tmp_path).next_node == "a", "the journal alone is enough"


def test_no_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        load_checkpoint(tmp_path)


def test_checkpoint_of_another_run_is_an_error(tmp_path: Path) -> None:
    CheckpointStore(tmp_path, fresh()).close()
    other = tmp_path / "other"
    other.mkdir()
    CheckpointStore(other, Checkpoint(run_id="r2")).close()
    os.replace(other / "checkpoint.json", tmp_path / "checkpoint.json")
    with pytest.raises(CheckpointError, match="run r2"):
        load_checkpoint(tmp_path)


def test_failing_write_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path, fresh(), NEVER)
    before = (tmp_path / "checkpoint.json").read_bytes()
    store.append(Entry(stage("a", "b"), 1.0, {}))

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            store.save()
    assert (tmp_path / "checkpoint.json").read_bytes() == before
    assert load_checkpoint(tmp_path).completed_nodes == ["a"]
    store.close()
    assert not list(tmp_path.glob("*.tmp"))


def test_unchanged_large_value_is_not_written_again(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, fresh())
    store.append(Entry(stage("a", "b"), 1.0, {"large": "x" * 100_000}))
    size = (tmp_path / "journal.jsonl").stat().st_size
    for number in range(20):
        store.append(Entry(stage("b", "b"), 1.0, {"small": number}))
        store.catch_up()
    assert (tmp_path / "journal.jsonl").stat().st_size - size < 20 * 300
    store.close()
    assert Checkpoint.load(tmp_path).context_values["small"] == 19


def test_journal_takes_little_room_per_node(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, fresh())
    size = (tmp_path / "journal.jsonl").stat().st_size
    for number in range(100):
        changes = {"count": number, "current_node": f"node_{number}"}
        store.append(Entry(stage(f"node_{number}", f"node_{number + 1}", edge=0), 1796084565.507, changes))
    assert (tmp_path / "journal.jsonl").stat().st_size - size < 100 * 300
    store.close()


def test_checkpoint_file_is_current_before_external_work(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, fresh(), RewritePolicy(smallest_interval=1e9))
    store.append(Entry(stage("a", "b"), 1.0, {}))
    store.catch_up()
    assert Checkpoint.load(tmp_path).current_node == "a"
    store.close()


@given(st.text(min_size=1, max_size=300))
def test_stage_names_are_safe_file_names(node_id: str) -> None:
    name = stage_name(node_id)
    assert len(name) <= 255
    assert "/" not in name
    assert "\0" not in name
    assert name not in {".", "..", "artifacts", "checkpoint.json", "manifest.json", "journal.jsonl", "restart-1"}


@given(st.lists(st.text(min_size=1, max_size=300), unique=True, max_size=5))
def test_stage_names_differ_where_ids_do(ids: list[str]) -> None:
    assert len({stage_name(node_id) for node_id in ids}) == len(ids)


@pytest.mark.parametrize(
    ("node_id", "name"),
    [("plan_1", "plan_1"), ("a b/c", "a%20b%2Fc"), ("..", "%2E."), ("artifacts", "%61rtifacts"), ("é", "%C3%A9")],
)
def test_stage_name_examples(node_id: str, name: str) -> None:
    assert stage_name(node_id) == name


def test_runs_go_to_the_state_directory() -> None:
    assert default_runs_root({"XDG_STATE_HOME": "/state"}) == Path("/state/attractor/runs")
    assert default_runs_root({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local/state/attractor/runs"
    assert default_runs_root({}) == Path.home() / ".local/state/attractor/runs"


def test_run_directory_is_locked_against_a_second_process(tmp_path: Path) -> None:
    hold = f"""
import sys
from pathlib import Path
from attractor.state.run_directory import RunDirectory
with RunDirectory.create(Path({str(tmp_path / "run")!r})) as directory:
    directory.write_manifest({{}}, "")
    print("locked", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(RunDirectoryError, match="in use by another process"):
            RunDirectory.open(tmp_path / "run")
        holder.kill()
        holder.wait()
    RunDirectory.open(tmp_path / "run").close()


def test_run_directory_that_holds_a_run_is_not_used_again(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path) as directory:
        directory.write_manifest({}, "digraph g {}")
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        RunDirectory.create(tmp_path)
    with pytest.raises(RunDirectoryError, match="does not exist"):
        RunDirectory.open(tmp_path / "nowhere")
    with pytest.raises(RunDirectoryError, match="can't be made"):
        RunDirectory.create(Path("/proc/nowhere/run"))


def test_artifacts_beyond_the_threshold_go_to_files(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    small, large = {"k": [1, 2]}, "x" * 200_000
    assert not store.store("small", "Small", small).is_file_backed
    info = store.store("a/b", "Large", large)
    assert info.is_file_backed
    assert info.size_bytes == 200_002
    assert (tmp_path / "artifacts" / "a%2Fb.json").exists()
    assert (store.retrieve("small"), store.retrieve("a/b")) == (small, large)
    assert [one.id for one in store.list()] == ["small", "a/b"]
    store.remove("a/b")
    assert not store.has("a/b")
    assert not list((tmp_path / "artifacts").iterdir())
    with pytest.raises(ArtifactError, match="stored are: small"):
        store.retrieve("a/b")
    store.clear()
    assert store.list() == []
