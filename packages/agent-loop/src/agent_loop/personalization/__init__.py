"""A small memory of how a person works, across conversations: updated by a model, bounded by pure functions."""

from agent_loop.errors import (
    AlreadySeededError,
    DamagedMemoryError,
    EngineError,
    NotSeededError,
    PersonalizationError,
)
from agent_loop.personalization.comparison import Comparison, Difference, Proposal, compare_engines
from agent_loop.personalization.context import build_context, trend_of
from agent_loop.personalization.engines import ClaudeProcessEngine, ClientEngine, Engine
from agent_loop.personalization.memory import Ingested, PersonalMemory
from agent_loop.personalization.metrics import compute_entropy, compute_trajectory
from agent_loop.personalization.prompts import (
    Prompt,
    Summary,
    build_consolidation_prompt,
    build_summary_prompt,
    build_update_prompt,
    parse_consolidation,
    parse_summary,
)
from agent_loop.personalization.safeguards import apply_consolidation, apply_update, restore_bounds
from agent_loop.personalization.snapshots import Provenance, Snapshot
from agent_loop.personalization.state import (
    ACTIVE_ABOVE,
    MAX_WEIGHT,
    MIN_WEIGHT,
    Basin,
    Meta,
    PersonalState,
    create_initial_state,
    state_from_record,
    to_basin_id,
)
from agent_loop.personalization.stores import JsonFileStore, MemoryStore, SqliteStore, Store, open_store
from agent_loop.personalization.transcripts import render_conversation
from agent_loop.personalization.update import BasinUpdate, Connection, NewBasin, Update, parse_update, read_update

__all__ = [
    "ACTIVE_ABOVE",
    "MAX_WEIGHT",
    "MIN_WEIGHT",
    "AlreadySeededError",
    "Basin",
    "BasinUpdate",
    "ClaudeProcessEngine",
    "ClientEngine",
    "Comparison",
    "Connection",
    "DamagedMemoryError",
    "Difference",
    "Engine",
    "EngineError",
    "Ingested",
    "JsonFileStore",
    "MemoryStore",
    "Meta",
    "NewBasin",
    "NotSeededError",
    "PersonalMemory",
    "PersonalState",
    "PersonalizationError",
    "Prompt",
    "Proposal",
    "Provenance",
    "Snapshot",
    "SqliteStore",
    "Store",
    "Summary",
    "Update",
    "apply_consolidation",
    "apply_update",
    "build_consolidation_prompt",
    "build_context",
    "build_summary_prompt",
    "build_update_prompt",
    "compare_engines",
    "compute_entropy",
    "compute_trajectory",
    "create_initial_state",
    "open_store",
    "parse_consolidation",
    "parse_summary",
    "parse_update",
    "read_update",
    "render_conversation",
    "restore_bounds",
    "state_from_record",
    "to_basin_id",
    "trend_of",
]
