"""Set one value in the text of a JSON file and leave every other byte as it is: comments, order, indentation. Pure.

Comments (`//`, `/* */`) and commas behind the last member are taken, as the editors that write such files take them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+ | //[^\r\n]* | /\*.*?\*/)
      | (?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")
      | (?P<sign>[{}\[\],:])
      | (?P<word>true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.+-])""",
    re.VERBOSE | re.DOTALL,
)
# No settings are nested so deep; Python's own stack ends at a thousand calls.
MAX_DEPTH: Final = 200
# JSON's; a comment may end in others.
SPACE: Final = " \t\r\n"
BYTE_ORDER_MARK: Final = "\ufeff"
DEFAULT_INDENT: Final = "  "


class EditError(Exception):
    """The text of a file cannot be edited; `line` is where, counted from 1."""

    def __init__(self, why: str, text: str, at: int) -> None:
        super().__init__(why)
        self.line = text.count("\n", 0, at) + 1


class _Layout(NamedTuple):
    """How a file is written: what one level is indented by, and how its lines end."""

    unit: str
    line_end: str


class _Node:
    """A value and where it stands: text[start:end]. Of an object also its members, and where the last of them ends."""

    __slots__ = ("end", "has_last_comma", "keys", "last_end", "members", "start", "value")

    def __init__(self, value: Json, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end
        self.members: dict[str, _Node] = {}
        # Where the key of each member begins.
        self.keys: dict[str, int] = {}
        self.last_end = start + 1
        self.has_last_comma = False


def read_jsonc(text: str) -> Json:
    """The value of the text; None for one of nothing but space and comments. Raises `EditError`."""
    root = _Reader(text).read()
    return None if root is None else root.value


def with_value(text: str, path: Sequence[str], value: Json) -> str:
    """The text with `value` under the keys of `path`; objects that are not there are made. Raises `EditError`."""
    node = _Reader(text).read()
    line_end = "\r\n" if "\r\n" in text else "\n"
    if node is None:
        before = text.rstrip(SPACE)
        before += line_end if before.strip(BYTE_ORDER_MARK) else ""
        return before + _written(nested(path, value), "", _Layout(DEFAULT_INDENT, line_end)) + line_end
    layout = _Layout(_unit(text, node), line_end)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            where = f'"{path[depth - 1]}"' if depth else "the file"
            raise EditError(f"{where} holds no object", text, node.start)
        if key not in node.members:
            return _inserted(text, node, key, nested(path[depth + 1 :], value), layout)
        node = node.members[key]
    if node.value == value:
        return text
    return text[: node.start] + _written(value, _indent(text, node.start), layout) + text[node.end :]


def nested(path: Sequence[str], value: Json) -> Json:
    """Return objects around a value, one for each key of the path."""
    for key in reversed(path):
        value = {key: value}
    return value


def _inserted(text: str, parent: _Node, key: str, value: Json, layout: _Layout) -> str:
    """The text with one more member at the end of an object, written as its other members are."""
    last_key = max(parent.keys.values(), default=None)
    close = parent.end - 1
    comma = "," if parent.members and not parent.has_last_comma else ""
    after_comma = "," if parent.has_last_comma else ""
    named = json.dumps(key, ensure_ascii=False) + ": "
    if last_key is not None and not _begins_line(text, last_key):
        # All on one line: one more on that line.
        member = f"{comma} {named}{json.dumps(value, ensure_ascii=False)}{after_comma}"
        return text[: parent.last_end] + member + text[parent.last_end :]
    outer = _indent(text, parent.start)
    inner = _indent(text, last_key) if last_key is not None else outer + layout.unit
    # Behind the comments at the end of the object: they belong to what stands above them.
    at = len(text[:close].rstrip(SPACE))
    member = f"{layout.line_end}{inner}{named}{_written(value, inner, layout)}{after_comma}"
    tail = "" if "\n" in text[at:close] else layout.line_end + outer
    return text[: parent.last_end] + comma + text[parent.last_end : at] + member + tail + text[at:]


def _written(value: Json, indent: str, layout: _Layout) -> str:
    """A value as JSON, one member a line and short lists on one."""
    if isinstance(value, Mapping) and value:
        inner, line_end = indent + layout.unit, layout.line_end
        members = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_written(one, inner, layout)}"
            for key, one in value.items()
        ]
        return f"{{{line_end}{f',{line_end}'.join(members)}{line_end}{indent}}}"
    return json.dumps(value, ensure_ascii=False)


