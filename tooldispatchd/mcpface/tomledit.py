"""Set one value in the text of a TOML file and leave every other line as it is, with its comments. Pure."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Final

from tooldispatchd.mcpface.jsonc import EditError, Json, nested
from tooldispatchd.tomltext import inline, key_of, toml_of

_AT_LINE: Final = re.compile(r"at line (\d+)")
# A value of more lines is not one that was written here.
MAX_LINES: Final = 100


def read_toml(text: str) -> Json:
    """Return the value of the text; raises `EditError`."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = _AT_LINE.search(str(error))
        before = text.splitlines(keepends=True)[: int(found[1]) - 1] if found else []
        raise EditError("this is no TOML", text, sum(map(len, before))) from error


def with_toml(text: str, path: Sequence[str], value: Json) -> str:
    """Return the text with `value` under the keys of `path`: a table under a header, or a key of one that is there."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if isinstance(value, Mapping):
        # Two ends where the file has a last line: one may lack its own.
        before = [text.rstrip("\r\n"), ""] if text.strip() else []
        return line_end.join([*before, *toml_of(value, *path).split("\n")])
    begin, end = _table(lines, path[:-1])
    written = f"{key_of(path[-1])} = {inline(value)}"
    for at in range(begin, end):
        if (statement := _statement(lines, at)) and [*statement[0]] == [path[-1]]:
            last = lines[at + statement[1] - 1]
            return "".join([*lines[:at], written, _comment(last, line_end), *lines[at + statement[1] :]])
    return "".join([*lines[:begin], written, line_end, *lines[begin:]])


def _table(lines: Sequence[str], path: Sequence[str]) -> tuple[int, int]:
    """Return where the lines of a table begin and end; an empty range at the end of the text where it has no header."""
    headers = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
    for at, after in zip(headers, [*headers[1:], len(lines)], strict=True):
        try:
            if tomllib.loads(lines[at]) == nested(path, {}):
                return at + 1, after
        except tomllib.TOMLDecodeError:
            # The lines of an array begin so too.
            continue
    return len(lines), len(lines)


def _statement(lines: Sequence[str], at: int) -> tuple[dict[str, object], int] | None:
    """Read the statement that begins at a line, and count its lines."""
    for count in range(1, MAX_LINES):
        try:
            return tomllib.loads("".join(lines[at : at + count])), count
        except tomllib.TOMLDecodeError:
            continue
    return None


def _comment(line: str, line_end: str) -> str:
    """Return the comment at the end of a statement's last line, and the end of that."""
    for sign in re.finditer("#", line):
        # The shortest rest that is a comment by itself, with quotes that are closed before it.
        if line[: sign.start()].count('"') % 2 == 0 and line[: sign.start()].count("'") % 2 == 0:
            return f"  {line[sign.start() :]}"
    return line_end
