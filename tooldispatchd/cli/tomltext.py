"""Tables as text in TOML, as a person could have written them: the standard library only reads it."""

import json
import re
from collections.abc import Mapping

Values = Mapping[str, object]


def toml_of(table: Values, *path: str) -> str:
    """A table under the header that `path` is, each value in a line of its own. There is no null in it."""
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_inline(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_inline(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    # What JSON has besides is written as TOML writes it, but for one sign (TOML 1.0, "String").
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _inline(key)
