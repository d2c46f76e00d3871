"""The project speaks of itself alone: no paths of one machine, no words whose meaning lies outside the repository."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NOT_OURS = {"uv.lock", "LICENSE"}
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.$~-])/(?:work|root|home/\w+|Users/\w+)/"),
    # A variable names where recordings lie; its default is the one thing beside the checkout that may be named.
    "a path outside the repository": re.compile(r"^(?!.*(?:ATTRACTOR_\w+|SHARED)).*\.\./shared", re.MULTILINE),
    "an issue of some tracker": re.compile(r"\bissues? #?\d+\b|\bfixes #\d+\b", re.IGNORECASE),
    "talk about how the work was organised": re.compile(
        r"\b(?:field.reports?|milestone|this session|another session|the brief|sub-?task|co-?worker)\b", re.IGNORECASE
    ),
}
# In what people read: comments, docstrings and pages. Elsewhere such words are data.
RULE = re.compile(r'(?<![\w."-])[UAT](?:[1-9]|[1-3]\d)(?![\w-])')
PROSE = re.compile(r'#[^\n]*|""".*?"""', re.DOTALL)
FORBIDDEN_NAMES = {"helper", "helpers", "common", "misc", "util", "utils", "manager"}


def offences(text: str, *, is_code: bool = False) -> list[str]:
    found = [(match, what) for what, pattern in FORBIDDEN.items() for match in pattern.finditer(text)]
    prose = "\n".join(PROSE.findall(text)) if is_code else text
    return [
        *(
            f"line {text.count(chr(10), 0, match.start()) + 1}: {match.group().strip()!r} is {what}"
            for match, what in found
        ),
        *(f"{match.group()!r} names a rule of a list that readers don't have" for match in RULE.finditer(prose)),
    ]


def test_files_speak_of_the_project_alone(committed_files: list[Path]) -> None:
    found = []
    for path in committed_files:
        if (
            path.name in NOT_OURS
            or path == Path(__file__)
            or path.suffix not in {".py", ".md", ".toml", ".dot", ".sh", ""}
        ):
            continue
        found += [
            f"{path.relative_to(ROOT)}, {offence}"
            for offence in offences(path.read_text(encoding="utf-8"), is_code=path.suffix != ".md")
        ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ["see /home/ann/x", "in ../shared/design", "as issue 12 says", "# U3: quota", "left for the next milestone"],
)
def test_an_offence_is_seen(text: str) -> None:
    assert len(offences(text, is_code=True)) == 1


@pytest.mark.parametrize(
    "text", ["/tmp/x", "a/home/ann/b", '"ATTRACTOR_X", "../shared/x"', "U+2028", "section 4.7", "UTF-8"]
)
def test_a_plain_text_is_left_alone(text: str) -> None:
    assert offences(text, is_code=True) == []


def test_names_say_what_a_module_is(committed_files: list[Path]) -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for path in committed_files
        if path.suffix == ".py"
        and FORBIDDEN_NAMES & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
    ]
    assert not found, f"modules are named after what they are, not {sorted(FORBIDDEN_NAMES)}: {found}"
