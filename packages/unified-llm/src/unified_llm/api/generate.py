"""generate(): one answer, through as many tool rounds as it takes (section 4.3)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from unified_llm.api.call import Call, CallOptions, prepare_call
from unified_llm.api.limits import Deadline
from unified_llm.api.tool_loop import StepResult, continue_conversation
from unified_llm.provider_utils.retry import retry
from unified_llm.spec.request import Request
from unified_llm.spec.response import FinishReason, Response, Usage
from unified_llm.spec.tools import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class GenerateResult:
    """All steps of a generation. The other attributes speak of the last one; `output` is set by `generate_object`."""

    steps: list[StepResult]
    output: Any = None

    @property
    def response(self) -> Response:
        return self.steps[-1].response

    @property
    def text(self) -> str:
        return self.response.text

    @property
    def reasoning(self) -> str | None:
        return self.response.reasoning

    @property
    def tool_calls(self) -> list[ToolCall]:
        return self.response.tool_calls

    @property
    def tool_results(self) -> list[ToolResult]:
        return self.steps[-1].tool_results

    @property
    def finish_reason(self) -> FinishReason:
        return self.response.finish_reason

    @property
    def usage(self) -> Usage:
        return self.response.usage

    @property
    def total_usage(self) -> Usage:
        """The usage of all steps together."""
        return total_usage(self.steps)


def total_usage(steps: list[StepResult]) -> Usage:
    """The sum over the steps; a single step's as it is, with its `raw`."""
    total = steps[0].usage
    for step in steps[1:]:
        total = total + step.usage
    return total


async def generate(model: str, prompt: str | None = None, **options: Unpack[CallOptions]) -> GenerateResult:
    """Ask the model, execute the tools it calls, and ask again until it is done (`CallOptions` tells the options).

    Raises ConfigurationError before anything is sent if the arguments don't fit together, AbortError and
    RequestTimeoutError when a bound is reached, else what the provider raises once retries are used up. A tool that
    fails raises nothing: the model is told.
    """
    return await run_call(prepare_call(model, prompt, **options))


async def run_call(call: Call) -> GenerateResult:
    """The tool loop of section 5.6. Each model call is retried by itself; tools are never executed twice."""
    deadline = call.limits.total_deadline()
    request = call.request
    steps: list[StepResult] = []
    while True:
        response = await call.limits.run(partial(_complete, call, request, deadline), deadline)
        results: list[ToolResult] = []
        if call.tool_loop.wants_execution(response, rounds=len(steps)):
            execute = partial(call.tool_loop.execute, response.tool_calls, request.messages)
            results = await call.limits.run(execute, deadline)
        steps.append(StepResult(response, results))
        if not call.tool_loop.goes_on(steps):
            return GenerateResult(steps)
        request = request.model_copy(update={"messages": continue_conversation(request.messages, steps[-1])})


async def _complete(call: Call, request: Request, total: Deadline | None) -> Response:
    """One model call with its retries. The limit per step bounds each attempt, the total also the waits between."""

    async def attempt() -> Response:
        return await call.limits.run(partial(call.client.complete, request), call.limits.step_deadline(total))

    return await retry(attempt, call.policy, should_retry=call.should_retry)
