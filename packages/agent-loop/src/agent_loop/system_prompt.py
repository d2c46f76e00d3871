"""The five layers of the system prompt (section 6)."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from unified_llm import Tool

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.errors import ExecutionEnvironmentError
from agent_loop.text_encoding import to_unicode

PROJECT_DOCS_BUDGET = 32 * 1024
PROJECT_DOCS_TRUNCATED = "[Project instructions truncated at 32KB]"
_GIT_TIMEOUT_MS = 5_000
_RECENT_COMMITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSnapshot:
    """The repository as it was at the session's start (section 6.4)."""

    root: str
    branch: str
    modified: int
    untracked: int
    recent_commits: tuple[str, ...]


async def take_git_snapshot(environment: ExecutionEnvironment) -> GitSnapshot | None:
    """None where there is no repository, or no git."""
    root = await _git(environment, "rev-parse --show-toplevel")
    if not root:
        return None
    # Git names the root without symlinks; the working directory's own name for it is the one to walk down from.
    directory = environment.working_directory().rstrip("/")
    prefix = (await _git(environment, "rev-parse --show-prefix") or "").rstrip("/")
    if not prefix or directory.endswith(f"/{prefix}"):
        root = directory.removesuffix(prefix).rstrip("/") or "/"
    status = await _git(environment, "status --porcelain") or ""
    entries = [line[:2] for line in status.splitlines()]
    untracked = entries.count("??")
    log = await _git(environment, f"log -{_RECENT_COMMITS} --format='%h %s'") or ""
    return GitSnapshot(
        root=root,
        branch=await _git(environment, "branch --show-current") or "(detached)",
        modified=len(entries) - untracked,
        untracked=untracked,
        recent_commits=tuple(log.splitlines()),
    )


async def _git(environment: ExecutionEnvironment, arguments: str) -> str | None:
    """Output without its last line break, None on failure. --no-optional-locks: looking must not write the index."""
    try:
        result = await environment.exec_command(f"git --no-optional-locks {arguments}", _GIT_TIMEOUT_MS)
    except (ExecutionEnvironmentError, OSError):
        return None
    return result.stdout.rstrip("\n") if result.exit_code == 0 and not result.timed_out else None


async def discover_project_docs(
    environment: ExecutionEnvironment, file_names: Sequence[str], git_root: str | None = None
) -> str:
    """Instruction files from the repository's root down to the working directory, within 32 KB (section 6.5).

    Deeper files come later and so take precedence. A file that isn't text is passed over, and so is one with the very
    text of another, most often a link to it.
    """
    found: dict[str, str] = {}
    for directory in _directories_down_to(environment.working_directory(), git_root):
        for name in file_names:
            path = posixpath.join(directory, name)
            try:
                text = await environment.read_file(path)
            except (ExecutionEnvironmentError, OSError):
                continue
            if text.strip():
                found.setdefault(text.strip(), path)
    docs = to_unicode("\n\n".join(f"# Instructions from {path}\n\n{text}" for text, path in found.items()))
    encoded = docs.encode()
    if len(encoded) <= PROJECT_DOCS_BUDGET:
        return docs
    return encoded[:PROJECT_DOCS_BUDGET].decode(errors="ignore") + f"\n\n{PROJECT_DOCS_TRUNCATED}"


def _directories_down_to(working_directory: str, root: str | None) -> list[str]:
    """From the root to the working directory; only the latter if the root isn't above it."""
    directories = [working_directory]
    while root is not None and directories[0] != root:
        parent = posixpath.dirname(directories[0])
        if parent == directories[0]:
            return [working_directory]
        directories.insert(0, parent)
    return directories


def describe_environment(
    environment: ExecutionEnvironment, git: GitSnapshot | None, *, today: str, model: str, knowledge_cutoff: str | None
) -> str:
    """The block of section 6.3, and the git snapshot of 6.4."""
    lines = [
        "<environment>",
        f"Working directory: {environment.working_directory()}",
        f"Is git repository: {'true' if git is not None else 'false'}",
        *([f"Git branch: {git.branch}"] if git is not None else []),
        f"Platform: {environment.platform()}",
        f"OS version: {environment.os_version()}",
        f"Today's date: {today}",
        f"Model: {model}",
        *([f"Knowledge cutoff: {knowledge_cutoff}"] if knowledge_cutoff else []),
        "</environment>",
    ]
    if git is not None:
        lines += [
            "",
            "Git at the start of the session (run git yourself for the present state):",
            f"Branch {git.branch}, {git.modified} modified and {git.untracked} untracked files",
            *(["Recent commits:", *git.recent_commits] if git.recent_commits else ["No commits yet"]),
        ]
    return "\n".join(lines)


def describe_tools(tools: Sequence[Tool]) -> str:
    """One paragraph a tool; the parameters travel with the request."""
    return "\n".join(["# Available tools", *(f"- {tool.name}: {tool.description}" for tool in tools)]) if tools else ""


def join_layers(layers: Sequence[str]) -> str:
    """Layers that have something to say, in order."""
    return to_unicode("\n\n".join(layer.strip() for layer in layers if layer.strip()))
