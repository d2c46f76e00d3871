"""What `import unified_llm` brings along, and what it offers."""

import json
import subprocess
import sys

import pytest
import unified_llm

ADAPTERS = {name for name in unified_llm.__all__ if name.endswith("Adapter") and name != "ProviderAdapter"}


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


def test_the_import_brings_no_provider_no_http_client_and_no_other_layer() -> None:
    loaded = modules_after("import unified_llm")
    allowed = {"unified_llm.providers", "unified_llm.providers.registry"}
    assert {name for name in loaded if name.startswith("unified_llm.providers")} <= allowed
    assert not loaded & {"httpx", "httpcore", "jsonschema", "agent_loop", "attractor", "anyio.from_thread", "trio"}
    assert "unified_llm.testing" not in loaded


def test_an_adapter_is_imported_when_first_used() -> None:
    loaded = modules_after("from unified_llm import OpenAICompatibleAdapter")
    assert "unified_llm.providers.openai_compatible.adapter" in loaded
    assert "unified_llm.providers.anthropic.adapter" not in loaded


@pytest.mark.parametrize("name", sorted(unified_llm.__all__))
def test_every_public_name_exists(name: str) -> None:
    assert getattr(unified_llm, name).__name__ if name != "Middleware" else unified_llm.Middleware
    assert name in dir(unified_llm)


def test_all_is_complete() -> None:
    public = {
        name
        for name, value in vars(unified_llm).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("unified_llm.")
    }
    assert public | ADAPTERS <= set(unified_llm.__all__)
    assert len(unified_llm.__all__) == len(set(unified_llm.__all__))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        unified_llm.nonsense


def test_the_blocking_names_are_there_without_an_import_of_their_own() -> None:
    loaded = modules_after("import unified_llm; unified_llm.sync.generate")
    assert "unified_llm.sync" in loaded
    assert "unified_llm.sync" not in modules_after("import unified_llm")
