"""How much work a schema makes of one place of a value once its references are followed: counted, never unfolded.

A reference costs its writer a line and the validator a walk, so a short text can ask for endless work. `unfold` counts
in time linear in the schema: it walks the graph of subschemas, with cycles drawn together. What it cannot resolve
exactly (resources with an identifier of their own) it counts for more rather than less.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.pointers import at

# The validator takes 7 ns and more for a subschema at a place. Of a value of 256 KiB, some 10,000 objects or 130,000
# numbers, 512 at every one take 30 ms and 450 ms; two nested unions of 20 kinds of nodes each take 400.
MAX_UNFOLDED: Final = 512

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_ALONE: Final = ("not", "if", "then", "else")
_BY_NAME: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Of these only one applies to each child of a value; of `patternProperties` and `contains` each does.
_CHILDREN: Final = (
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "unevaluatedItems",
)
_LEADING_ON: Final = frozenset(
    (
        *_LISTS,
        *_ALONE,
        *_BY_NAME,
        *_REFERENCES,
        *_CHILDREN,
        "properties",
        "patternProperties",
        "prefixItems",
        "contains",
    )
)
# Identifiers times references: more than a bundle of schemas has, and some 10 ms.
_MAX_LOOKUPS: Final = 10_000
_ESCAPES: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")
# Saturates: a count beyond the bound needs no more digits.
_TOO_MUCH: Final = MAX_UNFOLDED + 1
# What a subschema compares a value with by itself: each member of an `enum`, each name.
_COMPARED: Final = ("enum", "const", "required", "dependentRequired", "dependencies")
# A weight beyond this is as good as infinite: no value is light under it.
MAX_WEIGHT: Final = 1_000_000


class Unfolding(msgspec.Struct, frozen=True):
    """What a schema unfolds to.

    `applied`: the most subschemas that apply at one place of a value, at most `MAX_UNFOLDED` + 1. `multiplies`: whether
    a recursion passes several times through the same place, so that whoever remembers nothing takes exponential time.
    `has_unions`: whether there is an `anyOf` or a `oneOf`. `parts`: how many subschemas are written. `weight`: as
    `applied`, with each member of an `enum` and each name counted too, at most `MAX_WEIGHT`.
    """

    applied: int
    multiplies: bool
    has_unions: bool
    parts: int
    weight: int


class UnfoldError(Exception):
    """The references of a schema are too many to be followed."""


class _Node:
    """A subschema: what applies where it does, what applies to each of one's children, and of what only one does."""

    __slots__ = ("all_of_child", "here", "one_of_child", "own", "times", "weight")

    def __init__(self) -> None:
        self.own = 1
        self.weight = 1
        self.times = 1
        self.here: list[int] = []
        self.one_of_child: list[int] = []
        self.all_of_child: list[int] = []

    def edges(self) -> list[int]:
        return self.here + self.one_of_child + self.all_of_child


def unfold(schema: object) -> Unfolding:
    """Count a schema, which must be JSON and bounded in size. Raises `UnfoldError`."""
    graph = _Graph(schema)
    nodes = graph.nodes
    applied, multiplies = _count(nodes, [node.own for node in nodes], _TOO_MUCH)
    weight = MAX_WEIGHT if multiplies else _count(nodes, [node.weight for node in nodes], MAX_WEIGHT)[0]
    return Unfolding(applied, multiplies, graph.has_unions, len(nodes), weight)


