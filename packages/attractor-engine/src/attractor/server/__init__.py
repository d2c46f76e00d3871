"""Pipelines and memories over HTTP (extra `server`)."""

from attractor.server.memory import create_memory_app, memory_routes

__all__ = ["create_memory_app", "memory_routes"]
