"""A stand-in for kubectl: `exec` into pods that are directories of this machine, with its syntax, exit codes and words.

What it starts is no child of it that would end with it: like a container's process it only loses its streams.
    python kubectl.py exec --stdin [--context=C] [--namespace=N] [--container=C] POD -- COMMAND...
"""

import argparse
import os
import subprocess
import sys
import threading
from typing import IO

REFUSED = "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?"


def fail(message: str) -> None:
    print(message, file=sys.stderr)
    sys.exit(1)


def copy(source: IO[bytes], target: IO[bytes]) -> None:
    try:
        while chunk := os.read(source.fileno(), 65_536):
            view = memoryview(chunk)
            while view:
                view = view[os.write(target.fileno(), view) :]
    except OSError:
        pass
    target.close()


def main() -> None:
    own, command = sys.argv[1:], []
    if "--" in own:
        own, command = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["exec"])
    parser.add_argument("pod")
    parser.add_argument("-i", "--stdin", action="store_true")
    parser.add_argument("-n", "--namespace", default="default")
    parser.add_argument("-c", "--container")
    parser.add_argument("--context", default="here")
    given = parser.parse_args(own)
    if given.context == "unreachable":
        fail(REFUSED)
    if given.context != "here":
        fail(f'error: context "{given.context}" does not exist')
    if given.pod != "web":
        fail(f'Error from server (NotFound): pods "{given.pod}" not found')
    if given.namespace != "default":
        fail('Error from server (Forbidden): pods "web" is forbidden: User "test" cannot create resource "pods/exec"')
    if given.container is None:
        print('Defaulted container "main" out of: main, sidecar', file=sys.stderr, flush=True)
    elif given.container != "main":
        fail(f"Error from server (BadRequest): container {given.container} is not valid for pod web")
    if not command:
        fail("error: you must specify at least one command for the container")
    run(command, given.stdin)


def run(command: list[str], has_stdin: bool) -> None:
    stdin = subprocess.PIPE if has_stdin else subprocess.DEVNULL
    variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**variables, "POD_TOKEN": "secret", "POD_NAME": "web"},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    pairs = [(process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)]
    threads = [threading.Thread(target=copy, args=pair) for pair in pairs]
    if process.stdin is not None:
        threading.Thread(target=copy, args=(sys.stdin.buffer, process.stdin), daemon=True).start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    code = process.wait()
    code = code if code >= 0 else 128 - code
    if code:
        os.write(2, f"command terminated with exit code {code}\n".encode())
    os._exit(code)


if __name__ == "__main__":
    main()
