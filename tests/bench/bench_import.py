"""What `import` of each package costs a fresh process: time and memory, beside the libraries it stands on."""

import json
import subprocess
import sys
from collections.abc import Iterator

Row = tuple[str, float, str, float | None, float | None]
"""Name, value, unit, ratio to a baseline, and the limit that value or ratio must keep; None where there is none."""

# The peak that getrusage knows is the parent's too, so the memory is read from /proc where there is one.
SCRIPT = """
import json, os, resource, time
begun = time.perf_counter()
{statement}
milliseconds = (time.perf_counter() - begun) * 1000
if os.path.exists("/proc/self/statm"):
    memory = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
else:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([milliseconds, memory / 1024**2]))
"""
PROCESSES = 9


def measure(statement: str) -> tuple[float, float]:
    """Milliseconds and megabytes, the best of some processes."""
    results = []
    for _ in range(PROCESSES):
        command = [sys.executable, "-c", SCRIPT.format(statement=statement)]
        results.append(json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    return min(time for time, _ in results), min(memory for _, memory in results)


def rows() -> Iterator[Row]:
    """Each package; unified_llm must cost no more than httpx and pydantic together, give or take a busy machine."""
    base_time, base_memory = measure("import httpx, pydantic")
    yield "import httpx, pydantic: time", base_time, "ms", None, None
    yield "import httpx, pydantic: memory", base_memory, "MB", None, None
    for package in ("unified_llm", "agent_loop", "attractor"):
        time, memory = measure(f"import {package}")
        limit = 1.15 if package == "unified_llm" else None
        yield f"import {package}: time", time, "ms", time / base_time, limit
        yield f"import {package}: memory", memory, "MB", memory / base_memory, limit
