"""How processes meet: what is refused where they are wired, and what is looked at where a type promises too little."""

import re
from collections.abc import Callable
from typing import Final, cast

import msgspec
from msgspec import UNSET

from tooldispatchd.catalog.meanings import TYPE_WORDS, Declared, check_names, nearest_type, resolve, to_schema
from tooldispatchd.catalog.morphisms import Broken, Bundle, Flow, StageError, StreamMorphism
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.schemas import Check, compile_check
from tooldispatchd.catalog.types import Product, Stream, Type, TypeNameError, TypeTextError, column_of, parse_arrow

LIFT: Final = re.compile(r"lift\(\s*(?P<tool>[^()\s]+)\s*\)")
"""How a chain names a tool that it runs over every message."""


class WiringError(ValueError):
    """A process that cannot be used where it stands; `path` is where in the configuration, if it is known better.

    One that `is_told` follows from a problem that has been told of something else.
    """

    def __init__(
        self,
        why: str,
        path: Path = (),
        value: object = UNSET,
        *,
        close: str | None = None,
        allowed: str | None = None,
        is_told: bool = False,
    ) -> None:
        super().__init__(why)
        self.found = Problem(path, why, value=value, allowed=allowed, nearest=close)
        self.is_told = is_told

    def problem(self, path: Path) -> Problem:
        """The same as a problem at `path`, or where it is known to stand."""
        return self.found if self.found.path else msgspec.structs.replace(self.found, path=path)


def bare(name: str) -> WiringError:
    """What is said of a binding in the base category where a stream is wanted."""
    return WiringError(f"'{name}' has bare types (base category); only stream morphisms can be wired into pipelines")


def parse_checked(text: str, declared: Declared) -> tuple[Type, Type]:
    """Input and output of `A -> B`, all names known. Raises `WiringError` with the column."""
    try:
        source, target = parse_arrow(text)
    except TypeTextError as error:
        raise WiringError(str(error), value=text, allowed='"A -> B"') from error
    try:
        check_names(source, declared)
        check_names(target, declared)
    except TypeNameError as error:
        why = f"column {column_of(text, error.name)}: {error}"
        close = nearest_type(error.name, declared)
        raise WiringError(why, value=text, close=close, allowed=None if close else TYPE_WORDS) from error
    return source, target


def check_of(type_: Type, declared: Declared) -> Check:
    """The check of a message's type. Raises `SchemaError`."""
    return compile_check(to_schema(type_, declared))


def guarded(stage: StreamMorphism, source: Type, declared: Declared) -> StreamMorphism:
    """The stage, which looks at each message before it takes any: whether it is of `source`."""
    look = _looker(stage.name, source, declared, is_input=True)

    def feed(bundle: Bundle) -> Flow:
        look(bundle)
        return (yield from stage.feed(bundle))

    return msgspec.structs.replace(stage, feed=feed)


def promised(stage: StreamMorphism, target: Type, declared: Declared) -> StreamMorphism:
    """The stage, which looks at each message that it gives; `target` is what it gives."""
    look = _looker(stage.name, target, declared, is_input=False)

    def feed(bundle: Bundle) -> Flow:
        given = yield from stage.feed(bundle)
        look(given)
        return given

    return msgspec.structs.replace(stage, feed=feed, target=target)


def _looker(name: str, type_: Type, declared: Declared, *, is_input: bool) -> Callable[[Bundle], None]:
    """A function that raises `StageError` where streams of a type hold a message that is not of it."""
    meaning = resolve(type_, declared)
    if isinstance(meaning, Product):
        lookers = [_looker(name, item, declared, is_input=is_input) for item in meaning.items]

        def look_into(bundle: Bundle) -> None:
            for look, part in zip(lookers, cast("tuple[Bundle, ...]", bundle), strict=True):
                look(part)

        return look_into
    if not isinstance(meaning, Stream):
        return lambda _bundle: None
    check = check_of(meaning.item, declared)

    def look_at(bundle: Bundle) -> None:
        for message in bundle:
            if not check.is_valid(message):
                raise StageError(name, Broken(check, message, is_input))

    return look_at
