"""How much work a schema makes of one place of a value once its references are followed: counted, never unfolded.

A reference costs its writer a line and the validator a walk, so a short text can ask for endless work. `unfold` counts
in time linear in the schema, in one walk of the graph of subschemas: what is counted of a subschema is remembered, and
a reference back to one that is still being counted ends the lap of a recursion. What cannot be resolved exactly
(resources with an identifier of their own) is counted for more rather than less.
"""

from collections.abc import Iterable, Iterator
from math import log10
from typing import Final

import msgspec

from tooldispatchd.catalog.pointers import at, unescape_fragment

# The validator takes 7 ns and more for a subschema at a place. Of a value of 256 KiB, some 10,000 objects or 130,000
# numbers, 512 at every one take 30 ms and 450 ms; two nested unions of 20 kinds of nodes each take 400.
MAX_UNFOLDED: Final = 512
# A weight beyond this is as good as infinite: no value is light under it.
MAX_WEIGHT: Final = 1_000_000
_TOO_MUCH: Final = MAX_UNFOLDED + 1
# Identifiers times references: more than a bundle of schemas has, and some 10 ms.
_MAX_LOOKUPS: Final = 10_000

# Keywords whose schemas apply to the place itself.
_HERE: Final = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"))
# Of these only one applies to each child of a value; of `patternProperties` and `contains` each does.
_ONE_OF_CHILD: Final = frozenset(
    (
        *("properties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("prefixItems", "items", "additionalItems", "unevaluatedItems"),
    )
)
_ALL_OF_CHILD: Final = frozenset(("patternProperties", "contains"))
# These hold schemas by name.
_NAMED: Final = frozenset(("dependentSchemas", "dependencies", "properties", "patternProperties"))
_REFERENCES: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
# Of an integer that is compared as such.
_WORD_BITS: Final = 63
# What a subschema compares a value with by itself: each member of an `enum`, each name.
_COMPARED: Final = ("enum", "const", "required", "dependentRequired", "dependencies")


class Unfolding(msgspec.Struct, frozen=True):
    """What a schema unfolds to.

    `applied`: the most subschemas that apply at one place of a value, at most `MAX_UNFOLDED` + 1. `multiplies`: whether
    a recursion may pass several times through the same place, so that a walk without a memory takes exponential time.
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

    def __init__(self, times: int = 1, here: Iterable[int] = ()) -> None:
        self.own = 1
        self.weight = 1
        self.times = times
        self.here = list(here)
        self.one_of_child: list[int] = []
        self.all_of_child: list[int] = []


def unfold(schema: object) -> Unfolding:
    """Count a schema, which must be JSON and bounded in size. Raises `UnfoldError`."""
    graph = _Graph(schema)
    nodes = graph.nodes
    in_place, _ = _ordered([node.here for node in nodes])
    everywhere, closing = _ordered([node.here + node.one_of_child + node.all_of_child for node in nodes])
    laps = _laps(nodes, everywhere)
    multiplies = laps > 1
    is_endless = _laps([_Node(node.times, node.here) for node in nodes], in_place) > 1
    if multiplies:
        # Each lap may ask for as much again: what counts is one of them, and how often the next one begins.
        for number, other in closing:
            nodes[number].here = [each for each in nodes[number].here if each != other]
    applied = max(laps, _count(nodes, [node.own for node in nodes], in_place, everywhere, _TOO_MUCH))
    weights = [node.weight for node in nodes]
    weight = MAX_WEIGHT if multiplies else _count(nodes, weights, in_place, everywhere, MAX_WEIGHT)
    return Unfolding(_TOO_MUCH if is_endless else applied, multiplies, graph.has_unions, len(nodes), weight)


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
        self._anchors: dict[str, list[object]] = {}
        self._lookups = 0
        self._find_names()
        self._number(root)
        # Grows while it is walked.
        for schema, node in zip(self._schemas, self.nodes, strict=True):
            if isinstance(schema, dict):
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
        """Note every identifier and anchor, wherever it stands."""
        waiting = [self._root]
        while waiting:
            value = waiting.pop()
            if isinstance(value, list):
                waiting.extend(value)
            if not isinstance(value, dict):
                continue
            waiting.extend(value.values())
            # `id` is draft 4's, and in examples it is a word like others: then nothing is found behind it.
            for key in ("$id", "id"):
                identifier = value.get(key)
                if isinstance(identifier, str):
                    url, _, anchor = identifier.partition("#")
                    # Up to draft 7 an identifier may be an anchor.
                    self._anchors.setdefault(anchor, []).append(value)
                    self._by_tail.setdefault(_tail(url), []).append(value)
                    if key == "$id" or not value.keys().isdisjoint(("$ref", "definitions", "properties")):
                        self._resources.append(value)
            for key in ("$anchor", "$dynamicAnchor"):
                anchor_name = value.get(key)
                if isinstance(anchor_name, str):
                    self._anchors.setdefault(anchor_name, []).append(value)

    def _fill(self, node: _Node, schema: dict[str, object]) -> None:
        if schema.keys() == {"$ref"}:
            node.own = node.weight = 0
        else:
            # What a value is compared with by the keywords of this subschema alone, and itself.
            waiting = [schema[key] for key in _COMPARED if key in schema]
            properties = schema.get("properties")
            node.weight = (
                1 + len(waiting) + (len(properties) if isinstance(properties, dict) else 0) + _by_value(schema)
            )
            while waiting:
                compared = waiting.pop()
                if isinstance(compared, dict | list):
                    node.weight += len(compared)
                    waiting.extend(compared.values() if isinstance(compared, dict) else compared)
        for key, value in schema.items():
            if key in _REFERENCES:
                node.here += [self._number(target) for target in self._targets(value)]
            elif key in _HERE:
                node.here += [self._number(part) for part in _held(key, value)]
                self.has_unions = self.has_unions or key in {"anyOf", "oneOf"}
            elif key in _ONE_OF_CHILD:
                node.one_of_child += [self._number(part) for part in _held(key, value)]
            elif key in _ALL_OF_CHILD:
                node.all_of_child += [self._number(part) for part in _held(key, value)]
            if key in {"unevaluatedProperties", "unevaluatedItems"}:
                # To know what is left, all that applies here is asked a second time.
                node.times = 2

    def _targets(self, reference: object) -> list[object]:
        if not isinstance(reference, str):
            return []
        url, _, fragment = reference.partition("#")
        fragment = unescape_fragment(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment, [])
        # The resources that it may mean: all with that last step of their address, or else all.
        bases: list[object] = [*self._by_tail.get(_tail(url), ())] if url else [self._root]
        if not url or not bases or not _tail(url):
            bases.extend(self._resources)
        self._lookups += len(bases)
        if self._lookups > _MAX_LOOKUPS:
            raise UnfoldError
        found = [at(base, fragment) for base in bases]
        return list({id(target): target for target in found if isinstance(target, dict)}.values())


def _by_value(schema: dict[str, object]) -> int:
    """What keywords take that compare more than once, as far as a value can make them: in comparisons."""
    weight = 0
    if schema.get("uniqueItems") is True:
        # A number with a negative exponent is hashed as a fraction.
        weight += 16
    factor = schema.get("multipleOf")
    if isinstance(factor, float) and factor > 0:
        # In fractions, as long as the exponents: 1 to 7 µs for 0.1, up to 24 for 1e-300.
        weight += 100 + max(0, round(-log10(factor)))
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        bound = schema.get(key)
        # In fractions too where it is over 64 bits.
        weight += 16 if isinstance(bound, int) and bound.bit_length() > _WORD_BITS else 0
    return weight


def _tail(url: str) -> str:
    """The last step of an address; empty where it may be written in several ways."""
    tail = url.rpartition("/")[2].lower()
    return "" if "%" in tail or tail in {".", ".."} else tail


def _held(key: str, value: object) -> Iterator[object]:
    """The schemas that a keyword holds: by name, as a list, or one."""
    if key in _NAMED:
        value = list(value.values()) if isinstance(value, dict) else None
    yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict | bool))


def _laps(nodes: list[_Node], order: list[int]) -> int:
    """At how many points of one place a recursion begins its next lap, at most; up to the bound."""
    # 1 for what is not counted yet: it is being counted, and the reference to it is one back.
    laps = [1] * len(nodes)
    for number in order:
        node = nodes[number]
        one = max((laps[other] for other in node.one_of_child), default=0)
        every = sum(laps[other] for other in node.here + node.all_of_child)
        laps[number] = min(node.times * (one + every), _TOO_MUCH)
    return max(laps)


def _count(nodes: list[_Node], own: list[int], in_place: list[int], everywhere: list[int], cap: int) -> int:
    """What the root unfolds to where each node counts for `own`, up to `cap`."""
    here = [0] * len(nodes)
    for number in in_place:
        node = nodes[number]
        here[number] = min(node.times * (own[number] + sum(here[other] for other in node.here)), cap)
    # Of each node, the most that applies at a place below its own.
    below = [0] * len(nodes)
    for number in everywhere:
        node = nodes[number]
        one = max((max(here[other], below[other]) for other in node.one_of_child), default=0)
        every = sum(max(here[other], below[other]) for other in node.all_of_child)
        below[number] = min(node.times * (one + every + sum(below[other] for other in node.here)), cap)
    return max(here[0], below[0])


def _ordered(edges: list[list[int]]) -> tuple[list[int], set[tuple[int, int]]]:
    """All nodes, each behind those that it points at, cycles aside; and the edges that close a cycle."""
    is_done: list[bool | None] = [None] * len(edges)
    order: list[int] = []
    closing: set[tuple[int, int]] = set()
    for root in range(len(edges)):
        work = [(root, iter(edges[root]))] if is_done[root] is None else []
        while work:
            number, others = work[-1]
            is_done[number] = False
            for other in others:
                if is_done[other] is False:
                    closing.add((number, other))
                elif is_done[other] is None:
                    work.append((other, iter(edges[other])))
                    break
            else:
                work.pop()
                is_done[number] = True
                order.append(number)
    return order, closing
