"""A function and the types of its like, as the modules of tools have them."""

import dataclasses
import enum
from typing import Annotated, NamedTuple, Optional, TypedDict

import msgspec
from msgspec import Meta


class Hit(msgspec.Struct):
    title: str
    score: float = 1.0


class Node(msgspec.Struct):
    name: str
    # As text on purpose: it is looked up when the type is read.
    next: Optional["Node"] = None


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Place(TypedDict):
    city: str


class Point(NamedTuple):
    x: int
    y: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def make(text: str, limit: Annotated[int, Meta(ge=1, description="how many")] = 10) -> list[Hit]:
    """Find documents.

    The nearest come first.

    Args:
        text: what is looked for
    """
    return [Hit(text)] * limit
