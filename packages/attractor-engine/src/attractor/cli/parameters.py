"""Kinds of values that options and arguments take, each with a plain word on what is wrong with another."""

import math
import os
from typing import Any

import click


class Place(click.Path):
    """A file or a directory. An empty name, which a shell makes of an unset variable, is not the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if os.fspath(value) == "":
            self.fail("the name is empty.", param, ctx)
        return super().convert(value, param, ctx)


class Whole(click.IntRange):
    """A whole number of a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            upward = f"from {self.min} to {self.max}" if self.max is not None else f"of {self.min} or more"
            self.fail(f"{value!r} is not a whole number {upward}.", param, ctx)


class Amount(click.types.FloatParamType):
    """An amount of money in US dollars."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            amount = float(value)
        except ValueError:
            amount = math.nan
        if not 0 <= amount < math.inf:
            self.fail(f"{value!r} is not an amount in US dollars, such as 2.50.", param, ctx)
        return amount
