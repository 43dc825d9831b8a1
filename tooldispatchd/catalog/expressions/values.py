"""Values on their way into CEL and out of it: exact numbers in, plain JSON out.

JSON has one kind of number, CEL has two that do not mix. Where CEL knows a variable's type it converts by itself;
inside records, whose values are dynamic there, `exactly` does it by the declared type.
"""

import math
from collections.abc import Callable
from operator import is_not
from typing import Final, TypeVar

from tooldispatchd.catalog.meanings import Declared, reachable, resolve
from tooldispatchd.catalog.types import ListOf, Named, Primitive, Product, Record, Type, Union

Convert = Callable[[object], object]
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
# The class that a list of exact numbers does not hold.
_WRONG: Final[dict[Type, type]] = {Primitive("int"): float, Primitive("number"): int}


class WideIntegerError(ValueError):
    """An integer of the input that the engine cannot hold."""


class NotJsonError(ValueError):
    """A result, or a part of one, that JSON cannot say."""


def exactly(type_: Type, declared: Declared) -> Convert:
    """A function that makes every `number` of a value a float and every `int` an int.

    It returns the value itself where nothing changes. Raises `WideIntegerError`.
    """
    return _Exact(declared).of(type_) or _as_it_is


def _as_it_is(value: object) -> object:
    return value


class _Exact:
    """Builds one function for each type, once: the types of a tool never change, and its calls are many."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._named: dict[Named, Convert] = {}

    def of(self, type_: Type) -> Convert | None:
        """None where no value of the type holds a number."""
        nodes = reachable(type_, self._declared)
        if not any(isinstance(node, Primitive) and node.word in {"int", "number"} for node in nodes):
            return None
        if not isinstance(type_, Named):
            return self._build(type_)
        named, name = self._named, type_
        # Types are recursive through names alone: what stands for a name is looked up when it runs.
        if name not in named:
            named[name] = _as_it_is
            named[name] = self._build(name)

        def convert_named(value: object) -> object:
            return named[name](value)

        return convert_named

    def _build(self, type_: Type) -> Convert:
        meaning, declared = resolve(type_, self._declared), self._declared
        alternatives = meaning.options if isinstance(meaning, Union) else (meaning,)
        options = [resolve(option, declared) for option in alternatives]
        words = {option.word for option in options if isinstance(option, Primitive)}
        to_float, to_int = "number" in words and "int" not in words, "int" in words and "number" not in words
        in_record, in_list = self._build_record(_only(Record, options)), self._build_list(options)

        def convert(value: object) -> object:
            kind = value.__class__
            if kind is dict:
                return in_record(value)  # type: ignore[arg-type]  # its class is dict
            if kind is list:
                return in_list(value)  # type: ignore[arg-type]  # its class is list
            if to_float and kind is int:
                return _double_of(value)  # type: ignore[arg-type]  # its class is int
            if to_int and kind is float and value.is_integer():  # type: ignore[attr-defined]  # its class is float
                return int(value)  # type: ignore[call-overload]  # as above
            return value

        return convert

    def _build_record(self, record: Record | None) -> Callable[[dict[str, object]], object]:
        built = [] if record is None else [(field.name, self.of(field.type)) for field in record.fields]
        fields = [(name, convert) for name, convert in built if convert is not None]

        def convert_fields(value: dict[str, object]) -> object:
            changed: dict[str, object] | None = None
            for name, convert in fields:
                if name in value:
                    exact = convert(value[name])
                    if exact is not value[name]:
                        changed = changed or dict(value)
                        changed[name] = exact
            return changed or value

        return convert_fields

    def _build_list(self, options: list[Type]) -> Callable[[list[object]], object]:
        many, product = _only(ListOf, options), _only(Product, options)
        each = None if many is None else self.of(many.item)
        # A list of one kind of number is looked at as a whole: a call for each would be dear.
        wrong = None if many is None else _WRONG.get(resolve(many.item, self._declared))
        items = [] if product is None or many is not None else [self.of(item) or _as_it_is for item in product.items]

        def convert_items(value: list[object]) -> object:
            if wrong is not None and wrong not in map(type, value):
                return value
            if each is not None:
                exact = list(map(each, value))
            elif len(items) == len(value):
                exact = [convert(part) for convert, part in zip(items, value, strict=True)]
            else:
                return value
            return exact if any(map(is_not, exact, value)) else value

        return convert_items


def _double_of(value: int) -> float:
    try:
        double = float(value)
    except OverflowError:
        raise WideIntegerError("an integer of the input is too large for a number") from None
    if double != value:
        raise WideIntegerError(
            "a number cannot hold an integer of the input exactly: declare it as int, json or string"
        )
    return double


_Kind = TypeVar("_Kind", Record, ListOf, Product)


def _only(kind: type[_Kind], options: list[Type]) -> _Kind | None:
    """The only one of the options that is of a kind."""
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
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if value > INT64_MAX:
            raise NotJsonError("the result holds an integer outside 64 bits")
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
        if not set(map(type, value)) <= {str}:
            raise NotJsonError("the result holds a map whose keys are no strings")
        fields = {field.name: field.type for field in meaning.fields} if isinstance(meaning, Record) else {}
        ordered = [key for key in fields if key in value]
        if len(ordered) < len(value):
            ordered += sorted(map(str, value.keys() - fields.keys()))
        # Most parts are what they are; a call for each would be dear.
        return {
            key: part if (part := value[key]).__class__ in _AS_IS else tidy(part, fields.get(key), declared)
            for key in ordered
        }
    raise NotJsonError(f"the result holds a value that JSON cannot say: {type(value).__name__}")


_AS_IS: Final = frozenset({str, bool, type(None)})
