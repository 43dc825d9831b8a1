"""JSON pointers (RFC 6901), as schemas and violations have them: `/a~1b/0`, and "" for the whole."""

import re
from typing import Final

# No list of a schema has more entries than this many digits count.
MAX_DIGITS: Final = 6
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9/~_.$-]+")
_ESCAPES: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")


def escape(step: str) -> str:
    """A key as a step of a pointer, without the slash before it."""
    return step.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """The key that a step of a pointer names."""
    return step.replace("~1", "/").replace("~0", "~")


def unescape_fragment(fragment: str) -> str:
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), fragment)


def escape_fragment(pointer: str) -> str:
    """A pointer as it stands in a URL's fragment."""
    # `quote` of the standard library lies beside what opens connections, which no pure module may import.
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), pointer)


def at(value: object, pointer: str) -> object:
    """What a pointer leads to; None where it leads nowhere."""
    for step in pointer.split("/")[1:]:
        key = unescape(step)
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and len(key) <= MAX_DIGITS and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
