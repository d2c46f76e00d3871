"""A search in a process of its own.

Python's regular expressions hold the interpreter while they match, for years if they backtrack. In another process
that leaves the event loop alone, and can be ended.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from agent_loop.environments.base import GrepOptions
from agent_loop.environments.local_search import grep_in_python
from agent_loop.errors import ExecutionEnvironmentError
from agent_loop.text_encoding import to_unicode

# The path of this process, so that the other one finds the very same package.
_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {} import main; main(sys.argv[2])"


def search_command(pattern: str, target: Path, base: Path, options: GrepOptions) -> list[str]:
    """The command line of `grep_in_python` with these arguments, for this interpreter."""
    arguments = {"pattern": pattern, "target": str(target), "base": str(base), "options": asdict(options)}
    program = _PROGRAM.format(__name__)
    return [sys.executable, "-I", "-X", "utf8", "-c", program, json.dumps(sys.path), json.dumps(arguments)]


def main(text: str) -> None:
    """What the other process does: write the result to standard output, as JSON."""
    arguments = json.loads(text)
    target, base, options = Path(arguments["target"]), Path(arguments["base"]), GrepOptions(**arguments["options"])
    try:
        result = {"found": grep_in_python(arguments["pattern"], target, base, options)}
    except ExecutionEnvironmentError as error:
        result = {"error": str(error)}
    sys.stdout.write(json.dumps(result))


def read_result(output: str) -> str:
    """What the search found. Raises ExecutionEnvironmentError, and ValueError if that is no result."""
    result = json.loads(output)
    if "error" in result:
        raise ExecutionEnvironmentError(result["error"])
    # Names of files may hold bytes that are no text.
    return to_unicode(str(result["found"]))
