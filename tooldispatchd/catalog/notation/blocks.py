"""`tool {…}` and `agent {…}`: their entries as the keys of `[tools.NAME]` and `[processes.NAME]`."""

from itertools import takewhile
from typing import Final

import msgspec

from tooldispatchd.catalog.names import MAX_NAME
from tooldispatchd.catalog.notation.syntax import Block, KeyValue
from tooldispatchd.catalog.notation.values import Meaning, Values
from tooldispatchd.catalog.notation.written import Declarations, Table
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.specs import ToolSpec

_OF_TOOL: Final = tuple(field.name for field in msgspec.structs.fields(ToolSpec) if field.name != "type")
_OF_AGENT: Final = ("prompt", "model", "tools", "mcp", "command", "args", "env", "cwd", "description", "options")
# What a process has as well and no agent: to take them for options would hide a mistake.
_OF_OTHERS: Final = frozenset({"kind", "map", "filter", "project", "chain"})
# Near to a known key, and known to agents' programs.
_OWN_OPTIONS: Final = frozenset({"prompts"})
_MEANINGS: Final = {
    "process": Meaning.DECLARED,
    "tools": Meaning.DECLARED,
    "mcp": Meaning.SERVER,
}


class Blocks:
    """Makes tables of blocks."""

    def __init__(self, values: Values, written: Declarations) -> None:
        self._values = values
        self._written = written

    def tool(self, block: Block, path: Path) -> Table:
        """The keys of a tool."""
        table: Table = {}
        for pair in block.entries.pairs:
            if pair.key == "type":
                self._refuse_type(pair)
            elif pair.key in _OF_TOOL:
                table[pair.key] = self._make(pair, (*path, pair.key))
            else:
                why = f'a tool has no key "{pair.key[:MAX_NAME]}"'
                self._written.refuse_unknown(pair.place, why, pair.key, _OF_TOOL)
        return table

    def agent(self, block: Block, path: Path) -> Table:
        """The keys of an agent's process; what is no key of it goes to `options`."""
        table: Table = {}
        others: list[KeyValue] = []
        for pair in block.entries.pairs:
            if pair.key == "type":
                self._refuse_type(pair)
            elif pair.key in _OF_AGENT:
                table[pair.key] = self._make(pair, (*path, pair.key))
            elif self._is_refused(pair):
                continue
            else:
                others.append(pair)
        if others:
            self._add_options(table, others, (*path, "options"))
        return table

    def _make(self, pair: KeyValue, path: Path) -> object:
        self._written.places[path] = pair.place
        made = self._values.make(pair.value, path, _MEANINGS.get(pair.key, Meaning.NOTHING))
        if pair.key != "command" or made is None or isinstance(made, list):
            return made
        if not isinstance(made, str):
            self._refuse(pair, "command takes a text, or a list of texts")
            self._written.miss(path)
            return None
        # A program without arguments is written as a text.
        return [made]

    def _add_options(self, table: Table, others: list[KeyValue], path: Path) -> None:
        options = table.setdefault("options", {})
        self._written.places.setdefault(path, others[0].place)
        if not isinstance(options, dict):
            return
        for pair in others:
            if pair.key in options:
                self._refuse(pair, f'"{pair.key}" stands in the options already')
            options[pair.key] = self._make_option(pair, (*path, pair.key))

    def _make_option(self, pair: KeyValue, path: Path) -> object:
        self._written.places[path] = pair.place
        return self._values.make(pair.value, path)

    def _is_refused(self, pair: KeyValue) -> bool:
        if pair.key in _OF_OTHERS:
            self._refuse(pair, f'"{pair.key}" is no key of an agent; in options: {{ … }} it goes to its program')
            return True
        meant = next((known for known in _OF_AGENT if _is_one_letter_off(pair.key, known)), None)
        if meant is None or pair.key in _OWN_OPTIONS:
            return False
        why = f'"{pair.key}" is no key of an agent, and nearly one; in options: {{ … }} it goes to its program'
        self._refuse(pair, why, meant)
        return True

    def _refuse_type(self, pair: KeyValue) -> None:
        self._refuse(pair, "the type stands before the braces: let name : A -> B = …")

    def _refuse(self, pair: KeyValue, why: str, near: str | None = None) -> None:
        self._written.refuse(pair.place, why, near)


def _is_one_letter_off(word: str, other: str) -> bool:
    """Whether one letter more, less or other makes the one of the other, or two letters that changed places."""
    start = _common(word, other)
    left, right = word[start:], other[start:]
    end = _common(left[::-1], right[::-1])
    left, right = left[: len(left) - end], right[: len(right) - end]
    return max(len(left), len(right)) == 1 or (len(left) == 2 and left == right[::-1])


def _common(word: str, other: str) -> int:
    """With how many letters both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
