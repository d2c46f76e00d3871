"""Everything comes from the public package index, whatever machine made the lock file."""

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent.parent
PUBLIC = {"pypi.org", "files.pythonhosted.org"}
INDEX_OPTION = re.compile(
    r"(?:--(?:extra-)?index-url|--default-index|--find-links|PIP_(?:EXTRA_)?INDEX_URL|UV_(?:DEFAULT_)?INDEX)[ =]+"
    r"[\"']?(?:https?|file)://(?P<host>[^/\s\"']*)"
)


def test_lock_names_only_the_public_index() -> None:
    lock = (ROOT / "uv.lock").read_text(encoding="utf-8")
    assert {urlsplit(url).hostname for url in re.findall(r"https?://[^\"\s]+", lock)} == PUBLIC
    kinds = {kind for package in tomllib.loads(lock)["package"] for kind in package["source"]}
    assert kinds <= {"registry", "editable", "virtual"}, f"sources other than the index and this workspace: {kinds}"


def test_no_file_names_another_index(committed_files: list[Path]) -> None:
    found = []
    for path in committed_files:
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {use.group()}" for use in INDEX_OPTION.finditer(text)]
    assert [use for use in found if not any(host in use for host in PUBLIC)] == []


def test_no_project_file_configures_an_index() -> None:
    for path in [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]:
        settings = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("uv", {})
        assert not settings.keys() & {"index", "index-url", "extra-index-url", "find-links"}, path
