"""Documents of other programs: the value of each, and on which line each part of it stands."""

import json
import re
import tomllib
from typing import Final, NoReturn

import msgspec

from tooldispatchd.catalog.problems import Path
from tooldispatchd.config.key_patterns import depth_of
from tooldispatchd.config.toml_lines import TomlLines

# A server's table has three levels, and a client's own settings a few more.
MAX_DEPTH: Final = 32
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
# A string or a comment that does not end goes to the end of the text: a second try would cost the square of it.
_STRING: Final = r'"(?:[^"\\]|\\.?)*(?:"|\Z)'
_COMMENTS: Final = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMAS: Final = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])", re.DOTALL)


class DocumentError(Exception):
    """Why a document cannot be used, and in which line, from 1."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


class FileLines:
    """On which line of a text each key and each item of its value stands."""

    def __init__(self) -> None:
        self._lines: dict[Path, int] = {}
        self.depth = 0
        """How deep arrays and objects are nested."""

    def note(self, path: Path, line: int) -> None:
        """The key or the item at `path` begins on `line`; of two the first counts."""
        self._lines.setdefault(path, line)

    def line_of(self, path: Path) -> int:
        """The line, from 1, of the key or the item at `path`, or of the nearest around it; the first if none is."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((self._lines[each] for each in around if each in self._lines), 1)


class Document(msgspec.Struct, frozen=True):
    value: object
    lines: FileLines


def read_json(text: str) -> Document:
    """Read a JSON text, which may have comments and commas behind last members. Raises `DocumentError`."""
    # Not by the tokens of the MCP face's installer, which edits such texts and keeps where each member stands: json's
    # decoder reads documents of megabytes, and its messages say what is wrong.
    try:
        return _read_json(text)
    except DocumentError:
        return _read_json(_LAST_COMMAS.sub(_blank, _COMMENTS.sub(_blank, text)))


def _blank(found: re.Match[str]) -> str:
    """Keep a string; put spaces in the place of anything else, so that lines and columns stay."""
    return found[0] if found[0].startswith('"') else re.sub(r"[^\r\n]", " ", found[0])


def _read_json(text: str) -> Document:

    def refuse(constant: str) -> NoReturn:
        raise DocumentError(f"not JSON: {constant}")

    try:
        value: object = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        # The cause would carry the whole file along, with every token in it.
        raise DocumentError(f"not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise DocumentError(f"arrays and objects are nested more than {MAX_DEPTH} deep") from None
    except ValueError:
        # The interpreter reads no number of thousands of digits.
        raise DocumentError("a number has too many digits") from None
    return Document(value, JsonLines(text))


class JsonLines(FileLines):
    """On which line of a JSON text each key and each item stands; json gives values only. It must have read the text.

    One pass over the text's strings and signs, with a list in the place of recursion.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        # Where the next value stands; within an object it ends with None until the key is there.
        path: list[str | int | None] = []
        line, position, is_key = 1, 0, False
        for token in _TOKEN.finditer(text):
            line += text.count("\n", position, token.start())
            position = token.start()
            sign = token.group()
            if sign in "{[":
                self._note(path, line)
                path.append(None if sign == "{" else 0)
                self.depth = max(self.depth, len(path))
                is_key = sign == "{"
            elif sign in "}]":
                path.pop()
                is_key = False
            elif sign == ",":
                is_key = not isinstance(path[-1], int)
                path[-1] = None if is_key else int(path[-1] or 0) + 1
            elif is_key and sign != ":":
                path[-1] = json.loads(sign)
                self._note(path, line)
                is_key = False
            elif sign != ":":
                self._note(path, line)

    def _note(self, path: list[str | int | None], line: int) -> None:
        known = tuple(step for step in path if step is not None)
        if known and len(known) == len(path):
            self.note(known, line)


def read_toml(text: str) -> Document:
    """Read a TOML text. Raises `DocumentError`."""
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise DocumentError(f"arrays and objects are nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        why, _, place = str(error).partition(" (at line ")
        found = re.match(r"[0-9]+", place)
        raise DocumentError(f"not TOML: {why}", int(found[0]) if found else 1) from None
    lines = FileLines()
    lines.depth = depth_of(value)
    if lines.depth <= MAX_DEPTH:
        for path, line in TomlLines(text).lines.items():
            lines.note(path, line)
    return Document(value, lines)
