"""Gates whose time runs out while nobody executes their run: the run goes on with what was decided for that case.

A run that is executed minds the time itself. One that waits in its directory alone, since its server was stopped or
killed, needs somebody who looks at the clock.
"""

import logging
import time
from collections.abc import Callable, Iterator

import anyio
from anyio.to_thread import run_sync

from attractor.errors import AttractorError
from attractor.interviewers import QuestionStore
from attractor.server.problem import ProblemError
from attractor.server.run_index import RunIndex
from attractor.server.runs import Runs

POLL_SECONDS = 5.0
_logger = logging.getLogger("attractor.server")


class Deadlines:
    """Resumes runs whose questions have waited long enough; each is tried once. `clock` counts from the epoch."""

    def __init__(self, runs: Runs, index: RunIndex, clock: Callable[[], float] = time.time) -> None:
        self._runs = runs
        self._index = index
        self._clock = clock
        self._tried: set[tuple[str, str]] = set()

    async def watch(self, poll: float = POLL_SECONDS) -> None:
        """Look every `poll` seconds; runs until it is cancelled."""
        while True:
            try:
                await self.resume_overdue()
            except OSError as error:
                _logger.warning("the deadlines of questions can't be looked up: %s", error)
            await anyio.sleep(poll)

    async def resume_overdue(self) -> None:
        """Resume every run that has a question whose time is over, and that nobody executes."""
        for run_id, question_id in await run_sync(lambda: list(self._find_overdue())):
            self._tried.add((run_id, question_id))
            try:
                await self._runs.resume(run_id)
            except (AttractorError, ProblemError) as error:
                _logger.warning("the time of question %s of pipeline %s is over: %s", question_id, run_id, error)

    def _find_overdue(self) -> Iterator[tuple[str, str]]:
        now = self._clock()
        for record in self._index.list_records():
            if record["status"] != "waiting" or record["executed"]:
                continue
            run_id = record["pipeline_id"]
            for asked in QuestionStore(self._runs.root / run_id).list_open():
                is_over = asked.deadline is not None and asked.deadline <= now
                if is_over and (run_id, asked.id) not in self._tried:
                    yield run_id, asked.id
                    break
