"""YAML documents: as much of YAML as says what JSON says, with the line of each part.

Plain words mean what YAML 1.2's core schema says: `true`, `null` and numbers are values, `on`, `yes` and a date are
texts. What JSON does not have is refused: anchors and aliases, tags, keys that are no texts, a second document.
"""

import re
from typing import Final, cast

import yaml

from tooldispatchd.catalog.problems import Path
from tooldispatchd.config.documents import MAX_DEPTH, Document, DocumentError, FileLines

_WORDS: Final[dict[str, object]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# The one in C is some ten times as fast, and not everywhere.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str) -> Document:
    """The document of a YAML text. Raises `DocumentError`."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        # The error itself carries a part of the text along.
        raise DocumentError(f"not YAML: {error.problem}", line) from None
    except yaml.YAMLError:
        raise DocumentError("not YAML: it has a character that no YAML may have") from None
    return Document(builder.value, builder.lines)


class _Builder:
    """Makes the value of a parser's events, with a list in the place of recursion."""

    def __init__(self) -> None:
        self.value: object = None
        self.lines = FileLines()
        self._holders: list[dict[str, object] | list[object]] = []
        # Where the next value stands; within a mapping it ends with None until the key is there.
        self._path: list[str | int | None] = []
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise DocumentError("a second document begins here", line)
            case yaml.AliasEvent():
                raise DocumentError("an alias (*) is not taken: write what it stands for", line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._refuse_tag(event, line)
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._holders.pop()
                self._path.pop()
                self._advance()
            case yaml.ScalarEvent():
                self._scalar(event, line)

    def _begin(self, holder: dict[str, object] | list[object], line: int) -> None:
        self._put(holder, line)
        self._holders.append(holder)
        self._path.append(None if isinstance(holder, dict) else 0)
        self.lines.depth = max(self.lines.depth, len(self._path))
        if self.lines.depth > MAX_DEPTH:
            raise DocumentError(f"arrays and objects are nested more than {MAX_DEPTH} deep", line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        self._refuse_tag(event, line)
        if self._path and self._path[-1] is None:
            holder = cast("dict[str, object]", self._holders[-1])
            if event.value in holder:
                raise DocumentError("this key stands here already", line)
            self._path[-1] = event.value
            self._note(line)
            holder[event.value] = None
        else:
            self._put(event.value if event.style else _plain(event.value), line)
            self._advance()

    def _put(self, value: object, line: int) -> None:
        """Put a value where the next one stands."""
        if not self._holders:
            self.value = value
            return
        holder, step = self._holders[-1], self._path[-1]
        if isinstance(holder, list):
            self._note(line)
            holder.append(value)
        elif step is None:
            raise DocumentError("a key is a text", line)
        else:
            holder[str(step)] = value

    def _advance(self) -> None:
        """The value where the path leads is complete."""
        if self._holders:
            holder = self._holders[-1]
            self._path[-1] = len(holder) if isinstance(holder, list) else None

    def _note(self, line: int) -> None:
        self.lines.note(cast("Path", tuple(self._path)), line)

    @staticmethod
    def _refuse_tag(event: yaml.NodeEvent, line: int) -> None:
        if getattr(event, "tag", None) not in {None, "!"}:
            raise DocumentError("a tag (!) is not taken", line)
        if event.anchor is not None:
            raise DocumentError("an anchor (&) is not taken", line)


def _plain(text: str) -> object:
    """The value of a word without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
