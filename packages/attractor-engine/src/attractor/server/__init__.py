"""Pipelines and memories over HTTP (extra `server`)."""

from attractor.server.app import create_app
from attractor.server.guard import Hosts
from attractor.server.launch import FixedLauncher, Launch, Launcher, Wishes
from attractor.server.memory import create_memory_app, memory_routes
from attractor.server.redaction import Redactor

__all__ = [
    "FixedLauncher",
    "Hosts",
    "Launch",
    "Launcher",
    "Redactor",
    "Wishes",
    "create_app",
    "create_memory_app",
    "memory_routes",
]
