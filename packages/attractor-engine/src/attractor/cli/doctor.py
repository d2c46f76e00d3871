"""The command `doctor`: what this machine offers to pipelines."""

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version

import anyio
import click
from unified_llm import Client, ConfigurationError, LocalAdapter, required_variables

from attractor.cli.failure import FAILED, SUCCESS
from attractor.cli.output import write_json, write_result
from attractor.state.run_directory import default_runs_root

_TOOLS = {
    "dot": "draws graphs (package graphviz)",
    "git": "tells agents about the repository that they work in",
    "rg": "makes searching fast (package ripgrep)",
    "claude": "runs stages with --backend claude",
    "codex": "runs stages with --backend codex",
    "gemini": "runs stages with --backend gemini",
}


@dataclass(frozen=True, slots=True)
class _Finding:
    """`needed` things make `doctor` fail when they are missing."""

    name: str
    ok: bool
    detail: str
    needed: bool = False


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> int:
    """Check what this machine offers to pipelines: versions, providers, a local model, tools, a place for runs.

    Exits 1 if something is missing that every pipeline needs. Nothing is sent anywhere, and no key is shown.

    \b
    Example: attractor doctor
    """
    findings = [*_versions(), *_models(), *_tools(), _runs_root()]
    if as_json:
        write_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark = "ok" if finding.ok else "MISSING" if finding.needed else "-"
            write_result(f"{mark:<8}{finding.name:<20}{finding.detail}")
    return FAILED if any(finding.needed and not finding.ok for finding in findings) else SUCCESS


def _versions() -> Iterator[_Finding]:
    yield _Finding("python", True, platform.python_version())
    for distribution in ("attractor-engine", "agent-loop", "unified-llm"):
        yield _Finding(distribution, True, version(distribution))


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
    yield _Finding("sh", shutil.which("sh") is not None, "runs the commands of tool stages", needed=True)
    for name, purpose in _TOOLS.items():
        path = shutil.which(name)
        yield _Finding(name, path is not None, path or f"not installed; it {purpose}")


def _runs_root() -> _Finding:
    root = default_runs_root(os.environ)
    nearest = next(folder for folder in (root, *root.parents) if folder.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    return _Finding("run directories", writable, f"{root}{'' if writable else ' can not be written'}", needed=True)
