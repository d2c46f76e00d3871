"""The five layers (section 6 and 9.8), in a real repository."""

import subprocess
from pathlib import Path

import pytest
from agent_loop import (
    LocalExecutionEnvironment,
    ProviderProfile,
    create_anthropic_profile,
    create_gemini_profile,
    create_openai_compatible_profile,
    create_openai_profile,
)
from agent_loop.system_prompt import (
    PROJECT_DOCS_BUDGET,
    PROJECT_DOCS_TRUNCATED,
    discover_project_docs,
    take_git_snapshot,
)

PROFILES = [
    create_anthropic_profile(),
    create_openai_profile(),
    create_gemini_profile(),
    create_openai_compatible_profile("some-model", provider="local"),
]


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=trunk"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-m", "First commit")
    (tmp_path / "a").write_text("2")
    (tmp_path / "b").touch()
    (tmp_path / "c").touch()
    return tmp_path


async def test_git_snapshot(repository: Path) -> None:
    (repository / "sub").mkdir()
    snapshot = await take_git_snapshot(LocalExecutionEnvironment(repository / "sub"))
    assert snapshot is not None
    assert snapshot.root == str(repository)
    assert (snapshot.branch, snapshot.modified, snapshot.untracked) == ("trunk", 1, 2)
    assert [line.split(" ", 1)[1] for line in snapshot.recent_commits] == ["First commit"]


async def test_no_snapshot_without_repository_or_git(tmp_path: Path) -> None:
    assert await take_git_snapshot(LocalExecutionEnvironment(tmp_path)) is None
    assert await take_git_snapshot(LocalExecutionEnvironment(tmp_path, variables={"PATH": "/nowhere"})) is None


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.id)
async def test_layers_come_in_order(repository: Path, profile: ProviderProfile) -> None:
    environment = LocalExecutionEnvironment(repository)
    profile.knowledge_cutoff = "2025-06"
    prompt = profile.build_system_prompt(
        environment,
        "PROJECT DOCS",
        git=await take_git_snapshot(environment),
        today="2026-01-02",
        user_instructions="USER INSTRUCTIONS",
    )
    block = f"""<environment>
Working directory: {repository}
Is git repository: true
Git branch: trunk
Platform: {environment.platform()}
OS version: {environment.os_version()}
Today's date: 2026-01-02
Model: {profile.display_name}
Knowledge cutoff: 2025-06
</environment>"""
    layers = [
        profile.base_instructions.strip(),
        block,
        "First commit",
        "# Available tools",
        "PROJECT DOCS",
        "USER INSTRUCTIONS",
    ]
    places = [prompt.index(layer) for layer in layers]
    assert places == sorted(places)
    assert prompt.endswith("USER INSTRUCTIONS")
    for tool in profile.tools():
        assert f"- {tool.name}: {tool.description}" in prompt


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.id)
def test_prompts_speak_only_of_tools_that_are_there(profile: ProviderProfile) -> None:
    for name in ("apply_patch", "spawn_agent", "web_fetch", "list_dir", "edit_file", "read_file", "shell"):
        if name in profile.base_instructions:
            assert name in profile.tool_registry.names()
    assert ("apply_patch" if profile.id == "openai" else "edit_file") in profile.base_instructions


async def test_documents_from_the_root_down_and_only_the_profiles(tmp_path: Path) -> None:
    deep = tmp_path / "src" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("root agents")
    (tmp_path / "CLAUDE.md").write_text("root claude")
    (tmp_path / "GEMINI.md").write_text("root gemini")
    (deep / "AGENTS.md").write_text("deep agents")
    (deep / ".codex").mkdir()
    (deep / ".codex/instructions.md").write_text("deep codex")
    (tmp_path.parent / "AGENTS.md").unlink(missing_ok=True)
    environment = LocalExecutionEnvironment(deep)

    async def found(profile: ProviderProfile) -> list[str]:
        docs = await discover_project_docs(environment, profile.project_doc_names, str(tmp_path))
        return [line for line in docs.splitlines() if line.startswith(("root", "deep"))]

    assert await found(create_anthropic_profile()) == ["root agents", "root claude", "deep agents"]
    assert await found(create_gemini_profile()) == ["root agents", "root gemini", "deep agents"]
    assert await found(create_openai_profile()) == ["root agents", "deep agents", "deep codex"]
    assert (
        await discover_project_docs(environment, ["AGENTS.md"])
        == f"# Instructions from {deep}/AGENTS.md\n\ndeep agents"
    )


async def test_documents_are_cut_at_the_budget(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("é" * 40_000)
    docs = await discover_project_docs(LocalExecutionEnvironment(tmp_path), ["AGENTS.md"])
    assert docs.endswith(PROJECT_DOCS_TRUNCATED)
    assert len(docs.removesuffix(f"\n\n{PROJECT_DOCS_TRUNCATED}").encode()) in (
        PROJECT_DOCS_BUDGET,
        PROJECT_DOCS_BUDGET - 1,
    )


async def test_unreadable_documents_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    (tmp_path / "CLAUDE.md").write_bytes(b"\0")
    assert await discover_project_docs(LocalExecutionEnvironment(tmp_path), ["AGENTS.md", "CLAUDE.md", "X.md"]) == ""


async def test_documents_above_a_working_directory_that_is_reached_by_a_symlink(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (repository / "AGENTS.md").write_text("from the root")
    (repository / "sub").mkdir()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "checkout").symlink_to(repository)
    for directory in (repository / "sub", elsewhere / "checkout" / "sub", elsewhere / "checkout"):
        environment = LocalExecutionEnvironment(directory)
        snapshot = await take_git_snapshot(environment)
        assert snapshot is not None
        assert "from the root" in await discover_project_docs(environment, ["AGENTS.md"], snapshot.root)


async def test_a_document_under_two_names_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("the rules\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/AGENTS.md").write_text("more rules\n")
    (tmp_path / "sub/CLAUDE.md").symlink_to("../AGENTS.md")
    environment = LocalExecutionEnvironment(tmp_path / "sub")
    docs = await discover_project_docs(environment, ["AGENTS.md", "CLAUDE.md"], str(tmp_path))
    assert docs == (
        f"# Instructions from {tmp_path}/AGENTS.md\n\nthe rules\n\n"
        f"# Instructions from {tmp_path}/sub/AGENTS.md\n\nmore rules"
    )


@pytest.mark.parametrize(
    ("profile", "own"),
    [
        (create_openai_profile(), ["apply_patch", "*** Begin Patch"]),
        (create_anthropic_profile(), ["edit_file", "once"]),
        (create_gemini_profile(), ["edit_file", "GEMINI.md"]),
    ],
    ids=["openai", "anthropic", "gemini"],
)
def test_prompts_cover_what_they_must(profile: ProviderProfile, own: list[str]) -> None:
    """Who the model is, its tools, how to code, and what is particular to the family (section 6.2)."""
    prompt = profile.base_instructions
    assert prompt.startswith("You are ")
    for topic in ("read_file", "shell", "test", "error", *own):
        assert topic in prompt
