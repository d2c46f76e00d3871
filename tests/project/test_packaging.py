"""Each package builds, and its wheel stands alone: an empty environment, its declared dependencies, nothing else."""

import ast
import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Package:
    dist: str
    module: str
    needs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return ROOT / "packages" / self.dist

    @property
    def project(self) -> dict[str, Any]:
        table: dict[str, Any] = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return table


PACKAGES = [
    Package("unified-llm", "unified_llm"),
    Package("agent-loop", "agent_loop", needs=("unified-llm",)),
    Package("attractor-engine", "attractor", needs=("unified-llm", "agent-loop")),
]
# What only the pipelines need, and the layers below must not bring along.
PIPELINE_ONLY = {"lark", "click", "rich", "attractor-engine"}
# What an extra brings is imported by these at once: without it there is nothing that they could do.
OF_AN_EXTRA = ("attractor.cli.serve", "attractor.server")
IMPORT_ALL = f"""
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None):
    if not module.name.endswith("__main__") and not module.name.startswith({OF_AN_EXTRA}):
        importlib.import_module(module.name)
for name in package.__all__:
    getattr(package, name)
print(package.__file__)
"""
each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.dist)


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_uv(uv: str, *arguments: str | Path, cwd: Path) -> str:
    """From uv's cache, which set-up has filled; from the network only where the cache lacks something."""
    done = subprocess.run([uv, *arguments, "--offline"], cwd=cwd, capture_output=True, check=False, text=True)
    return done.stdout if done.returncode == 0 else run(uv, *arguments, cwd=cwd)


@pytest.fixture(scope="session")
def built(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of each package, and the wheel built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    interpreter = ("--python", sys.executable, "--no-build-isolation")
    run_uv(uv, "build", "--quiet", "--all-packages", *interpreter, "--out-dir", folder, cwd=ROOT)
    return folder


def only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    assert len(found) == 1, f"{pattern} should be one file, not {found}"
    return found[0]


def wheel_of(built: Path, dist: str) -> Path:
    return only(built, f"{dist.replace('-', '_')}-*.whl")


@pytest.mark.slow
@pytest.mark.xdist_group("packaging")
@each_package
def test_wheel_stands_alone(package: Package, built: Path, uv: str, tmp_path: Path) -> None:
    lock = ("--locked", "--package", package.dist, "--no-dev", "--no-emit-workspace", "--format", "pylock.toml")
    run_uv(uv, "export", "--quiet", *lock, "-o", tmp_path / "pylock.toml", cwd=ROOT)
    python = tmp_path / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    run_uv(uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", cwd=tmp_path)
    run_uv(uv, "pip", "sync", "--quiet", "--python", python, "pylock.toml", cwd=tmp_path)
    wheels = [wheel_of(built, dist) for dist in (*package.needs, package.dist)]
    run_uv(uv, "pip", "install", "--quiet", "--no-deps", "--python", python, *wheels, cwd=tmp_path)

    run(uv, "pip", "check", "--quiet", "--python", python, cwd=tmp_path)
    where = run(python, "-I", "-W", "error", "-c", IMPORT_ALL, package.module, cwd=tmp_path)
    assert str(tmp_path) in where
    installed = {line.partition("==")[0] for line in run(uv, "pip", "freeze", "--python", python, cwd=tmp_path).split()}
    if package.module != "attractor":
        assert not installed & PIPELINE_ONLY
    for script in package.project.get("scripts", {}):
        assert "Usage" in run(python.with_name(script), "--help", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.xdist_group("packaging")
@each_package
def test_wheel_holds_what_it_should(package: Package, built: Path) -> None:
    with zipfile.ZipFile(wheel_of(built, package.dist)) as wheel:
        names = wheel.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(about))
    source = package.folder / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert f"{package.module}/py.typed" in wanted
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert str(metadata.get_payload()).strip() == (package.folder / "README.md").read_text(encoding="utf-8").strip()
    with tarfile.open(only(built, f"{package.dist.replace('-', '_')}-*.tar.gz")) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml", *(f"src/{name}" for name in wanted)} <= inside


def declared(package: Package) -> set[str]:
    project = package.project
    extras = project.get("optional-dependencies", {}).values()
    requirements = [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]
    return {normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in requirements}


def normalized(dist: str) -> str:
    return re.sub(r"[-_.]+", "-", dist).lower()


@each_package
def test_imports_are_declared(package: Package) -> None:
    providers = {**packages_distributions(), **{other.module: [other.dist] for other in PACKAGES}}
    found = set()
    for path in (package.folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    found |= {name.name.partition(".")[0] for name in names}
                case ast.ImportFrom(module=str(module)):
                    found.add(module.partition(".")[0])
    foreign = {name for name in found if name not in sys.stdlib_module_names and name != package.module}
    undeclared = {
        name for name in foreign if not set(map(normalized, [name, *providers.get(name, [])])) & declared(package)
    }
    assert not undeclared, f"{package.dist} imports what its pyproject.toml doesn't declare: {undeclared}"


@each_package
def test_licence_is_the_project_s(package: Package) -> None:
    assert (package.folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
