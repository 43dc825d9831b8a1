"""Colours on a terminal, where they are wanted: `--color`, NO_COLOR (no-color.org), and no terminal that is dumb."""

import os
from typing import Final, TextIO

CHOICES: Final = ("auto", "always", "never")
_RESET: Final = "\033[0m"


class Paint:
    """Colours what is printed to one stream, or leaves it as it is."""

    def __init__(self, choice: str, stream: TextIO | None) -> None:
        is_shown = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        wanted = is_shown and not os.environ.get("NO_COLOR")
        self._is_on = choice == "always" or (choice == "auto" and wanted)

    def strong(self, text: str) -> str:
        """A name, or a heading."""
        return self._coloured("1", text)

    def warning(self, text: str) -> str:
        """What should be looked at."""
        return self._coloured("33", text)

    def error(self, text: str) -> str:
        """What went wrong."""
        return self._coloured("31", text)

    def _coloured(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}{_RESET}" if self._is_on and text else text


def printable(text: str) -> str:
    """A line of somebody else's: what is not printable must not reach the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
