"""Fixtures of the unified_llm tests: recorded traffic, and the harness that replays it."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

ROOT = Path(__file__).parent.parent.parent


def _load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"unified_llm_tests_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_replay = _load_module(Path(__file__).with_name("replay.py"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "recordings(api, where=None): run once for every recorded exchange of that protocol, "
        "or for those of which the attribute that `where` names (stream, ends_well) is true",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("recordings")
    if marker is None:
        return
    folder = Path(os.environ.get("ATTRACTOR_RECORDINGS", ROOT / "../shared/recordings")).resolve()
    if folder.is_dir():
        where = marker.kwargs.get("where")
        found = [
            pytest.param(recording, id=recording.id)
            for recording in _replay.load(folder, *marker.args)
            if where is None or getattr(recording, where)
        ]
    else:
        reason = f"no recorded provider traffic at {folder} (ATTRACTOR_RECORDINGS names the directory)"
        found = [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")]
    metafunc.parametrize("recording", found)


@pytest.fixture(scope="session")
def official_types() -> ModuleType:
    """The module `official_types.py`: `problems_of`, by the providers' own SDKs."""
    return _load_module(Path(__file__).with_name("official_types.py"))


@pytest.fixture(scope="session")
def official_samples() -> ModuleType:
    """The module `official_samples.py`: values of the types that the providers' own SDKs have for answers."""
    return _load_module(Path(__file__).with_name("official_samples.py"))


@pytest.fixture(scope="session")
def replay() -> ModuleType:
    """The module `replay.py`: `replay`, `check`, `check_discipline`, `pieces`."""
    return _replay
