"""The function behind the Python tools of `process.py`, with what such a tool commonly imports."""

import dataclasses
import json
from typing import Annotated

import msgspec


@dataclasses.dataclass
class Found:
    """What was asked for."""

    text: str


def echo(text: Annotated[str, msgspec.Meta(max_length=1000)]) -> Found:
    """Give the text back, by way of JSON."""
    return Found(json.loads(json.dumps(text)))
