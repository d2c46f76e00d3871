"""A programmable coding agent."""
