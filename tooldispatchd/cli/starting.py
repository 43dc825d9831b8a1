"""The line on a terminal that names the servers that a command waits for; wiped when they have answered."""

import os
from collections.abc import Sequence
from math import inf
from typing import Final, TextIO

# A quick start shows nothing.
FIRST_S: Final = 0.5
AGAIN_S: Final = 1.0
# ECMA-48, "erase in line", from the line's first column.
_WIPE: Final = "\r\x1b[K"


def is_drawable(stream: TextIO | None) -> bool:
    """Tell whether a stream is a terminal that understands more than lines."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


class StartNotice:
    """A line on a stream, where that is a terminal; at `due` it is to be drawn anew."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream: Final = stream if is_drawable(stream) else None
        self.due = inf
        self.servers: Sequence[str] = ()
        self._began = 0.0
        self._is_drawn = False

    def begin(self, now: float) -> None:
        """Count the seconds from now on."""
        self._began = now
        self.due = inf if self.stream is None else now + FIRST_S

    def draw(self, now: float) -> None:
        """Write the line over the one before."""
        if self.stream is not None:
            # Slow to import, and needed only on a terminal that waits.
            import shutil

            waited = f" ({now - self._began:.0f} s)"
            text = f"waiting for {', '.join(self.servers) or 'the daemon'}"
            room = shutil.get_terminal_size().columns - len(waited) - 1
            print(f"{_WIPE}{text if len(text) <= room else text[: room - 1] + '…'}{waited}", end="", file=self.stream)
            self.stream.flush()
            self._is_drawn = True
            self.due = now + AGAIN_S

    def end(self) -> None:
        """Wipe the line."""
        self.due = inf
        if self.stream is not None and self._is_drawn:
            print(_WIPE, end="", file=self.stream, flush=True)
            self._is_drawn = False
