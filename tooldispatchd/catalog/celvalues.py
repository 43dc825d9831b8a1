"""Values on their way into CEL and out of it: exact numbers in, plain JSON out.

JSON has one kind of number, CEL has two that do not mix. Where CEL knows a variable's type it converts by itself;
inside records, whose values are dynamic there, `to_exact` does it by the declared type.
"""

import math
from typing import Final, TypeVar

from tooldispatchd.catalog.celtypes import MAX_LISTS
from tooldispatchd.catalog.meanings import Declared, reachable, resolve
from tooldispatchd.catalog.types import ListOf, Primitive, Product, Record, Type, Union

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class WideIntegerError(ValueError):
    """An integer of the input that the engine cannot hold."""


def holds_text(type_: Type, declared: Declared) -> bool:
    """Whether a value of a type may have a string in it."""
    return any(isinstance(node, Primitive) and node.word in {"string", "json"} for node in reachable(type_, declared))


def has_null_character(value: object) -> bool:
    """Whether a string with a null character is in a value: the engine would silently end it there."""
    if isinstance(value, str):
        return "\0" in value
    if not isinstance(value, dict | list):
        return False
    waiting: list[object] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            if "\0" in node:
                return True
        elif isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            waiting.extend(node)
            waiting.extend(node.values())
    return False


class NotJsonError(ValueError):
    """A result, or a part of one, that JSON cannot say."""


def needs_exact(type_: Type, declared: Declared, *, typed: bool) -> bool:
    """Whether numbers of a type stand where CEL does not know their type; `typed` where it knows the root's."""
    meaning = resolve(type_, declared)
    for _ in range(MAX_LISTS if typed else 0):
        if isinstance(meaning, ListOf):
            meaning = resolve(meaning.item, declared)
    if typed and isinstance(meaning, Primitive):
        return False
    return any(isinstance(node, Primitive) and node.word in {"int", "number"} for node in reachable(meaning, declared))


def to_exact(value: object, type_: Type, declared: Declared) -> object:
    """The value with every `number` a float and every `int` an int. Raises `WideIntegerError`."""
    meaning = resolve(type_, declared)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value, meaning, declared)
    if isinstance(value, dict):
        record = _only(Record, meaning, declared)
        if record is None:
            return value
        fields = {field.name: field.type for field in record.fields}
        return {key: to_exact(part, fields[key], declared) if key in fields else part for key, part in value.items()}
    if isinstance(value, list):
        return _list(value, meaning, declared)
    return value


def _list(value: list[object], meaning: Type, declared: Declared) -> list[object]:
    many = _only(ListOf, meaning, declared)
    if many is not None:
        return [to_exact(part, many.item, declared) for part in value]
    product = _only(Product, meaning, declared)
    if product is not None and len(product.items) == len(value):
        return [to_exact(part, item, declared) for part, item in zip(value, product.items, strict=True)]
    return value


def _number(value: float, meaning: Type, declared: Declared) -> float:
    options = [resolve(option, declared) for option in meaning.options] if isinstance(meaning, Union) else [meaning]
    words = {option.word for option in options if isinstance(option, Primitive)}
    if "number" in words and "int" not in words:
        try:
            return float(value)
        except OverflowError:
            raise WideIntegerError("an integer of the input is too large for a number") from None
    if "int" in words and "number" not in words and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


_Kind = TypeVar("_Kind", Record, ListOf, Product)


def _only(kind: type[_Kind], meaning: Type, declared: Declared) -> _Kind | None:
    """The type itself where it is of a kind, or the only option of a union that is."""
    options = [resolve(option, declared) for option in meaning.options] if isinstance(meaning, Union) else [meaning]
    found = [option for option in options if isinstance(option, kind)]
    return found[0] if len(found) == 1 else None


def refuse_wide(value: object) -> None:
    """Raise `WideIntegerError` where a value holds an integer outside 64 bits, naming where."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        pointer, node = waiting.pop()
        if isinstance(node, dict):
            waiting.extend((f"{pointer}/{key}", part) for key, part in node.items())
        elif isinstance(node, list):
            waiting.extend((f"{pointer}/{place}", part) for place, part in enumerate(node))
        elif isinstance(node, int) and not INT64_MIN <= node <= INT64_MAX:
            raise WideIntegerError(
                f"{pointer[:200]}: an integer outside 64 bits" if pointer else "an integer outside 64 bits"
            )


def tidy(value: object, type_: Type | None, declared: Declared) -> object:
    """A result as JSON values: finite numbers, string keys in the order of the output's fields, else sorted.

    The engine gives the keys of a map in no order of ours. Raises `NotJsonError`.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJsonError(f"the result holds {value}, which JSON cannot say")
        return value
    meaning = None if type_ is None else resolve(type_, declared)
    if isinstance(value, list):
        item = meaning.item if isinstance(meaning, ListOf) else None
        inner = meaning.items if isinstance(meaning, Product) and len(meaning.items) == len(value) else None
        return [tidy(part, item if inner is None else inner[place], declared) for place, part in enumerate(value)]
    if isinstance(value, dict):
        return _tidy_record(value, meaning, declared)
    raise NotJsonError(f"the result holds a value that JSON cannot say: {type(value).__name__}")


def _tidy_record(value: dict[object, object], meaning: Type | None, declared: Declared) -> dict[str, object]:
    if not all(isinstance(key, str) for key in value):
        raise NotJsonError("the result holds a map whose keys are no strings")
    fields = {field.name: field.type for field in meaning.fields} if isinstance(meaning, Record) else {}
    ordered = [key for key in fields if key in value]
    ordered += sorted(str(key) for key in value if key not in fields)
    return {key: tidy(value[key], fields.get(key), declared) for key in ordered}
