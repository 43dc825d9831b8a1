"""Rewrite a schema in few keywords and without references, so that it admits all that it admitted.

The forms of providers start here. References are written out where they stand; `oneOf` becomes `anyOf`, `allOf` is
merged, `const` is an `enum` of one, a tuple's items may stand in any order. What has no such place (`not`, `if`,
`patternProperties`, …) is dropped, and noted. What is left: title, description, default; type, enum, anyOf; properties,
required, additionalProperties, minProperties, maxProperties; items, minItems, maxItems, uniqueItems; the keywords of
numbers and strings.

References make a small schema mean a large one, or an endless one. So the whole has an allowance, of which a part gets
a fair share; what is over it, or too deep, is left open: `{}`.
"""

import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from tooldispatchd.catalog.forms.drafts import draft_of, find, parts_within
from tooldispatchd.catalog.forms.merging import alternatives, lost, merge, spelled
from tooldispatchd.catalog.forms.rendered import Notes, Path, Schema
from tooldispatchd.catalog.problems import cut

# A model reads all of it before every turn: 1,000 parts are some 10,000 tokens. Rewriting them takes 3 ms, or 8.
MAX_PARTS: Final = 1_000
MAX_CHARS: Final = 64 * 1024
# Values within defaults and enums that are looked at to weigh them: with references one may be met a thousand times.
MAX_WEIGHED: Final = 10_000
# Characters of references that are read, equal ones once: the longest names of a thousand definitions have no more.
MAX_REFERRED: Final = 32 * 1024
# Half of the depth that a schema may have (`MAX_SCHEMA_DEPTH`): each level of a schema is two of its JSON.
MAX_DEPTH: Final = 32
MAX_TURNS: Final = 3

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXTS: Final = ("pattern", "format")
_LISTS: Final = ("properties", "required", "anyOf", "oneOf", "allOf", "prefixItems", "items")
_ELSEWHERE: Final[Schema] = {}
_LARGEST: Final = sys.float_info.max
_DROPPED: Final = (
    *("not", "if", "patternProperties", "propertyNames", "dependencies", "dependentRequired", "dependentSchemas"),
    *("unevaluatedProperties", "unevaluatedItems", "contains", "$dynamicRef", "$recursiveRef"),
)


class Allowance(NamedTuple):
    """How much may be said of a schema: parts, characters of all texts, and those of one title or description."""

    parts: int = MAX_PARTS
    chars: int = MAX_CHARS
    text: int = MAX_CHARS


WHOLE: Final = Allowance()


def rewrite(schema: Schema, notes: Notes, allowance: Allowance = WHOLE) -> Schema:
    """The schema in the keywords above, every value that it admits still admitted."""
    rewritten = _Rewriting(notes, allowance, schema).part(schema, _Place(schema, (), 0))
    return {} if rewritten is None else rewritten


def _fits(schema: Schema, parts: int) -> bool:
    """Whether all of a schema can be paid, so that no part of it needs a share of its own."""
    nodes = parts_within(schema, parts)
    if nodes is None or any("$ref" in node for node in nodes):
        return False
    return sum(1 + _listed(node) + len(_enum_of(node)) for node in nodes) <= parts


def _listed(node: Schema) -> int:
    """Count what a schema lists."""
    listed = sum(len(inner) for key in _LISTS if isinstance(inner := node.get(key), list))
    named = node.get("properties")
    return listed + (len(named) if isinstance(named, dict) else 0)


def _enum_of(node: Schema) -> list[object]:
    values = node.get("enum")
    return values if isinstance(values, list) else []


class _Place(NamedTuple):
    """Where a part stands: the resource that its references are read against, and the way to it as it is shown."""

    base: Schema
    path: Path
    depth: int

    def at(self, *steps: str) -> "_Place":
        return _Place(self.base, self.path + steps, self.depth + 1)