class _Graph:
    """The subschemas that are reached from the root, numbered; the root is 0."""

    def __init__(self, root: object) -> None:
        self._root = root
        self.nodes: list[_Node] = []
        self.has_unions = False
        self._schemas: list[object] = []
        self._numbers: dict[int, int] = {}
        self._resources: list[dict[str, object]] = []
        self._by_tail: dict[str, list[dict[str, object]]] = {}
        self._lookups = 0
        self._anchors: dict[str, list[object]] = {}
        self._find_names()
        self._number(root)
        # Grows while it is walked.
        for schema, node in zip(self._schemas, self.nodes, strict=True):
            if isinstance(schema, dict):
                node.weight = _own_weight(schema)
                if not _LEADING_ON.isdisjoint(schema):
                    self._fill(node, schema)

    def _number(self, schema: object) -> int:
        number = self._numbers.get(id(schema)) if isinstance(schema, dict) else None
        if number is None:
            number = len(self.nodes)
            self._numbers[id(schema)] = number
            self._schemas.append(schema)
            self.nodes.append(_Node())
        return number

    def _find_names(self) -> None:
        waiting = [self._root]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                self._name(value)
                waiting.extend(value.values())
            elif isinstance(value, list):
                waiting.extend(value)

    def _name(self, schema: dict[str, object]) -> None:
        # `id` is draft 4's, and in examples it is a word like others: then nothing is found behind it.
        for key in ("$id", "id"):
            identifier = schema.get(key)
            if isinstance(identifier, str):
                url, _, anchor = identifier.partition("#")
                # Up to draft 7 an identifier may be an anchor.
                self._anchors.setdefault(anchor, []).append(schema)
                self._by_tail.setdefault(_tail(url), []).append(schema)
                if key == "$id" or "$ref" in schema or "definitions" in schema or "properties" in schema:
                    self._resources.append(schema)
        for key in ("$anchor", "$dynamicAnchor"):
            anchor_name = schema.get(key)
            if isinstance(anchor_name, str):
                self._anchors.setdefault(anchor_name, []).append(schema)

    def _fill(self, node: _Node, schema: dict[str, object]) -> None:
        self.has_unions = self.has_unions or "anyOf" in schema or "oneOf" in schema
        if schema.keys() <= {"$ref"}:
            node.own = 0
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            # To know what is left, all that applies here is asked a second time.
            node.times = 2
        node.here = [self._number(part) for part in _here(schema)]
        for key in _REFERENCES:
            node.here.extend(self._number(target) for target in self._targets(schema.get(key)))
        node.one_of_child = [self._number(part) for part in _one_of_child(schema)]
        node.all_of_child = [self._number(part) for part in _all_of_child(schema)]

    def _targets(self, reference: object) -> list[object]:
        if not isinstance(reference, str):
            return []
        url, _, fragment = reference.partition("#")
        fragment = unescape_fragment(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment, [])
        found = [at(base, fragment) for base in self._bases(url)]
        return list({id(target): target for target in found if isinstance(target, dict)}.values())

    def _bases(self, url: str) -> list[object]:
        """The resources that a reference may mean: all with that last step of their address, or else all."""
        bases: list[object] = [*self._by_tail.get(_tail(url), ())] if url else [self._root]
        if not url or not bases or not _tail(url):
            bases.extend(self._resources)
        self._lookups += len(bases)
        if self._lookups > _MAX_LOOKUPS:
            raise UnfoldError
        return bases


def _own_weight(schema: dict[str, object]) -> int:
    """What a value is compared with by the keywords of this subschema alone, and itself."""
    waiting = [schema[key] for key in _COMPARED if key in schema]
    properties = schema.get("properties")
    weight = 1 + len(waiting) + (len(properties) if isinstance(properties, dict) else 0)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            weight += len(value)
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return weight


def _tail(url: str) -> str:
    """The last step of an address; empty where it may be written in several ways."""
    tail = url.rpartition("/")[2].lower()
    return "" if "%" in tail or tail in {".", ".."} else tail


def unescape_fragment(fragment: str) -> str:
    """A fragment of a URL without its percent signs."""
    return _ESCAPES.sub(_unescaped, fragment)


