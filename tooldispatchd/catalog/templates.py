"""Texts with places for values, taken apart; and values as they stand in such a text. Pure."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

PlaceT = TypeVar("PlaceT")


def take_apart(
    text: str, signs: re.Pattern[str], place_of: Callable[[re.Match[str]], PlaceT]
) -> tuple[str | PlaceT, ...]:
    """The literal texts and the places in a text, in order; nothing of an empty one.

    `signs` finds the places, and in its group `dollar` what is a dollar. Raises what `place_of` raises.
    """
    parts: list[str | PlaceT] = []
    begin, literal = 0, ""
    for sign in signs.finditer(text):
        literal += text[begin : sign.start()]
        begin = sign.end()
        if sign["dollar"]:
            literal += "$"
            continue
        if literal:
            parts.append(literal)
        parts.append(place_of(sign))
        literal = ""
    literal += text[begin:]
    return (*parts, literal) if literal else tuple(parts)


def text_of(value: object) -> str:
    """A string itself, any other value its JSON without spaces."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