def _unit(text: str, root: _Node) -> str:
    """What one level is indented by: as far as the first member of the file is."""
    first = min(root.keys.values(), default=None)
    if first is None or not _begins_line(text, first):
        return DEFAULT_INDENT
    return _indent(text, first).removeprefix(_indent(text, root.start)) or DEFAULT_INDENT


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t" + BYTE_ORDER_MARK)


def _indent(text: str, at: int) -> str:
    """The white space at the beginning of the line of `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip(BYTE_ORDER_MARK)
    return line[: len(line) - len(line.lstrip(" \t"))]


class _Reader:
    """Tokens of a text, and the values that they make."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._kind, self._at, self._end = next(self._tokens)

    def read(self) -> _Node | None:
        """The one value of the text; None where there is none."""
        if self._kind == "end":
            return None
        node = self._value(0)
        if self._kind != "end":
            self._refuse("more follows where the value has ended")
        return node

    def _split(self) -> Iterator[tuple[str, int, int]]:
        at = len(BYTE_ORDER_MARK) if self._text.startswith(BYTE_ORDER_MARK) else 0
        while at < len(self._text):
            token = TOKEN.match(self._text, at)
            if token is None or token.lastgroup is None:
                raise EditError("this is no JSON", self._text, at)
            if token.lastgroup != "space":
                yield (token[0] if token.lastgroup == "sign" else token.lastgroup), at, token.end()
            at = token.end()
        while True:
            yield "end", at, at

    def _next(self) -> None:
        self._kind, self._at, self._end = next(self._tokens)

    def _refuse(self, why: str) -> NoReturn:
        raise EditError(why, self._text, self._at)

    def _value(self, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            self._refuse(f"it is nested deeper than {MAX_DEPTH} levels")
        if self._kind == "{":
            return self._object(depth)
        if self._kind == "[":
            return self._list(depth)
        if self._kind not in {"string", "word"}:
            self._refuse("a value is missing")
        return self._scalar()

    def _scalar(self) -> _Node:
        try:
            value: Json = json.loads(self._text[self._at : self._end])
        except ValueError:
            self._refuse("this is no JSON")
        node = _Node(value, self._at, self._end)
        self._next()
        return node

    def _object(self, depth: int) -> _Node:
        value: dict[str, Json] = {}
        node = _Node(value, self._at, self._at)
        self._next()
        while self._kind != "}":
            if self._kind != "string":
                self._refuse("a key in quotes is missing")
            named = self._scalar()
            key = str(named.value)
            if self._kind != ":":
                self._refuse("a colon is missing")
            self._next()
            member = self._value(depth + 1)
            # Of two members with one key the last counts, here as in the programs that read the file.
            value[key], node.members[key], node.keys[key] = member.value, member, named.start
            comma_end = self._take_comma("}")
            node.has_last_comma = comma_end is not None
            node.last_end = comma_end or member.end
        node.end = self._end
        self._next()
        return node

    def _list(self, depth: int) -> _Node:
        value: list[Json] = []
        node = _Node(value, self._at, self._at)
        self._next()
        while self._kind != "]":
            value.append(self._value(depth + 1).value)
            self._take_comma("]")
        node.end = self._end
        self._next()
        return node

    def _take_comma(self, close: str) -> int | None:
        """Take the comma behind a member, and say where it ends; without one the object or list must close here."""
        if self._kind != ",":
            if self._kind != close:
                self._refuse("a comma is missing")
            return None
        end = self._end
        self._next()
        return end
