"""Pipelines of language model stages, tools and people."""
