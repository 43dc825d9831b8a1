"""Jobs for checkers, as any module may have them."""

import os
import time


def double(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """Twice the payload, and the arguments."""
    return arguments, bytes(payload) * 2


def beside(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes, bytes]:
    """The payload, and the arguments beside it."""
    return b"", bytes(payload), arguments


def eat(_arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """More memory than a checker has."""
    return b"", b"x" * (2 << 30)


def hang(_arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """No end."""
    while True:
        time.sleep(1)


def die(_arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """The end of the process."""
    os._exit(3)


def pid(_arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """Which process this is."""
    return str(os.getpid()).encode(), b""


def nice(_arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """How far it stands back."""
    return str(os.getpriority(os.PRIO_PROCESS, 0)).encode(), b""


def starve(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """End when it does not stand back any more."""
    while (found := nice(arguments, payload))[0] != b"0":
        time.sleep(0.05)
    return found
