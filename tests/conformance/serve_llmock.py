"""Serves llmock on loopback for the tests: prints its address, and ends when standard input does.

A process of its own, so that the server's threads and warnings stay out of the test run.
"""

import sys

from llmock.testing import LLMockServer


def main() -> None:
    with LLMockServer() as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