class _Rewriting:
    """One schema's way; every method that gives a `Schema | None` gives None for what admits nothing."""

    def __init__(self, notes: Notes, allowance: Allowance, root: Schema) -> None:
        self._notes = notes
        self._root = root
        # Whether the allowance has to be shared; not known until something stands side by side.
        self._is_tight: bool | None = None
        self._most, self._parts, self._chars = allowance, allowance.parts, allowance.chars
        self._weighed = MAX_WEIGHED
        self._referred = MAX_REFERRED
        self._is_over = False
        # What the parts that come after the present one are to have.
        self._reserved = 0
        self._following: dict[tuple[int, str], list[Path]] = {}
        self._found: dict[tuple[int, str], object] = {}
        self._drafts: dict[int, int] = {}

    def part(self, node: object, place: _Place) -> Schema | None:
        if node is False:
            return None
        if not isinstance(node, dict):
            return {}
        if place.depth >= MAX_DEPTH:
            self._notes.add("what is nested in", place.path, f"is left open: it is deeper than {MAX_DEPTH} levels")
            return {}
        # What it lists is paid with it, so that lists of what is left open are too.
        if not self._pay(1 + _listed(node)):
            if not self._is_over:
                self._notes.add(
                    "what is in", place.path, f"and more is left open: all is over {self._most.parts} parts"
                )
            self._is_over = True
            return {}
        if "$id" in node:
            place = place._replace(base=node)
        elif isinstance(node.get("id"), str) and place.depth:
            # To draft 4 a resource of its own; where it is none, its references are merely left open.
            place = place._replace(base=_ELSEWHERE)
        return self._keywords(node, place)

    def _keywords(self, node: Schema, place: _Place) -> Schema | None:
        rewritten = self._words(node, place)
        members: list[Schema | None] = []
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = self._follow(reference, place)
            # Up to draft 7 a reference's neighbours mean nothing.
            if target is None or self._draft(place) < 2019:
                return target if target is None else target | rewritten
            members.append(target)
        for keyword in _DROPPED:
            if keyword in node:
                self._notes.add(f"{keyword} at", place.path, "is dropped")
        rewritten |= self._values(node, place)
        rewritten |= self._object(node, place)
        rewritten |= self._array(node, place)
        every = node.get("allOf")
        if isinstance(every, list):
            # Merged members have no place of their own any more.
            members += self._each(every, [place._replace(depth=place.depth + 1)] * len(every))
        for keyword in ("anyOf", "oneOf"):
            members += self._options(keyword, node, place)
        for member in members:
            if member is None:
                return None
            for keyword in lost(rewritten, member):
                self._notes.add(f"one {keyword} of several at", place.path, "is dropped")
            rewritten = merge(rewritten, member)
        return rewritten

    def _words(self, node: Schema, place: _Place) -> Schema:
        """What is said to the reader of a schema, as long as there is room for it."""
        kept: Schema = {}
        for keyword in ("title", "description"):
            text = node.get(keyword)
            if isinstance(text, str):
                text = cut(text, self._most.text)
                if self._say(len(text)):
                    kept[keyword] = text
                else:
                    self._notes.add(f"the {keyword} at", place.path, "is dropped: the texts are too long")
        if "default" in node and self._say_value(node["default"]):
            kept["default"] = node["default"]
        return kept

    def _values(self, node: Schema, place: _Place) -> Schema:
        kept: Schema = {}
        said = node.get("type")
        # A list longer than there are types repeats itself, or is none; it says nothing then.
        said = (said if len(said) <= len(_TYPES) else []) if isinstance(said, list) else [said]
        types = [kind for kind in _TYPES if kind in said]
        if types:
            kept["type"] = spelled(types)
        values = [node["const"]] if "const" in node and self._draft(place) > 4 else _enum_of(node)
        if values:
            if len(values) <= self._parts and self._say_value(values) and self._pay(len(values)):
                kept["enum"] = values
            else:
                self._notes.add("the enum at", place.path, "is dropped: it is too long")
        for key in _COUNTS:
            count = _number(node.get(key))
            # A count may be written as 2.0.
            if count is not None and count >= 0 and count == int(count):
                kept[key] = int(count)
        kept |= {key: number for key in _NUMBERS if (number := _number(node.get(key))) is not None}
        for key in _TEXTS:
            text = node.get(key)
            if isinstance(text, str) and self._say(len(text)):
                kept[key] = text
        return kept

    def _object(self, node: Schema, place: _Place) -> Schema:
        kept: Schema = {}
        named = node.get("properties")
        required = node.get("required")
        required = required if isinstance(required, list) else []
        wanted = list(dict.fromkeys(name for name in required if isinstance(name, str)))
        if not self._say(sum(map(len, [*(named if isinstance(named, dict) else ()), *wanted]))):
            self._notes.add("the properties at", place.path, "are left out: the texts are too long")
            return kept
        if isinstance(named, dict):
            inner = self._each(list(named.values()), [place.at("properties", name) for name in named])
            # What may not stand at all need not be listed: a closed object admits it no more, an open one any value.
            kept["properties"] = {name: one for name, one in zip(named, inner, strict=True) if one is not None}
        if wanted:
            kept["required"] = wanted
        # The rest of an object is what no pattern names either, so that with patterns nothing is said of it.
        if "additionalProperties" in node and not node.get("patternProperties"):
            rest = self.part(node["additionalProperties"], place.at("additionalProperties"))
            if rest != {}:
                kept["additionalProperties"] = False if rest is None else rest
        return kept

    def _array(self, node: Schema, place: _Place) -> Schema:
        kept: Schema = {"uniqueItems": True} if node.get("uniqueItems") is True else {}
        # The schemas of the first items, and that of the others: up to 2019-09 `items` may list the first.
        first, rest = node.get("prefixItems") if self._draft(place) >= 2020 else None, node.get("items")
        if isinstance(rest, list):
            first, rest = rest, node.get("additionalItems")
        if not isinstance(first, list):
            if rest is None:
                return kept
            items = self.part(rest, place.at("items"))
            return kept | ({"maxItems": 0} if items is None else {"items": items})
        if not self._pay(len(first)):
            return kept
        parts = [*first, *([] if rest is False else [True if rest is None else rest])]
        inner = self._each(parts, [place.at("prefixItems", str(index)) for index in range(len(parts))])
        self._notes.add("the order of the items at", place.path, "is not kept: each may be any of them")
        options = [one for one in inner if one is not None]
        kept["items"] = {} if {} in options or not options else alternatives(options)
        if rest is False:
            return merge(kept, {"maxItems": len(first)})
        return kept

    def _options(self, keyword: str, node: Schema, place: _Place) -> list[Schema]:
        """`anyOf` or `oneOf` as a schema to be merged; none where any value is an option."""
        options = node.get(keyword)
        if not isinstance(options, list) or not options:
            return []
        if keyword == "oneOf":
            self._notes.add("oneOf at", place.path, "is said as anyOf")
        inner = self._each(options, [place.at(keyword, str(index)) for index in range(len(options))])
        admitted = [one for one in inner if one is not None]
        return [alternatives(admitted)] if any(admitted) else []

    def _each(self, nodes: Sequence[object], places: Sequence[_Place]) -> list[Schema | None]:
        """Parts that stand side by side: each gets its share of the allowance, and what the earlier ones left."""
        reserved = self._reserved
        if self._is_tight is None and len(nodes) > 1:
            self._is_tight = not _fits(self._root, self._most.parts)
        inner = []
        for index, (node, place) in enumerate(zip(nodes, places, strict=True)):
            if self._is_tight:
                share = (self._parts - reserved) // (len(nodes) - index)
                self._reserved = self._parts - share
            inner.append(self.part(node, place))
        self._reserved = reserved
        return inner

    def _follow(self, reference: str, place: _Place) -> Schema | None:
        key = (id(place.base), reference)
        turns = self._following.setdefault(key, [])
        if len(turns) >= MAX_TURNS:
            self._notes.add("recursion in", turns[0], f"is cut after {MAX_TURNS} levels")
            return {}
        if key not in self._found:
            self._referred -= len(reference)
            self._found[key] = find(reference, place.base) if self._referred >= 0 else None
        target = self._found[key]
        if target is None:
            self._notes.add("the reference at", place.path, "is left open: it leads elsewhere")
            return {}
        turns.append(place.path)
        rewritten = self.part(target, place._replace(depth=place.depth + 1))
        turns.pop()
        return rewritten

    def _pay(self, parts: int) -> bool:
        if self._parts - parts < self._reserved:
            return False
        self._parts -= parts
        return True

    def _draft(self, place: _Place) -> int:
        key = id(place.base)
        if key not in self._drafts:
            self._drafts[key] = draft_of(place.base)
        return self._drafts[key]

    def _say_value(self, value: object) -> bool:
        """Whether there is room for a value; it is weighed no further than it could have."""
        weight = 0
        waiting = [value]
        while waiting:
            node = waiting.pop()
            inner = [*node, *node.values()] if isinstance(node, dict) else node if isinstance(node, list) else []
            self._weighed -= 1
            weight += len(node) + 2 if isinstance(node, str) else 8
            if weight + len(inner) > self._chars or len(inner) > self._weighed:
                return False
            waiting.extend(inner)
        return self._say(weight)

    def _say(self, chars: int) -> bool:
        if chars > self._chars:
            return False
        self._chars -= chars
        return True


def _number(value: object) -> float | None:
    """A number that JSON can say, or None; what is larger than a float is no limit that anyone meets."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_LARGEST <= value <= _LARGEST else None
