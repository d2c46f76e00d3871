"""The command `serve`: pipelines over HTTP, and the page."""

import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import click
import uvicorn
from agent_loop.personalization import NotSeededError, PersonalizationError, PersonalMemory, open_store
from starlette.routing import BaseRoute

from attractor.cli.failure import SUCCESS, CommandError
from attractor.cli.memory_engine import EngineChoice, open_engine
from attractor.cli.models import BACKENDS, open_backend
from attractor.cli.output import write_note
from attractor.cli.parameters import Place, Whole
from attractor.cli.providers import check_provider
from attractor.cli.screen import open_screen
from attractor.cli.settings import Settings
from attractor.errors import PipelineConfigurationError
from attractor.graph import Graph
from attractor.server import Hosts, Launch, Redactor, Wishes, create_app, memory_routes
from attractor.server.connection import BoundedProtocol
from attractor.server.guard import LOOPBACK_NAMES, strip_port
from attractor.server.memory import TOKEN_VARIABLE
from attractor.server.redaction import RedactingFilter
from attractor.server.runs import MAX_RUNS
from attractor.state.run_directory import default_runs_root

_SWITCH_SECONDS = 0.0005
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=Whole(0, 65_535), default=7777, show_default=True, help="0 takes a free one.")
@click.option(
    "--token",
    metavar="TOKEN",
    envvar=TOKEN_VARIABLE,
    show_envvar=True,
    help="What clients must present; needed to listen on anything but loopback.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Another name that the server goes by, such as that of a proxy before it; may be repeated.",
)
@click.option("--logs", type=Place(file_okay=False, path_type=Path), help="Where the run directories are.")
@click.option("--backend", type=click.Choice(BACKENDS), metavar="NAME", help="What a model stage is.")
@click.option("--provider", metavar="NAME", help="Provider for stages that name none.")
@click.option("--model", metavar="NAME", help="Model for stages that name none.")
@click.option("--simulate", is_flag=True, help="Call no model, whatever a request says; commands run for real.")
@click.option(
    "--memory",
    type=Place(path_type=Path),
    metavar="FILE",
    help="Offer the memory in this file under /api/attractor, too (see attractor memory).",
)
@click.option(
    "--workdir",
    type=Place(exists=True, file_okay=False, resolve_path=True),
    help="Where tool commands run; the current directory by default.",
)
@click.option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=MAX_RUNS,
    show_default=True,
    help="How many may be under way, waiting ones included; beyond that starting one is answered 503.",
)
def serve(
    host: str,
    port: int,
    token: str | None,
    allowed_hosts: tuple[str, ...],
    logs: Path | None,
    memory: Path | None,
    workdir: str | None,
    max_runs: int,
    **flags: Any,
) -> int:
    """Serve pipelines over HTTP, with a page to watch them.

    Pipelines run commands: whoever may submit one can do on this machine what you can.

    \b
    Example: attractor serve --port 7777 --simulate
    """
    root = (logs or default_runs_root(os.environ)).absolute()
    given = {name: value for name, value in flags.items() if value is not None}
    settings = Settings(assignments={}, workdir=workdir or str(Path.cwd()), **given)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(
            f"the run directories can't be kept in {root} ({error.strerror}); choose another place with --logs."
        ) from error
    redactor = Redactor.from_environment(os.environ, [token] if token else [])
    listener = _listen(host, port, has_token=bool(token))
    hosts = Hosts(
        names=frozenset([*LOOPBACK_NAMES, strip_port(_to_url_host(host)), *(name.lower() for name in allowed_hosts)]),
        addresses=not _is_loopback(listener),
    )
    _log_to_stderr(redactor)
    # Runs have a thread of their own, which should not wait long for the one that answers requests.
    sys.setswitchinterval(_SWITCH_SECONDS)

    async def work() -> None:
        async with AsyncExitStack() as stack:
            await check_provider(settings, os.environ)
            routes = await _open_memory(stack, memory, settings, token) if memory else []
            place = f"http://{_to_url_host(host)}:{listener.getsockname()[1]}"
            write_note(f"Serving on {place} (Ctrl-C stops)\nruns    {root}")
            launcher = _CommandLauncher(settings)
            app = create_app(
                root, launcher, token=token, hosts=hosts, redactor=redactor, max_runs=max_runs, routes=routes
            )
            config = uvicorn.Config(
                app,
                http=BoundedProtocol,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=5,
            )
            await _Server(config, app.state.stop).serve([listener])

    anyio.run(work)
    return SUCCESS


async def _open_memory(stack: AsyncExitStack, place: Path, settings: Settings, token: str | None) -> list[BaseRoute]:
    """The routes of a memory. Without a model it can be read and seeded."""
    engine, model = None, ""
    if not settings.simulated:
        try:
            opened = await stack.enter_async_context(
                open_engine(EngineChoice(provider=settings.provider, model=settings.model))
            )
            engine, model = opened.engine, opened.model
        except CommandError as error:
            write_note(f"The memory can be read and seeded only: {error.format_message()}")
    memory = PersonalMemory(store=open_store(place), engine=engine, model=model)
    try:
        await memory.load()
    except NotSeededError:
        pass  # A request may seed it.
    except PersonalizationError as error:
        raise CommandError(f"{error}.") from error
    return memory_routes(memory, lambda: token)


@dataclass(frozen=True, slots=True)
class _CommandLauncher:
    """Runs get what the command line was told; their manifests keep it as if `attractor run` had started them."""

    settings: Settings

    def make_options(self, wishes: Wishes) -> dict[str, Any]:
        wanted = replace(
            self.settings,
            simulate=self.settings.simulate or wishes.simulate,
            dry_run=self.settings.dry_run or wishes.dry_run,
            auto_approve=self.settings.auto_approve or wishes.auto_approve,
        )
        return wanted.to_record()

    @asynccontextmanager
    async def open(self, graph: Graph, options: Mapping[str, Any]) -> AsyncIterator[Launch]:
        settings = Settings.from_record(options)
        graph = settings.apply(graph)
        screen = open_screen(quiet=True)
        try:
            async with open_backend(graph, settings, screen) as answering:
                yield Launch(
                    graph=graph,
                    backend=answering.backend,
                    handlers=answering.handlers,
                    auto_approve=settings.auto_approve,
                    dry_run=settings.dry_run,
                    working_dir=settings.workdir or None,
                    context=settings.context,
                )
        except CommandError as error:
            raise PipelineConfigurationError(error.format_message()) from error
        finally:
            screen.close()


class _Server(uvicorn.Server):
    """Ends the streams of events before it waits for connections to end, and ends well when a signal asks it to."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike the inherited one doesn't raise the signals again in the end."""
        # What nohup had ignored stays ignored.
        heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self.handle_exit) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._end_streams()
        super().handle_exit(sig, frame)


def _listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """Raises CommandError where the address can't be had, or strangers could reach it."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise CommandError(f"{host!r} is no address of this machine: {error.strerror}.") from error
    if not has_token and not ipaddress.ip_address(address[0]).is_loopback:
        raise CommandError(
            f"{host} can be reached from other machines, and whoever reaches the server can run commands here: give it "
            f"a token with --token or {TOKEN_VARIABLE}, or listen on 127.0.0.1."
        )
    try:
        return socket.create_server(address, family=family, backlog=2048)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise CommandError(f"can't listen on {host}, port {port}: {reason}; choose another.") from error


def _is_loopback(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _to_url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _log_to_stderr(redactor: Redactor) -> None:
    """What the server has to tell goes to stderr, without secrets."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s  %(levelname)s  %(message)s"))
    handler.addFilter(RedactingFilter(redactor))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
