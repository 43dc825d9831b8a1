"""Make a schema evident, so that every model takes it: types beside enums, and definitions where they are used.

Nothing that a schema admits changes. What refers to itself keeps its `$ref` and its definition; a schema that would be
too long, or whose references cannot be followed, keeps all of them.
"""

from typing import Final

import msgspec

from tooldispatchd.catalog.forms.drafts import MAX_READ, draft_of, find, parts_within
from tooldispatchd.catalog.forms.merging import spelled, type_of
from tooldispatchd.catalog.forms.rendered import Schema
from tooldispatchd.catalog.pointers import unescape, unescape_fragment
from tooldispatchd.catalog.schemakeywords import HOLDING

# Characters of a schema that is written out: as many as all texts of a rewritten one may have.
MAX_CHARS: Final = 64 * 1024
# As deep as a schema may be in its JSON (`MAX_SCHEMA_DEPTH`): a level here is two there.
MAX_DEPTH: Final = 32
# Parts of all definitions that are looked through for what refers to itself.
MAX_LOOKED_THROUGH: Final = 10_000
# Characters of references: the longest names of 250 definitions have no more.
MAX_REFERRED: Final = 8 * 1024

_DEFINITIONS: Final = ("$defs", "definitions")
_NAMING: Final = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor"})
# What says something of a place and not of its values: beside a reference it stands in the target's place.
_ANNOTATIONS: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id")
)
_encode: Final = msgspec.json.Encoder().encode


def evident(schema: Schema) -> Schema:
    """Give the schema with a type beside each enum and, where nothing is recursive, without references."""
    nodes = parts_within(schema, MAX_READ)
    if nodes is None:
        return schema
    names: set[str] = set()
    is_plain, is_evident = True, True
    for node in nodes:
        if "$ref" in node:
            names.add(str(node["$ref"]))
        elif "type" not in node and ("enum" in node or "const" in node):
            is_evident = False
        is_plain = is_plain and (node is schema or _NAMING.isdisjoint(node))
    if is_evident and not names:
        return schema
    try:
        return _Writing(schema, _straight(names, schema) if is_plain else {}).run()
    except OverflowError:
        return _Writing(schema, {}).run()


def _straight(names: set[str], root: Schema) -> dict[str, Schema]:
    """Find what references mean, but for those that lead back to themselves."""
    if sum(map(len, names)) > MAX_REFERRED:
        return {}
    targets = {name: found for name in names if isinstance(found := find(name, root), dict)}
    left = MAX_LOOKED_THROUGH
    ahead: dict[str, set[str]] = {name: set() for name in targets}
    for name, target in targets.items():
        nodes = parts_within(target, left)
        if nodes is None:
            return {}
        left -= len(nodes)
        ahead[name] |= {str(node["$ref"]) for node in nodes if "$ref" in node}
    return {name: target for name, target in targets.items() if not _leads_back(name, ahead)}


class _Writing:
    """One schema's way, in which each reference to one of `targets` is written out unless it leads back to itself."""

    def __init__(self, root: Schema, targets: dict[str, Schema]) -> None:
        self._root = root
        draft = draft_of(root)
        self._is_old, self._has_const = draft < 2019, draft > 4
        self._targets = targets
        self._left = MAX_CHARS
        self._deepest = 0
        # What each target is written as, its characters, and how deep it is.
        self._written: dict[str, tuple[Schema, int, int]] = {}
        self._kept: set[str] = set()

    def run(self) -> Schema:
        bare = {key: value for key, value in self._root.items() if not self._targets or key not in _DEFINITIONS}
        written = self._part(bare, 0)
        assert isinstance(written, dict)
        # Definitions that something still refers to, which may refer to others.
        tables: dict[str, Schema] = {}
        waiting = self._kept.copy()
        done: set[str] = set()
        while waiting:
            done.add(name := waiting.pop())
            table, _, key = name.removeprefix("#/").partition("/")
            if self._targets and table in _DEFINITIONS:
                key = unescape(unescape_fragment(key.partition("/")[0]))
                holder = self._root.get(table)
                if isinstance(holder, dict) and key in holder:
                    tables.setdefault(table, {})[key] = self._part(holder[key], 1)
            waiting |= self._kept - done
        return written | tables

    def _part(self, node: object, depth: int) -> object:
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference in self._targets:
            return self._in_place(node, self._target(reference, depth), depth)
        if isinstance(reference, str):
            self._kept.add(reference)
        return self._with_parts(node, depth)

    def _target(self, name: str, depth: int) -> Schema:
        """Write a definition once; each further place of it is paid for all the same."""
        if name not in self._written:
            left, deepest, self._deepest = self._left, self._deepest, depth
            # A reference may lead to another one, and that to the next.
            self._pay(0, depth + 1)
            made = self._part(self._targets[name], depth + 1)
            assert isinstance(made, dict)
            self._written[name] = made, left - self._left, self._deepest - depth
            self._deepest = max(deepest, self._deepest)
            return made
        made, chars, height = self._written[name]
        self._pay(chars, depth + height)
        return made

    def _pay(self, chars: int, depth: int) -> None:
        self._left -= chars
        self._deepest = max(self._deepest, depth)
        if self._targets and (self._left < 0 or depth > MAX_DEPTH):
            raise OverflowError

    def _in_place(self, node: Schema, target: Schema, depth: int) -> Schema:
        """Write what a reference means, with what stands beside it."""
        beside = {key: value for key, value in node.items() if key != "$ref"}
        words = {key: value for key, value in beside.items() if key in _ANNOTATIONS}
        if self._is_old:
            return target | words
        # Keywords that hold no schemas say what they say in either place.
        if all(
            key in words or (key not in HOLDING and target.get(key, value) == value) for key, value in beside.items()
        ):
            return target | beside
        return {**self._with_parts(beside, depth), "allOf": [target, *self._listed(beside.get("allOf"), depth)]}

    def _listed(self, parts: object, depth: int) -> list[object]:
        return [self._part(part, depth + 1) for part in parts] if isinstance(parts, list) else []

    def _with_parts(self, node: Schema, depth: int) -> Schema:
        said = {key: value for key, value in node.items() if key not in HOLDING}
        self._pay(len(_encode(said)), depth)
        made = self._types_beside(node) | node
        for keyword in node.keys() & HOLDING.keys():
            value = node[keyword]
            if isinstance(value, dict) and HOLDING[keyword] == "map":
                self._pay(sum(map(len, value)), depth)
                made[keyword] = {name: self._part(part, depth + 1) for name, part in value.items()}
            elif isinstance(value, list):
                made[keyword] = self._listed(value, depth)
            else:
                made[keyword] = self._part(value, depth + 1)
        return made

    def _types_beside(self, node: Schema) -> Schema:
        """Give the types of an enum's values where nothing says them."""
        values = node.get("enum")
        if values is None and self._has_const and "const" in node:
            values = [node["const"]]
        if "type" in node or "$ref" in node or not isinstance(values, list) or not values:
            return {}
        return {"type": spelled(list(dict.fromkeys(type_of(value) for value in values)))}


def _leads_back(name: str, ahead: dict[str, set[str]]) -> bool:
    """Tell whether a reference leads to itself again."""
    seen: set[str] = set()
    waiting = set(ahead[name])
    while waiting:
        seen |= waiting
        waiting = {other for each in waiting for other in ahead.get(each, ())} - seen
    return name in seen
