"""YAML documents: as much of YAML as says what JSON says, with the line of each part.

Plain words mean what YAML 1.2's core schema says: `true`, `null` and numbers are values, `on`, `yes` and a date are
texts. What JSON does not have is refused: tags, keys that are no texts, a second document; and anchors and aliases, but
in a document that `read_shared_yaml` reads, where what they stand for is bounded, and merged by `<<`.
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
# Documents of OpenAPI: schemas nest in schemas, which lie some ten levels deep in the document.
SHARED_DEPTH: Final = 100
# The largest known document of OpenAPI has two million parts; each alias counts for all that it stands for.
MAX_PARTS: Final = 4_000_000
_MERGE: Final = "<<"
# The one in C is some ten times as fast, and not everywhere.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str) -> Document:
    """The document of a YAML text. Raises `DocumentError`."""
    builder = _Builder()
    _build(builder, text)
    return Document(builder.value, builder.lines)


def read_shared_yaml(text: str) -> object:
    """The value of a YAML text that may have anchors and aliases. Raises `DocumentError`."""
    builder = _SharingBuilder()
    _build(builder, text)
    return builder.value


def _build(builder: "_Builder", text: str) -> None:
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        # From 6.0.4 on the scanner has a depth of its own, and passes it before the first event is given.
        if "nesting depth" in str(error.problem):
            raise builder.too_deep(line) from None
        # The error itself carries a part of the text along.
        raise DocumentError(f"not YAML: {error.problem}", line) from None
    except yaml.YAMLError:
        raise DocumentError("not YAML: it has a character that no YAML may have") from None


class _Builder:
    """Makes the value of a parser's events, with a list in the place of recursion."""

    max_depth = MAX_DEPTH

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
                self._take_alias(str(event.anchor), line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._look_at(event, line)
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(line)
            case yaml.ScalarEvent():
                self._scalar(event, line)

    def _begin(self, holder: dict[str, object] | list[object], line: int) -> None:
        self._put(holder, line)
        self._holders.append(holder)
        self._path.append(None if isinstance(holder, dict) else 0)
        self.lines.depth = max(self.lines.depth, len(self._path))
        if self.lines.depth > self.max_depth:
            raise self.too_deep(line)

    def too_deep(self, line: int) -> DocumentError:
        return DocumentError(f"arrays and objects are nested more than {self.max_depth} deep", line)

    def _end(self, _line: int) -> None:
        self._holders.pop()
        self._path.pop()
        self._advance()

    def _take_alias(self, _name: str, line: int) -> None:
        raise DocumentError("an alias (*) is not taken: write what it stands for", line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        self._look_at(event, line)
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

    def _look_at(self, event: yaml.NodeEvent, line: int) -> None:
        """Refuse what is not taken of a node that begins."""
        _refuse_tag(event, line)
        if event.anchor is not None:
            raise DocumentError("an anchor (&) is not taken", line)


class _SharingBuilder(_Builder):
    """As `_Builder`, with anchors and aliases, and without lines, which a large document has too many of."""

    max_depth = SHARED_DEPTH

    def __init__(self) -> None:
        super().__init__()
        self._parts = 0
        # What each anchor stands for, and how many parts that has, once it is complete.
        self._anchors: dict[str, tuple[object, int]] = {}
        # The anchor of each holder that is not complete, and how many parts there were before it.
        self._open: list[tuple[str | None, int]] = []

    def _look_at(self, event: yaml.NodeEvent, line: int) -> None:
        _refuse_tag(event, line)
        self._count(1, line)
        if not isinstance(event, yaml.ScalarEvent):
            self._open.append((event.anchor, self._parts))
        elif event.anchor is not None:
            self._anchors[event.anchor] = (event.value if event.style else _plain(event.value), 1)

    def _end(self, line: int) -> None:
        holder = self._holders[-1]
        anchor, before = self._open.pop()
        if isinstance(holder, dict) and _MERGE in holder:
            merged = holder.pop(_MERGE)
            for each in reversed(merged if isinstance(merged, list) else [merged]):
                if not isinstance(each, dict):
                    raise DocumentError("only mappings are merged (<<)", line)
                for key, value in each.items():
                    holder.setdefault(key, value)
        if anchor is not None:
            self._anchors[anchor] = (holder, 1 + self._parts - before)
        super()._end(line)

    def _take_alias(self, name: str, line: int) -> None:
        # One of its own holder is unknown yet: nothing holds itself.
        if name not in self._anchors:
            raise DocumentError("an alias (*) stands for nothing that is complete", line)
        value, parts = self._anchors[name]
        self._count(parts, line)
        self._put(value, line)
        self._advance()

    def _count(self, parts: int, line: int) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS:
            raise DocumentError(f"the document has more than {MAX_PARTS} parts, with what its aliases stand for", line)

    def _note(self, line: int) -> None:
        """Keep nothing."""


def _refuse_tag(event: yaml.NodeEvent, line: int) -> None:
    if getattr(event, "tag", None) not in {None, "!"}:
        raise DocumentError("a tag (!) is not taken", line)


def _plain(text: str) -> object:
    """The value of a word without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
