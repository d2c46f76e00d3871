"""What was done, in a PostgreSQL database: for processes on many machines. Needs the extra `postgres`."""

import re
from collections.abc import Mapping
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from attractor.effects import statements
from attractor.effects.store import EffectRecord
from attractor.errors import PipelineConfigurationError

if TYPE_CHECKING:
    import psycopg


class PostgresEffectStore:
    """Keeps records in the table `attractor_effects`, made if it is missing, of the database that `conninfo` names.

    `conninfo` is a connection string or URL of libpq. One connection is opened when it is first needed, used from
    worker threads by one call at a time, and closed by `close()`. A connection that was lost is opened again, once a
    call. Raises psycopg.Error if the database can't be used, PipelineConfigurationError without psycopg.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = Lock()

    async def find(self, key: str) -> EffectRecord | None:
        row, _ = await self._run(statements.FIND, {"key": key})
        return statements.read_row(row)

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
        def close() -> None:
            with self._lock:
                connection, self._connection = self._connection, None
                if connection is not None:
                    connection.close()

        await anyio.to_thread.run_sync(close)

    async def _change(self, statement: str, values: Mapping[str, Any]) -> bool:
        _, count = await self._run(statement, values)
        return count > 0

    async def _run(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, int]:
        return await anyio.to_thread.run_sync(partial(self._execute, _to_psycopg(statement), values))

    def _execute(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, int]:
        driver = _load_driver()
        with self._lock:
            fresh = self._connection is None
            try:
                return self._ask(driver, statement, values)
            except driver.OperationalError:
                # An idle connection breaks when the server is restarted. Asking twice does no harm.
                if fresh or self._connection is None or not self._connection.closed:
                    raise
                self._connection = None
                return self._ask(driver, statement, values)

    def _ask(self, driver: Any, statement: str, values: Mapping[str, Any]) -> tuple[Any, int]:
        if self._connection is None:
            connection = driver.connect(self._conninfo, autocommit=True)
            try:
                _make_table(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        assert self._connection is not None
        cursor = self._connection.execute(statement, values)
        return (cursor.fetchone() if cursor.description else None), cursor.rowcount


def _make_table(connection: Any) -> None:
    """Two that make the same table at once collide in PostgreSQL, `IF NOT EXISTS` or not: they take turns."""
    if connection.execute("SELECT to_regclass('attractor_effects')").fetchone()[0] is not None:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('attractor_effects'))")
        connection.execute(statements.TABLE)


def _to_psycopg(statement: str) -> str:
    return re.sub(r":(\w+)", r"%(\1)s", statement)


def _load_driver() -> Any:
    try:
        # An import of an optional extra.
        import psycopg
    except ImportError as error:
        raise PipelineConfigurationError(
            "effects in PostgreSQL need psycopg: install attractor-engine[postgres]"
        ) from error
    return psycopg
