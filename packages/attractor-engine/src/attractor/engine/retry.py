"""Trying a stage again (sections 3.5 and 3.6, Appendix D)."""

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from attractor.errors import AttractorError
from attractor.graph import Graph, Node, to_text
from attractor.outcome import Outcome, StageStatus
from attractor.suspension import Suspend


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffConfig:
    """How long to wait between attempts; times are in milliseconds, `jitter` spreads them by half either way."""

    initial_delay_ms: int = 200
    backoff_factor: float = 2.0
    max_delay_ms: int = 60_000
    jitter: bool = True

    def delay_for_attempt(self, attempt: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
        """Milliseconds before retry number `attempt`, the first being 1."""
        # The exponent is bounded so that a large number of retries doesn't overflow.
        delay = min(self.initial_delay_ms * self.backoff_factor ** min(attempt - 1, 64), float(self.max_delay_ms))
        return delay * uniform(0.5, 1.5) if self.jitter else delay


def is_retryable(error: Exception) -> bool:
    """The default of `should_retry`: False for errors that another attempt can't mend.

    Those are this package's own (configuration, validation), and errors that say so of themselves by an attribute
    `retryable`, as those of unified_llm do; of these a time limit that passed counts as transient all the same.
    """
    retryable = getattr(error, "retryable", None)
    if isinstance(error, AttractorError):
        return bool(retryable)
    return retryable is None or bool(retryable) or type(error).__name__ == "RequestTimeoutError"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`max_attempts` counts the first one: 1 means no retries."""

    max_attempts: int = 1
    backoff: BackoffConfig = BackoffConfig()
    should_retry: Callable[[Exception], bool] = is_retryable


PRESETS: Mapping[str, RetryPolicy] = MappingProxyType(
    {
        "none": RetryPolicy(),
        "standard": RetryPolicy(max_attempts=5),
        "aggressive": RetryPolicy(max_attempts=5, backoff=BackoffConfig(initial_delay_ms=500)),
        "linear": RetryPolicy(max_attempts=3, backoff=BackoffConfig(initial_delay_ms=500, backoff_factor=1.0)),
        "patient": RetryPolicy(max_attempts=3, backoff=BackoffConfig(initial_delay_ms=2000, backoff_factor=3.0)),
    }
)

# Nothing is executed in these: another attempt would be the same again.
_NEVER_RETRIED = frozenset({"start", "exit", "conditional"})


def build_retry_policy(node: Node, graph: Graph) -> RetryPolicy:
    """The node's policy: `retry_policy` of node or graph names a preset, `max_retries` overrides its attempts.

    The graph's `default_max_retries` counts where neither is set; not for a fan-out, whose stages have it already.
    """
    if graph.handler_type(node) in _NEVER_RETRIED:
        return PRESETS["none"]
    preset = PRESETS.get(node.text("retry_policy")) or PRESETS.get(to_text(graph.attrs.get("retry_policy")))
    retries = node.max_retries
    if retries is None:
        if preset is not None:
            return preset
        retries = 0 if graph.handler_type(node) == "parallel" else graph.default_max_retries
    if retries <= 0:
        return PRESETS["none"]
    return replace(preset or PRESETS["standard"], max_attempts=retries + 1)


Attempt = Callable[[], Awaitable[Outcome]]
Notice = Callable[[int, Outcome, float], None]
"""Told before a retry: the number of the attempt to come, the outcome of the last one, the delay in seconds."""


async def execute_with_retry(
    attempt: Attempt,
    policy: RetryPolicy,
    *,
    node_id: str,
    allow_partial: bool = False,
    on_retry: Notice = lambda number, outcome, delay: None,
    sleep: Callable[[float], Awaitable[None]],
    uniform: Callable[[float, float], float] = random.uniform,
) -> tuple[Outcome, int]:
    """The stage's final outcome and how many attempts it took.

    RETRY, exceptions worth retrying and a FAIL that isn't terminal use the budget. No exception but
    Suspend leaves here.
    """
    number = 0
    while True:
        number += 1
        hint = 0.0
        try:
            outcome = await attempt()
        except Suspend:
            raise
        except Exception as error:
            outcome = _to_failure(error, node_id, policy)
            hint = _read_hint(error)
        may_retry = outcome.status is StageStatus.RETRY or (outcome.status is StageStatus.FAIL and not outcome.terminal)
        if not may_retry:
            return outcome, number
        if number >= policy.max_attempts:
            return _exhausted(outcome, number, allow_partial), number
        delay = max(policy.backoff.delay_for_attempt(number, uniform) / 1000, hint)
        on_retry(number + 1, outcome, delay)
        await sleep(delay)


def _read_hint(error: Exception) -> float:
    """After how many seconds the error says that another attempt is worth it; 0 if it doesn't."""
    hint = getattr(error, "retry_after", None)
    if isinstance(hint, int | float) and not isinstance(hint, bool) and math.isfinite(hint):
        return float(hint)
    return 0.0


def _to_failure(error: Exception, node_id: str, policy: RetryPolicy) -> Outcome:
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception as worse:
        said = f"its message can't be read, for that raises {type(worse).__name__}"
    reason = f"stage {node_id!r}: {said or kind}"
    if not isinstance(error, AttractorError) and not hasattr(error, "retryable"):
        reason = f"stage {node_id!r} raised {kind}" + (f": {said}" if said else "")
    return Outcome.fail(reason, terminal=not policy.should_retry(error))


def _exhausted(outcome: Outcome, attempts: int, allow_partial: bool) -> Outcome:
    """What becomes of a RETRY or FAIL when there are no attempts left."""
    if outcome.status is StageStatus.FAIL:
        return outcome
    why = outcome.failure_reason or outcome.notes
    if allow_partial:
        notes = "retries exhausted, partial accepted" + (f": {why}" if why else "")
        return replace(outcome, status=StageStatus.PARTIAL_SUCCESS, notes=notes, failure_reason="")
    reason = f"max retries exceeded ({attempts} attempt{'s' if attempts > 1 else ''})" + (f": {why}" if why else "")
    # An edge with outcome=retry is for this; it would never be taken otherwise.
    return replace(
        outcome, status=StageStatus.FAIL, failure_reason=reason, word=outcome.word or StageStatus.RETRY.value
    )
