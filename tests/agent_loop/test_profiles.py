"""What each family of models gets (section 3)."""

from pathlib import Path

import pytest
from agent_loop import (
    LocalExecutionEnvironment,
    ProviderProfile,
    ToolError,
    create_anthropic_profile,
    create_gemini_profile,
    create_openai_compatible_profile,
    create_openai_profile,
)
from agent_loop.tools.read_many_files import MAX_FILES, read_many_files
from unified_llm import get_model_info

SUBAGENTS = ["spawn_agent", "send_input", "wait", "close_agent"]


@pytest.mark.parametrize(
    ("profile", "tools"),
    [
        (create_openai_profile(), ["read_file", "apply_patch", "write_file", "shell", "grep", "glob"]),
        (create_anthropic_profile(), ["read_file", "write_file", "edit_file", "shell", "grep", "glob"]),
        (
            create_gemini_profile(),
            ["read_file", "read_many_files", "write_file", "edit_file", "shell", "grep", "glob", "list_dir"],
        ),
    ],
    ids=lambda value: value.id if isinstance(value, ProviderProfile) else "",
)
def test_tools_are_those_of_the_specification(profile: ProviderProfile, tools: list[str]) -> None:
    assert profile.tool_registry.names() == [*tools, *SUBAGENTS]


@pytest.mark.parametrize("profile", [create_openai_profile(), create_anthropic_profile(), create_gemini_profile()])
def test_what_is_known_of_the_model_is_the_catalogs(profile: ProviderProfile) -> None:
    info = get_model_info(profile.model)
    assert info is not None
    assert profile.context_window_size == info.context_window
    assert profile.knowledge_cutoff == info.knowledge_cutoff is not None
    assert profile.display_name == info.display_name
    assert profile.supports_reasoning


def test_facts_follow_the_model_unless_they_were_set() -> None:
    profile = create_openai_profile("gpt-4o")
    assert (profile.supports_reasoning, profile.context_window_size) == (False, 128_000)
    profile.model = "gpt-5"
    assert (profile.supports_reasoning, profile.context_window_size, profile.display_name) == (True, 400_000, "GPT-5")
    profile.context_window_size = 1_000
    assert profile.for_model("gpt-5").context_window_size == 1_000
    assert profile.for_model("gpt-4o").context_window_size == 128_000
    profile.model = "unheard-of"
    assert (profile.display_name, profile.context_window_size) == ("unheard-of", 1_000)
    assert create_anthropic_profile("unheard-of").context_window_size == 200_000
    assert create_anthropic_profile(context_window_size=5).context_window_size == 5
    local = create_openai_compatible_profile("m", context_window_size=4096, subagents=False)
    assert (local.context_window_size, local.supports_reasoning) == (4096, False)
    assert not set(SUBAGENTS) & set(local.tool_registry.names())


def test_registries_are_independent() -> None:
    profile = create_openai_profile()
    other = profile.for_model("gpt-5")
    other.tool_registry.unregister("shell")
    assert "shell" in profile.tool_registry.names()
    assert "shell" in create_openai_profile().tool_registry.names()


def test_provider_options() -> None:
    safety = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "threshold": "BLOCK_NONE"}
    gemini = create_gemini_profile(safety_settings=[safety], gemini_options={"cachedContent": "x"})
    assert gemini.provider_options() == {"gemini": {"cachedContent": "x", "safetySettings": [safety]}}
    assert create_openai_profile(openai_options={"store": True}).provider_options() == {"openai": {"store": True}}
    assert create_anthropic_profile(beta_headers=["b"]).provider_options() == {"anthropic": {"beta_headers": ["b"]}}
    assert create_gemini_profile().provider_options() is None


async def test_read_many_files(environment: LocalExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name, text in {"a.txt": "A\n", "src/b.py": "B", "src/c.py": "C\n", "src/d.py": "D\n"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "src/e.py").write_bytes(b"\0")
    found = await read_many_files(
        {"include": ["a.txt", "missing.txt", "src/*.py", "./a.txt"], "exclude": ["src/d.py"]}, environment
    )
    assert found == (
        "--- a.txt ---\nA\n\n--- src/b.py ---\nB\n\n--- src/c.py ---\nC\n\n"
        f"--- not read ---\nmissing.txt: no such file: {tmp_path}/missing.txt\nsrc/e.py: not a text file"
    )
    with pytest.raises(ToolError, match="no files match"):
        await read_many_files({"include": ["*.rs"]}, environment)


async def test_read_many_files_is_bounded(environment: LocalExecutionEnvironment, tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        (tmp_path / f"{number:03}.txt").write_text("x" * 20_000)
    found = await read_many_files({"include": ["*.txt"]}, environment)
    assert found.count("xx ---") == 0
    assert len(found) < 1_100_000
    assert f"{MAX_FILES:03}.txt: more than {MAX_FILES} files" in found
    assert "099.txt: too much text before it" in found