def _unescaped(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode(errors="replace")


def _here(schema: dict[str, object]) -> Iterator[object]:
    for key in _LISTS:
        yield from _listed(schema.get(key))
    for key in _ALONE:
        yield from _schema(schema.get(key))
    for key in _BY_NAME:
        yield from _named(schema.get(key))


def _one_of_child(schema: dict[str, object]) -> Iterator[object]:
    yield from _named(schema.get("properties"))
    yield from _listed(schema.get("prefixItems"))
    yield from _listed(schema.get("items"))
    for key in _CHILDREN:
        yield from _schema(schema.get(key))


def _all_of_child(schema: dict[str, object]) -> Iterator[object]:
    yield from _named(schema.get("patternProperties"))
    yield from _schema(schema.get("contains"))


def _listed(value: object) -> Iterator[object]:
    if isinstance(value, list):
        yield from (part for part in value if isinstance(part, dict | bool))


def _named(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from (part for part in value.values() if isinstance(part, dict | bool))


def _schema(value: object) -> Iterator[object]:
    if isinstance(value, dict | bool):
        yield value


def _count(nodes: list[_Node], own: list[int], cap: int) -> tuple[int, bool]:
    """What the root unfolds to where each node counts for `own`, up to `cap`; and whether a recursion multiplies."""
    here = _places(nodes, own, cap)
    # Of each node, the most that applies at a place below its own.
    deep = [0] * len(nodes)
    multiplies = False
    for group in _components([node.edges() for node in nodes]):
        members = set(group)
        paths = 1
        for number in group:
            paths = min(paths * _passes(nodes[number], members), cap)
        multiplies = multiplies or paths > 1
        below = max(_below(nodes[number], here, deep, members, cap) for number in group)
        if len(group) > 1 or group[0] in nodes[group[0]].edges():
            # What applies at the place of one of a cycle applies below the places of all.
            below = max(below, *(_apart(nodes[number], own[number], here, members) for number in group))
        for number in group:
            deep[number] = min(below * paths, cap)
    return max(here[0], deep[0]), multiplies


def _passes(node: _Node, members: set[int]) -> int:
    """How many ways lead on from a node within its cycle; 1 where there is none."""
    ways = sum(other in members for other in node.here + node.all_of_child)
    return max(1, node.times * (ways + any(other in members for other in node.one_of_child)))


def _below(node: _Node, here: list[int], deep: list[int], members: set[int], cap: int) -> int:
    """The most that applies at one place below that of `node`, its own cycle left out."""
    one = max((max(here[other], deep[other]) for other in node.one_of_child if other not in members), default=0)
    every = sum(max(here[other], deep[other]) for other in node.all_of_child if other not in members)
    beside = sum(deep[other] for other in node.here if other not in members)
    return min((beside + one + every) * node.times, cap)


def _apart(node: _Node, own: int, here: list[int], members: set[int]) -> int:
    """How many subschemas apply at the place of `node`, its own cycle left out."""
    return (own + sum(here[other] for other in node.here if other not in members)) * node.times


def _places(nodes: list[_Node], own: list[int], cap: int) -> list[int]:
    """How many subschemas apply at the very place of each node."""
    counts = [0] * len(nodes)
    for group in _components([node.here for node in nodes]):
        members = set(group)
        inner = max(sum(other in members for other in nodes[number].here) for number in group)
        total = sum(_apart(nodes[number], own[number], counts, members) for number in group)
        # A schema that refers to itself in place means nothing new; one that does so twice is never done.
        total = cap if inner > 1 else min(total, cap)
        for number in group:
            counts[number] = total
    return counts


def _components(edges: list[list[int]]) -> Iterator[list[int]]:
    """The strongly connected components of what is reached from anywhere, those that are pointed at first (Tarjan)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(edges)):
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(edges[root]))]
        while work:
            number, others = work[-1]
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[number])
                if low[number] == order[number]:
                    yield _popped(stack, on_stack, number)
            elif other not in order:
                order[other] = low[other] = len(order)
                stack.append(other)
                on_stack.add(other)
                work.append((other, iter(edges[other])))
            elif other in on_stack:
                low[number] = min(low[number], order[other])


def _popped(stack: list[int], on_stack: set[int], last: int) -> list[int]:
    group = []
    while last in on_stack:
        group.append(stack.pop())
        on_stack.discard(group[-1])
    return group
