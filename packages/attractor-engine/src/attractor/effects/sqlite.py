"""What was done, in a file: for the processes of one machine."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from attractor.effects import statements
from attractor.effects.store import EffectRecord

_BUSY_SECONDS = 30.0


class SqliteEffectStore:
    """Keeps records in an SQLite file, which is made when it is first needed, with its folder.

    A claim that was made is on disk. Each call opens the file anew, in a worker thread, so that nothing stays open and
    processes may be forked. Raises sqlite3.Error if the file can't be used, or stays locked for 30 seconds. Not
    for network file systems, whose locks SQLite can't rely on.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._made = False

    async def find(self, key: str) -> EffectRecord | None:
        return await anyio.to_thread.run_sync(self._find, key)

    async def claim(self, claim: EffectRecord) -> EffectRecord | None:
        while not await self._change(statements.CLAIM, statements.to_parameters(claim)):
            # One that was released meanwhile leaves the place to a claim.
            if standing := await self.find(claim.key):
                return standing
        return None

    async def take_over(self, claim: EffectRecord, owner: str) -> bool:
        values = {**statements.to_parameters(claim), "from_owner": owner}
        return await self._change(statements.TAKE_OVER, values)

    async def commit(self, done: EffectRecord) -> bool:
        return await self._change(statements.COMMIT, statements.to_parameters(done))

    async def release(self, key: str, owner: str) -> None:
        await self._change(statements.RELEASE, {"key": key, "owner": owner})

    async def put(self, done: EffectRecord) -> None:
        await self._change(statements.PUT, statements.to_parameters(done))

    async def close(self) -> None:
        pass

    async def _change(self, statement: str, values: Mapping[str, Any]) -> bool:
        return await anyio.to_thread.run_sync(partial(self._execute, statement, values))

    def _execute(self, statement: str, values: Mapping[str, Any]) -> bool:
        with closing(self._connect()) as connection, connection:
            return connection.execute(statement, values).rowcount > 0

    def _find(self, key: str) -> EffectRecord | None:
        with closing(self._connect()) as connection:
            return statements.read_row(connection.execute(statements.FIND, {"key": key}).fetchone())

    def _connect(self) -> sqlite3.Connection:
        if not self._made:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        try:
            if not self._made:
                with connection:
                    connection.execute(statements.TABLE)
                self._made = True
        except BaseException:
            connection.close()
            raise
        return connection
