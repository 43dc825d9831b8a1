"""Translate the expressions of `map(…)` and `filter(…)` to CEL, piece by piece. What CEL has too is left as it is.

`=` is `==`, `not x` is `!x`, a dot that follows nothing is the whole input, a record's keys are quoted where they are
names, a name alone in a record takes the field of that name, and the commas of a record may be left out.
"""

import re
from bisect import bisect_right
from typing import Final

import msgspec

from tooldispatchd.catalog.expressions.door import INPUT, TYPE_NAMES
from tooldispatchd.catalog.notation.places import SourcePosition, refusal
from tooldispatchd.catalog.notation.syntax import Piece

_BLANKS: Final = " \t\r"
_OPENING: Final = frozenset({"(", "[", "{"})
# The signs that an operand may begin with.
_BEGINNING: Final = _OPENING | {"!", ".", "-"}
# Names that are no operands, and what CEL calls them.
_OPERATORS: Final = {"not": "!", "in": "in"}
_CLOSING: Final = frozenset({")", "]", "}"})
# What other languages have between two operands, and how it is written here.
_ELSEWHERE: Final = {
    "and": "&&",
    "or": "||",
    "is": "==",
    "equals": "==",
    "xor": "!=",
    "&": "&&",
    "|": "||",
    "===": "==",
    "!==": "!=",
    "<>": "!=",
    "=>": ">=",
    "=<": "<=",
}
_LIKE_SIGNS: Final = frozenset("=<>!&|")


class SourceMap(msgspec.Struct, frozen=True):
    """Where the parts of a CEL text came from: their lines and columns (1-based, ascending), and the file's places."""

    marks: tuple[tuple[int, int], ...]
    places: tuple[SourcePosition, ...]

    def place_of(self, line: int, column: int) -> SourcePosition:
        """Where in the file the character at `line` and `column` of the CEL text comes from."""
        index = max(bisect_right(self.marks, (line, column)) - 1, 0)
        place, (mark_line, mark_column) = self.places[index], self.marks[index]
        # Within a piece characters stand one after the other; past it the column means nothing to the file.
        inside = column - mark_column if line == mark_line else 0
        return SourcePosition(place.file, place.line, place.column + max(inside, 0))


class TranslatedExpression(msgspec.Struct, frozen=True):
    """An expression in CEL, and where its parts came from."""

    cel: str
    origin: SourceMap


def translate(pieces: tuple[Piece, ...]) -> TranslatedExpression:
    """The CEL text of an expression, line for line; at least one of the pieces is not blank. Raises `NotationError`."""
    return _Translation(pieces).run()


def field_of_input(path: str) -> str:
    """The CEL text that takes a field of the input, whatever the input is."""
    return f"{INPUT}.{path}"


class _Frame(msgspec.Struct):
    """An open bracket: whether it is a record's, and whether an entry of it begins here."""

    is_record: bool = False
    begins: bool = False


