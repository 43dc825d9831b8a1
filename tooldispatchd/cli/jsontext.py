"""JSON as commands print it: the same value, without letters that would steer the terminal it is read on."""

import json
import re
from typing import Final

# JSON escapes the other controls itself, but neither DEL and C1 nor what turns the direction of a line.
_BEYOND_ASCII: Final = re.compile(r"[^ -~\n]+")


def shown_json(value: object, *, indent: int | None = None) -> str:
    """Write a value as a command prints it: on one line without blanks, or with `indent` blanks for each level."""
    separators = (",", ":") if indent is None else None
    return escaped(json.dumps(value, indent=indent, separators=separators, ensure_ascii=False))


def escaped(text: str) -> str:
    """Write as escapes what cannot be printed in a JSON text, which has it in its strings alone."""
    return _BEYOND_ASCII.sub(lambda found: "".join(map(_escaped, found[0])), text)


def _escaped(letter: str) -> str:
    if letter.isprintable():
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
