"""Nulls that say no more than that a property is left out: models write them often, and strict modes demand them.

Such a null is the value of a property that the schema declares, does not require, and admits no null for. It is looked
for where `properties` and `items` lead, by way of `$ref` within the schema and of unions whose other alternatives are
null. The caller asks the validator again afterwards, so that a schema which says more than is looked at here can only
refuse.
"""

from typing import Final

from tooldispatchd.catalog.pointers import at, unescape_fragment

# Parts of the value and of the schema that are looked at: up to 0.5 µs each.
MAX_WORK: Final = 10_000
# Paths that are told.
MAX_TOLD: Final = 100
# As deep as a schema may be.
MAX_DEPTH: Final = 64

Path = tuple[str | int, ...]

# Where a value lies: the place that it lies in, and its step from there; None is the whole value.
_Place = tuple["_Place", str | int] | None


def drop_nulls(schema: object, value: object) -> list[Path]:
    """Take such nulls out of `value`, in place; the paths to the first 100 of them.

    Nothing is touched where there is too much to see. The schema must be one that the validator compiles, and bounded.
    """
    try:
        found = _Walk(schema).find(value)
    except _SpentError:
        return []
    for holder, key, _ in found:
        del holder[key]
    paths: list[Path] = []
    for _, key, place in found[:MAX_TOLD]:
        steps: list[str | int] = [key]
        around = place
        while around is not None:
            around, step = around
            steps.append(step)
        paths.append(tuple(reversed(steps)))
    return paths


class _SpentError(Exception):
    """The walk has seen all that it may."""


class _Walk:
    """One walk down a value and the schema's parts for it."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._left = MAX_WORK
        # What has been found of the schema's parts, which stay where they are: the items of a list share one.
        self._meanings: dict[int, dict[str, object]] = {}
        self._verdicts: dict[tuple[int, str], bool] = {}

    def find(self, value: object) -> list[tuple[dict[str, object], str, _Place]]:
        """Each null with the object that holds it, its key, and where that object lies. Raises `_SpentError`."""
        found: list[tuple[dict[str, object], str, _Place]] = []
        waiting: list[tuple[_Place, object, object]] = [(None, self._root, value)]
        # Grows while it is walked.
        for place, written, holder in waiting:
            schema = self._meant(written)
            properties, items = schema.get("properties"), schema.get("items")
            if isinstance(holder, dict) and isinstance(properties, dict):
                self._spend(len(holder))
                for key, each in holder.items():
                    if key not in properties:
                        continue
                    if isinstance(each, dict | list):
                        waiting.append(((place, key), properties[key], each))
                    elif each is None and self._is_left_out(schema, key, properties[key]):
                        found.append((holder, key, place))
            elif isinstance(holder, list) and isinstance(items, dict):
                self._spend(len(holder))
                waiting += [
                    ((place, at), items, each) for at, each in enumerate(holder) if isinstance(each, dict | list)
                ]
        return found

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise _SpentError

    def _is_left_out(self, schema: dict[str, object], key: str, written: object) -> bool:
        verdict = self._verdicts.get((id(schema), key))
        if verdict is None:
            required = schema.get("required")
            listed = required if isinstance(required, list) else []
            self._spend(len(listed))
            verdict = self._verdicts[id(schema), key] = key not in listed and not self._may_be_null(written, 0)
        return verdict

    def _meant(self, written: object) -> dict[str, object]:
        """The schema that says what an object or a list at this place holds; an empty one where none is found."""
        meaning = self._meanings.get(id(written))
        if meaning is not None:
            return meaning
        schema = written
        while isinstance(schema, dict) and "properties" not in schema and "items" not in schema:
            self._spend(1)
            others = [other for other in self._alternatives(schema) if other != {"type": "null"}]
            if "$ref" in schema:
                schema = self._target(schema["$ref"])
            elif len(others) == 1:
                schema = others[0]
            else:
                break
        meaning = self._meanings[id(written)] = schema if isinstance(schema, dict) else {}
        return meaning

    def _alternatives(self, schema: dict[str, object]) -> list[object]:
        found = schema.get("anyOf", schema.get("oneOf"))
        alternatives = found if isinstance(found, list) else []
        self._spend(len(alternatives))
        return alternatives

    def _target(self, reference: object) -> object:
        """What a reference within the schema leads to; True, which says nothing, for any other."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        # It may be as long as the schema.
        self._spend(1 + len(reference) // 8)
        target = at(self._root, unescape_fragment(reference[1:]))
        return True if target is None else target

    def _may_be_null(self, schema: object, depth: int) -> bool:
        """Whether a schema admits null as far as can be seen: what is not looked at says nothing."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return schema is not False
        self._spend(1)
        for key, admitted in (("type", "null"), ("enum", None)):
            listed = schema.get(key)
            if isinstance(listed, list):
                self._spend(len(listed))
                if admitted not in listed:
                    return False
        if isinstance(schema.get("type"), str) and schema["type"] != "null":
            return False
        if schema.get("const") is not None:
            return False
        if "$ref" in schema and not self._may_be_null(self._target(schema["$ref"]), depth + 1):
            return False
        every = schema.get("allOf")
        if isinstance(every, list) and not all(self._may_be_null(part, depth + 1) for part in every):
            return False
        alternatives = self._alternatives(schema)
        return not alternatives or any(self._may_be_null(part, depth + 1) for part in alternatives)