class _Translation:
    """One pass over the pieces. It looks ahead to the next piece that is not blank."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        meant = [index for index, piece in enumerate(pieces) if piece.kind != "space"]
        self._pieces = pieces[meant[0] : meant[-1] + 1]
        self._frames = [_Frame()]
        # What a dot or a name means depends on whether an operand ends before it.
        self._after_operand = False
        self._after_dot = False
        self._parts: list[str] = []
        self._marks: list[tuple[int, int]] = []
        self._places: list[SourcePosition] = []
        self._line, self._column = 1, 1

    def run(self) -> TranslatedExpression:
        for index, piece in enumerate(self._pieces):
            if piece.kind == "space":
                text = piece.text
                if "\n" in text:
                    # Comments leave blanks at the ends of lines.
                    while not self._parts[-1].strip(_BLANKS):
                        self._parts.pop()
                    if self._parts[-1].isspace():
                        self._parts[-1] = self._parts[-1].rstrip(_BLANKS)
                    text = re.sub(f"[{_BLANKS}]+\n", "\n", text)
                # `not x` is `!x`.
                if self._parts[-1] != "!" or text.strip(" "):
                    self._append(text)
                continue
            self._refuse_elsewhere(index)
            self._insert_comma(piece)
            self._marks.append((self._line, self._column))
            self._places.append(piece.place)
            if piece.kind == "sign":
                self._sign(piece, self._pieces[index + 1 : index + 2])
            else:
                self._word(piece, self._next_meant(index))
        return TranslatedExpression("".join(self._parts), SourceMap(tuple(self._marks), tuple(self._places)))

    def _next_meant(self, index: int) -> Piece | None:
        while (index := index + 1) < len(self._pieces):
            if self._pieces[index].kind != "space":
                return self._pieces[index]
        return None

    def _refuse_elsewhere(self, index: int) -> None:
        """Refuse what another language has where an operand has ended, or where a record's entry begins."""
        piece = self._pieces[index]
        if piece.text == "." and [each.text for each in self._pieces[index + 1 : index + 3]] == [".", "."]:
            raise refusal(piece.place, 'there is no "..." in an expression: a record names each of its fields')
        if not self._after_operand:
            return
        sign = piece.text
        if piece.kind == "sign":
            for each in self._pieces[index + 1 : index + 3]:
                if each.kind != "sign" or not _LIKE_SIGNS.issuperset(sign + each.text):
                    break
                sign += each.text
        following = self._next_meant(index)
        # Before anything that begins no operand, `and` may be a field of that name.
        is_between = following is not None and (following.kind != "sign" or following.text in _BEGINNING)
        here = _ELSEWHERE.get(sign) if is_between or sign != piece.text else None
        if here is not None:
            raise refusal(piece.place, f'"{sign}" is written {here} in an expression')

    def _append(self, text: str) -> None:
        self._parts.append(text)
        breaks = text.count("\n")
        self._line += breaks
        self._column = len(text) - text.rfind("\n") if breaks else self._column + len(text)

    def _sign(self, piece: Piece, following: tuple[Piece, ...]) -> None:
        sign = piece.text
        if sign == "." and not self._after_operand:
            # `.verdict` is a field of the whole input, and `.` alone is all of it.
            is_field = bool(following) and following[0].kind == "name"
            self._append(f"{INPUT}." if is_field else INPUT)
            self._after_operand, self._after_dot = not is_field, is_field
            return
        if sign in _OPENING:
            # CEL's `Name{…}` makes a message: its keys are no texts.
            is_record = sign == "{" and not self._after_operand
            self._frames[-1].begins = False
            self._frames.append(_Frame(is_record=is_record, begins=is_record))
        elif sign in _CLOSING:
            self._frames.pop()
        elif sign == ",":
            self._frames[-1].begins = self._frames[-1].is_record
        self._append("==" if sign == "=" else sign)
        self._after_operand = sign in _CLOSING
        self._after_dot = sign == "."

    def _word(self, piece: Piece, following: Piece | None) -> None:
        frame, text = self._frames[-1], piece.text
        begins, frame.begins = frame.begins, False
        is_free = piece.kind == "name" and not self._after_dot
        if is_free and begins:
            # An entry of a record begins with its key, or is a name alone, which takes the field of that name.
            assert following is not None, "the record's end, if nothing else, comes after it"
            is_alone = following.text in {",", "}"} or (following.kind != "sign" and following.text not in _OPERATORS)
            if following.text == ":":
                text = f'"{text}"'
            elif is_alone and text not in _OPERATORS:
                # A name of CEL's own types is a field only where it is asked of the input.
                text = f'"{text}": {field_of_input(text) if text in TYPE_NAMES else text}'
        self._after_operand = not (is_free and text in _OPERATORS)
        self._append(_OPERATORS.get(text, text) if is_free else text)
        self._after_dot = False

    def _insert_comma(self, piece: Piece) -> None:
        """Insert a comma where an entry of a record begins without one: no two operands stand side by side in CEL."""
        is_operand = piece.kind in {"name", "text", "number"} and not (piece.kind == "name" and piece.text == "in")
        if not (self._frames[-1].is_record and self._after_operand and is_operand):
            return
        # It goes before the blanks, where a person would write it.
        blanks: list[str] = []
        while self._parts[-1].isspace():
            blanks.append(self._parts.pop())
        self._parts += [",", *reversed(blanks)]
        if not any("\n" in blank for blank in blanks):
            self._column += 1
        self._frames[-1].begins = True
