"""How what a program writes is to be read; it stands alone, since all that tells how a call ends needs it."""

from enum import StrEnum


class Output(StrEnum):
    """What a program writes to stdout: one JSON value, text, a list of lines, or a list with a JSON value a line.

    Of one whose answer says nothing (`NULL`) the value may also be left out.
    """

    JSON = "json"
    NULL = "null"
    TEXT = "text"
    LINES = "lines"
    JSON_LINES = "json_lines"
