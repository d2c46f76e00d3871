"""The `attractor` command."""

from attractor.cli.app import main

__all__ = ["main"]
