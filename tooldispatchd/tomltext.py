"""Tables as text in TOML, as a person could have written them: the standard library only reads it."""

import json
import re
from collections.abc import Mapping

Values = Mapping[str, object]


def toml_of(table: Values, *path: str) -> str:
    """A table under the header that `path` is, each value in a line of its own. There is no null in it."""
    lines = [f"[{'.'.join(map(key_of, path))}]", *(f"{key_of(key)} = {inline(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def inline(value: object) -> str:
    """A value as it stands in one line."""
    if isinstance(value, dict):
        inner = ", ".join(f"{key_of(key)} = {inline(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    # What JSON has besides is written as TOML writes it, but for one sign (TOML 1.0, "String").
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_of(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else inline(key)
