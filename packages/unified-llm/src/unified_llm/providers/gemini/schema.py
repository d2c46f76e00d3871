"""JSON Schema as the Gemini API takes it: whole, but with references resolved. Pure.

The API resolves references to `$defs` only, and refuses anything beside a `$ref`. So what is referred to is put in its
place. Only a schema that contains itself keeps its references.
"""

from typing import Any

_Json = dict[str, Any]

_DEFINITIONS = ("$defs", "definitions")
# Their values are data, in which "$ref" would be a plain key.
_DATA = frozenset(("const", "enum", "default", "examples"))
_MOST_PLACES = 10_000


def resolve_references(schema: _Json) -> _Json:
    """The schema with every reference replaced by what it refers to; the same object if there is none.

    References that lead back to themselves stay, as do those that lead nowhere, and all of them where the schema would
    grow beyond reason.
    """
    if not _has_references(schema):
        return schema
    resolver = _Resolver(schema)
    resolved: _Json = resolver.resolve({key: schema[key] for key in schema if key not in _DEFINITIONS}, ())
    if resolver.places > _MOST_PLACES:
        return schema
    if resolver.kept:
        resolved.update({key: schema[key] for key in _DEFINITIONS if key in schema})
    return resolved


def _has_references(node: Any) -> bool:
    if isinstance(node, dict):
        return "$ref" in node or any(_has_references(value) for key, value in node.items() if key not in _DATA)
    return isinstance(node, list) and any(_has_references(item) for item in node)


class _Resolver:
    def __init__(self, root: _Json) -> None:
        self.kept = False
        self.places = 0
        self._root = root

    def resolve(self, node: Any, path: tuple[str, ...]) -> Any:
        """`node` without references; `path` are those that led to it."""
        self.places += 1
        if self.places > _MOST_PLACES:
            return node
        if isinstance(node, list):
            return [self.resolve(item, path) for item in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference)
            if target is None or reference in path:
                self.kept = True
                return {"$ref": reference}
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return self.resolve({**target, **beside}, (*path, reference))
        return {key: value if key in _DATA else self.resolve(value, path) for key, value in node.items()}

    def _target(self, reference: str) -> _Json | None:
        if not reference.startswith("#"):
            return None
        node: Any = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            elif isinstance(node, dict) and name in node:
                node = node[name]
            else:
                return None
        return node if isinstance(node, dict) else None
