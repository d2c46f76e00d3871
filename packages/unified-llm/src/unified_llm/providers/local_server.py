"""The program behind `local.py`: a llama.cpp server that runs until its standard input ends.

It is a process of its own because the binding holds the interpreter while it loads and unloads a model, which would
stop every other task, and because a damaged model file can end the process that reads it. Run as
`python local_server.py`; the first line of input is a JSON object of settings (see `main`), the only line of output
is one with `base_url` or `error`.
"""

import json
import os
import signal
import sys
from typing import Any


def serve(settings: dict[str, Any]) -> Any:
    """Load the model and start answering on a free port of loopback. The server ends with the object returned."""
    from xllamacpp import CommonParams, Server  # an optional extra

    params = CommonParams()
    params.model.path = settings["model_path"]
    params.model_alias = {settings["model_name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = settings["context_size"]
    params.cpuparams.n_threads = settings["threads"]
    params.api_keys = settings["api_keys"]
    params.ui = params.warmup = params.endpoint_slots = False
    params.verbosity = -1
    return Server(params)


def main() -> None:
    """Read the settings (model_path, model_name, context_size, threads, api_keys), serve, and wait for the end."""
    # An interrupt at the terminal reaches every process there; when to stop is for the one that started this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    settings = json.loads(sys.stdin.readline())
    try:
        server = serve(settings)
    except Exception as error:
        answer.write(json.dumps({"error": f"{error}"}) + "\n")
        return
    answer.write(json.dumps({"base_url": server.listening_address}) + "\n")
    answer.flush()
    sys.stdin.read()
    os._exit(0)  # the library would wait for open requests


if __name__ == "__main__":
    main()
