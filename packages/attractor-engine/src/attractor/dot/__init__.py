"""DOT in and out: the parser, the formatter and the picture (section 2)."""

from attractor.dot.formatter import format_source
from attractor.dot.parser import parse_dot
from attractor.dot.svg import render_svg
from attractor.dot.writer import format_graph

__all__ = ["format_graph", "format_source", "parse_dot", "render_svg"]
