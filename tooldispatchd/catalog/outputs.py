"""How what a program writes is to be read; it stands alone, since all that tells how a call ends needs it."""

from enum import StrEnum


class Output(StrEnum):
    """What a program writes to stdout: one JSON value, text, a list of lines, or a list with a JSON value a line.

    Of one whose answer says nothing (`NULL`) the value may also be left out. A `TRANSCRIPT` is text that need not be
    UTF-8, of stdout and stderr. `PARTS` are a JSON list of typed parts, and a `FILE` is the bytes of one of them.
    """

    JSON = "json"
    NULL = "null"
    TEXT = "text"
    LINES = "lines"
    JSON_LINES = "json_lines"
    TRANSCRIPT = "transcript"
    PARTS = "parts"
    FILE = "file"

    @property
    def is_parts(self) -> bool:
        """Whether its value is a list of typed parts."""
        return self is Output.PARTS or self is Output.FILE
