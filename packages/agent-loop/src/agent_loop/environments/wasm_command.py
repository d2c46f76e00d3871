"""The commands that the WASM environment understands, which has no shell."""

import posixpath
import re
import shlex
from dataclasses import dataclass

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
# A program for stdin, as a shell takes it word for word.
_HERE_DOCUMENT = re.compile(r"(?P<line>[^\n]*?)<<\s*(['\"])(?P<end>\w+)\2[ \t]*\n(?P<text>.*\n)?(?P=end)\s*", re.DOTALL)
_TAKES_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_USAGE = (
    "there is no shell here, and no program but Python: `python FILE ARGUMENTS`, `python -c CODE`, `python -m MODULE`, "
    "or `python - <<'END'` with the program's lines and END below it. Words are quoted as in a shell, nothing is "
    "expanded, and there are no pipes, redirections, or several commands in one"
)


class UnknownCommandError(ValueError):
    """Not one of these commands. The message says which there are."""


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """What follows `python`, and its stdin."""

    arguments: list[str]
    stdin: str = ""


def parse_command(command: str, directory: str) -> PythonCommand:
    """Raises UnknownCommandError. A program's file is named from `directory`, where it will run."""
    found = _HERE_DOCUMENT.fullmatch(command.strip())
    line, stdin = (found["line"], found["text"] or "") if found else (command.strip(), "")
    try:
        words = shlex.split(line)
        # Operators stand alone here, unless they are quoted; whether they are, only the other one tells.
        lexer = shlex.shlex(line, posix=False, punctuation_chars="();<>|&\n")
        lexer.whitespace = " \t\r"
        lexer.commenters = ""
        operators = [token for token in lexer if set(token) <= set("();<>|&\n")]
    except ValueError as error:
        raise UnknownCommandError(f"{error}; {_USAGE}") from None
    if not words or not _PYTHON.fullmatch(words[0]):
        raise UnknownCommandError(f"{words[0] if words else 'nothing'}: not found; {_USAGE}")
    if operators:
        raise UnknownCommandError(f"{operators[0].strip() or 'a second line'} is not understood; {_USAGE}")
    return PythonCommand(_with_absolute_file(words[1:], directory), stdin)


def _with_absolute_file(arguments: list[str], directory: str) -> list[str]:
    """Python looks for its file before it can be told where it runs."""
    takes_value = False
    for index, argument in enumerate(arguments):
        if takes_value:
            takes_value = False
        elif argument in _TAKES_VALUE:
            takes_value = True
        elif argument == "-" or re.match(r"-[A-Za-z]*[cm]", argument):
            break
        elif not argument.startswith("-"):
            return [*arguments[:index], posixpath.join(directory, argument), *arguments[index + 1 :]]
    return arguments
