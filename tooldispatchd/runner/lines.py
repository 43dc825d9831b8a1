"""Two sources of lines merged into one on an agent's stdin. Pure.

    daemon's lines, run's stdin ─▶ Merger ─▶ agent's stdin: whole lines, in the order of each source

It holds at most one unfinished line of `HOLD_BYTES` for a source; a longer one is passed on in pieces as it comes.
"""

from enum import Enum

from tooldispatchd.wire.splitting import HOLD_BYTES


class Voice(Enum):
    """A source of lines for the agent."""

    DAEMON = "daemon"
    STDIN = "stdin"


class Merger:
    """Merges two streams of lines into one; lines are never interleaved."""

    def __init__(self) -> None:
        self._held = {voice: bytearray() for voice in Voice}
        # The bytes of it that are whole lines; they wait while a long line of the other is passed on in pieces.
        self._whole = dict.fromkeys(Voice, 0)
        self._speaker: Voice | None = None

    def accepts(self, voice: Voice) -> bool:
        """Whether more of this source may be read."""
        return self._speaker is voice or len(self._held[voice]) <= HOLD_BYTES

    def merge(self, voice: Voice, chunk: bytes) -> bytes:
        """The bytes to pass on, after `chunk` of this source."""
        said = b""
        if self._speaker is voice:
            end = chunk.find(b"\n") + 1
            if not end:
                return chunk
            said, chunk = chunk[:end], chunk[end:]
            self._speaker = None
        held = self._held[voice]
        end = chunk.rfind(b"\n") + 1
        if end:
            self._whole[voice] = len(held) + end
        held += chunk
        return said + self._collect()

    def end(self, voice: Voice) -> bytes:
        """The bytes to pass on, after the end of this source.

        A last line without a newline gets one, so that the next line stays separate; the daemon's is dropped.
        """
        said = b""
        if self._speaker is voice:
            said = b"\n"
            self._speaker = None
        elif voice is Voice.DAEMON:
            del self._held[voice][self._whole[voice] :]
        elif len(self._held[voice]) > self._whole[voice]:
            self._held[voice] += b"\n"
            self._whole[voice] = len(self._held[voice])
        return said + self._collect()

    def _collect(self) -> bytes:
        said = []
        for voice, held in self._held.items():
            if self._speaker is not None:
                break
            if len(held) - self._whole[voice] > HOLD_BYTES:
                # Too long to be held: its pieces go out as they come, and the other source waits for its end.
                self._speaker = voice
                self._whole[voice] = len(held)
            said.append(bytes(held[: self._whole[voice]]))
            del held[: self._whole[voice]]
            self._whole[voice] = 0
        return b"".join(said)
