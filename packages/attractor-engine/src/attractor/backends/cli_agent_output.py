"""What a coding agent's command line writes while it works: kept in a file, and watched for what it uses of a model."""

from collections.abc import Callable
from typing import TextIO

from unified_llm import cost_of

from attractor.backends.cli_agent_answer import CliFormat, CliUse, parse_events
from attractor.state.context import Context
from attractor.state.usage import TokenUsage

_LONGEST_LINE = 16 * 1024 * 1024


class CliOutput:
    """Takes the output of one call in pieces.

    `refused` is why the run may ask no more of models; `stop` is called when it gets to be so. `used` is what was used
    by then, as far as the program tells while it works.
    """

    def __init__(
        self, file: TextIO, format: CliFormat, model: str, context: Context, stop: Callable[[], object]
    ) -> None:
        self._file = file
        self._format = format
        self._model = model
        self._context = context
        self._stop = stop
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
        news = [use for event in parse_events(line) if (use := self._format.read_use(event)) is not None]
        self._uses.update((use.call, use) for use in news)
        used = self.used if news and not self.refused else None
        if used is None:
            return
        # A price that isn't known yet may be in the closing event.
        known = (
            used
            if used.cost is not None
            else TokenUsage(input_tokens=used.input_tokens, output_tokens=used.output_tokens)
        )
        self.refused = self._context.run.refuse_more(known)
        if self.refused:
            self._stop()
