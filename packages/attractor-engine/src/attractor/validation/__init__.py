"""Lint: what is wrong with a pipeline, or will surprise its author (section 7)."""

from attractor.validation.rules import LintRule, validate, validate_or_raise

__all__ = ["LintRule", "validate", "validate_or_raise"]
