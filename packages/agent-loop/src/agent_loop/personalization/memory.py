"""The memory of a person as programs use it: a store, and an engine that proposes how it changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unified_llm import Client

from agent_loop.clock import Clock, utc_now
from agent_loop.errors import AlreadySeededError, EngineError, NotSeededError, PersonalizationError
from agent_loop.history import Turn
from agent_loop.personalization.context import build_context
from agent_loop.personalization.engines import ClientEngine, Engine, ask
from agent_loop.personalization.prompts import (
    Summary,
    build_consolidation_prompt,
    build_summary_prompt,
    build_update_prompt,
    parse_consolidation,
    parse_summary,
)
from agent_loop.personalization.safeguards import apply_consolidation, apply_update
from agent_loop.personalization.snapshots import Provenance
from agent_loop.personalization.state import Basin, PersonalState, create_initial_state
from agent_loop.personalization.stores import Store
from agent_loop.personalization.transcripts import MAX_CONVERSATION, render_conversation, shorten_conversation
from agent_loop.personalization.update import Update, parse_update


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """The state after a conversation, the update that led to it, and what of the model's answers was of no use."""

    state: PersonalState
    update: Update
    remarks: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalMemory:
    """What sessions, pipelines, the command line and the server share. It holds nothing open.

    Without an `engine` it can be read and seeded, and sessions lend it their own model. `ingest_on_close` lets a
    session that has it take its conversation in when it closes, which may take `close_seconds`. `max_conversation` is
    in characters: a model with a small context window needs less.
    """

    store: Store
    engine: Engine | None = None
    model: str = ""
    subject: str = "the user"
    ingest_on_close: bool = False
    close_seconds: float = 60.0
    max_conversation: int = MAX_CONVERSATION
    clock: Clock = utc_now

    def or_by(self, client: Client, provider: str, model: str) -> "PersonalMemory":
        """The same, with this model as its engine if it has none."""
        if self.engine is not None:
            return self
        return replace(self, engine=ClientEngine(client, provider=provider), model=self.model or model)

    async def load(self) -> PersonalState:
        """The state. Raises NotSeededError if there is none yet."""
        return _require(await self.store.load())

    async def context(self) -> str:
        """The block for a system prompt; empty as long as there is no memory."""
        state = await self.store.load()
        return build_context(state, subject=self.subject) if state else ""

    async def seed(self, seeds: Iterable[Mapping[str, Any]], *, force: bool = False) -> PersonalState:
        """Begin with these basins. Raises AlreadySeededError, and changes nothing, if there is a memory already, unless
        `force` is set; PersonalizationError for basins that are none.
        """
        initial = create_initial_state(seeds, now=self._now())

        def change(current: PersonalState | None) -> PersonalState:
            if current is not None and not force:
                raise AlreadySeededError(
                    f"there is a memory already, of {current.update_count} updates; only force replaces it"
                )
            return initial

        return await self.store.update(change, Provenance(action="seed"))

    async def ingest(self, summary: str, vibes: Sequence[str] = ()) -> Ingested:
        """Take a conversation in: ask the engine for an update, and apply what the safeguards let through.

        Changes that others make in the meantime are kept. Raises NotSeededError without a memory, EngineError if there
        is no engine, it fails, or its answer is of no use at all; nothing is changed then.
        """
        engine = self._require_engine()
        if not summary.strip():
            raise PersonalizationError("there is nothing to take in: the summary is empty")
        state = await self.load()
        update = parse_update(await ask(engine, build_update_prompt(state, summary, vibes), self.model))
        if update == Update(remarks=update.remarks) and update.remarks:
            raise EngineError(f"{engine.name} gave no update: {'; '.join(update.remarks)}")
        now = self._now()
        changed = await self.store.update(
            lambda current: apply_update(_require(current), update, now=now), self._provenance(engine, "ingest")
        )
        return Ingested(state=changed, update=update, remarks=update.remarks)

    async def ingest_conversation(self, conversation: str | Iterable[Turn]) -> Ingested:
        """Take in a whole conversation, as text or as a session's history: summarized first, then as `ingest` does."""
        summary = await self.summarize(conversation)
        return await self.ingest(summary.text, summary.vibes)

    async def summarize(self, conversation: str | Iterable[Turn]) -> Summary:
        """A conversation in a few sentences, and its vibes. Raises as `ingest` does."""
        engine = self._require_engine()
        text = conversation if isinstance(conversation, str) else render_conversation(conversation)
        if not text.strip():
            raise PersonalizationError("there is nothing to take in: the conversation is empty")
        prompt = build_summary_prompt(shorten_conversation(text, self.max_conversation))
        summary = parse_summary(await ask(engine, prompt, self.model))
        if not summary.text:
            raise EngineError(f"{engine.name} gave no summary: {'; '.join(summary.remarks) or 'it is empty'}")
        return summary

    async def consolidate(self, basin_ids: Sequence[str] | None = None) -> list[str]:
        """Have keywords abstracted: of these basins, by default of those that ran out of room. Returns whose were.

        Raises as `ingest` does. A basin whose answer is of no use stays as it is.
        """
        engine = self._require_engine()
        state = await self.load()
        chosen = [_find(state, basin_id) for basin_id in basin_ids] if basin_ids is not None else find_full(state)
        done = []
        for basin in chosen:
            keywords, _ = parse_consolidation(await ask(engine, build_consolidation_prompt(basin), self.model))
            if await self._abstract(engine, basin, keywords):
                done.append(basin.id)
        return done

    async def _abstract(self, engine: Engine, basin: Basin, keywords: Sequence[str]) -> bool:
        """Whether these keywords took the place of the basin's own; if not, nothing is written."""
        state = await self.load()
        if apply_consolidation(state, basin.id, keywords, instead_of=basin.keywords).find(basin.id) in state.basins:
            return False
        await self.store.update(
            lambda current: apply_consolidation(_require(current), basin.id, keywords, instead_of=basin.keywords),
            self._provenance(engine, "consolidate"),
        )
        return True

    def _require_engine(self) -> Engine:
        if self.engine is None:
            raise EngineError("no engine is set up that could be asked for an update")
        return self.engine

    def _provenance(self, engine: Engine, action: str) -> Provenance:
        return Provenance(engine=engine.name, model=self.model, action=action)

    def _now(self) -> str:
        return self.clock().isoformat(timespec="seconds")


def find_full(state: PersonalState) -> list[Basin]:
    """The basins that had to push keywords out since they were last consolidated."""
    return [basin for basin in state.basins if basin.cap_hits > 0 and basin.keywords]


def _find(state: PersonalState, basin_id: str) -> Basin:
    if (basin := state.find(basin_id)) is None:
        raise PersonalizationError(f"there is no basin {basin_id!r}; there are {', '.join(b.id for b in state.basins)}")
    return basin


def _require(state: PersonalState | None) -> PersonalState:
    if state is None:
        raise NotSeededError("there is no memory yet; seed it first")
    return state
