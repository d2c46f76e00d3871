"""What a coding agent's command line writes while it works: kept in a file, and watched for what it uses of a model."""

from dataclasses import replace
from typing import TextIO

import anyio
from unified_llm import cost_of

from attractor.backends.cli_agent_answer import CliFormat, CliUse, parse_events
from attractor.state.context import Context
from attractor.state.usage import TokenUsage

_LONGEST_LINE = 16 * 1024 * 1024


class CliOutput:
    """Takes the output of one call in pieces.

    `scope` is for waiting for the program: it is cancelled when the run may ask no more of models, of which `refused`
    tells the reason, and `linger` seconds after the closing event. `used` is what was used so far, as far as the
    program tells while it works.
    """

    def __init__(self, file: TextIO, format: CliFormat, model: str, context: Context, linger: float) -> None:
        self._file = file
        self._format = format
        self._model = model
        self._context = context
        self._linger = linger
        self.scope = anyio.CancelScope()
        self._line: list[str] = []
        self._length = 0
        self._uses: dict[str, CliUse] = {}
        self.refused = ""

    @property
    def used(self) -> TokenUsage | None:
        """None if it told nothing."""
        total: TokenUsage | None = None
        for use in self._uses.values():
            usage = TokenUsage(
                input_tokens=use.usage.input_tokens,
                output_tokens=use.usage.output_tokens,
                cost=cost_of(use.usage, use.model or self._model) if use.model or self._model else None,
            )
            total = usage if total is None else total + usage
        return total

    def take(self, piece: str) -> None:
        """Write it down, and look at the lines that it completes."""
        self._file.write(piece)
        self._file.flush()
        *ended, rest = piece.split("\n")
        for part in ended:
            self._hold(part)
            line, self._line, self._length = "".join(self._line), [], 0
            self._look_at(line)
        self._hold(rest)

    def _hold(self, part: str) -> None:
        self._length += len(part)
        # A line that is too long is no event that counts anything.
        if part and self._length <= _LONGEST_LINE:
            self._line.append(part)

    def _look_at(self, line: str) -> None:
        events = parse_events(line)
        if any(self._format.read_events([event]).complete for event in events):
            self.scope.deadline = anyio.current_time() + self._linger
        news = [use for event in events if (use := self._format.read_use(event)) is not None]
        self._uses.update((use.call, use) for use in news)
        used = self.used if news else None
        if used is None:
            return
        # A price that isn't known yet may be in the closing event.
        known = used if used.cost is not None else replace(used, cost=0.0)
        self.refused = self.refused or self._context.run.refuse_more(known)
        if self.refused:
            self.scope.cancel()
