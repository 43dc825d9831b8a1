"""What hostile programs do, as a program and as functions of Python tools: `hostilities.py ENDING NOTE`.

Each writes to the file NOTE when it is as it wants to be, so that nobody has to guess how long that takes. The standard
library alone, for any interpreter.
"""

# By the system's own calls, not by what Path makes of them.
# ruff: noqa: PTH101, PTH103, PTH110, PTH118, PTH119, PTH123

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn

# A bomb has so many processes that fork for ever, each into one that takes its place: more would harm the machine
# that the tests run on, and prove no more.
GENERATIONS: Final = 4
# What writes or burns for ever pauses after each turn, so that a dozen of them do not take the machine from the other
# tests of `make test`; the first of what is written, far over every bound, comes at full speed.
IS_FULL: Final = "ATTACK_S" in os.environ
FORKS_EVERY_S: Final = 0.05 if IS_FULL else 0.15
PAUSE_S: Final = 0.0 if IS_FULL else 0.02
BURNS_S: Final = 0.01
AT_FULL_SPEED: Final = 256
# A machine that lets everything be opened is not to be filled by a test.
MOST: Final = 100_000


def play(ending: str, note: str) -> int:
    """As a function of a tool: does it, and returns where that is over."""
    ENDINGS[ending](note)
    return 1


def underway(note: str) -> None:
    """Say so, and which process group and session this process is in."""
    fd = os.open(note, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o666)
    os.write(fd, b"%d %d\n" % (os.getpgrp(), os.getsid(0)))
    os.close(fd)


def hang() -> NoReturn:
    while True:
        time.sleep(1000)


def leave(do: Callable[[], object]) -> int:
    """Fork a child that does something and then hangs; its pid."""
    pid = os.fork()
    if pid == 0:
        do()
        hang()
    return pid


def until_there(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.002)


def answers(note: str) -> None:
    underway(note)


def ignores_term(note: str) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU):
        signal.signal(signum, signal.SIG_IGN)
    underway(note)
    hang()


def forks_grandchildren(note: str) -> None:
    def grow() -> None:
        leave(lambda: None)
        leave(lambda: underway(note))

    leave(lambda: None)
    leave(grow)
    until_there(note)


def leaves_its_session(note: str) -> None:
    def begin_anew() -> None:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        underway(note)

    leave(begin_anew)
    until_there(note)


def flees(note: str) -> None:
    def go_on() -> None:
        os.setsid()
        underway(note)
        # In a group and session of its own each time, and each gone soon.
        while True:
            time.sleep(FORKS_EVERY_S)
            if os.fork():
                os._exit(0)
            os.setsid()

    leave(go_on)
    hang()


def litters(note: str) -> None:
    # Where it may write; a directory that its owner may not enter, and others below one another.
    os.chdir(os.environ["TMPDIR"])
    for number in range(100):
        os.close(os.open(f"file {number}", os.O_CREAT | os.O_WRONLY))
    os.makedirs("/".join(["deep"] * 200))
    os.makedirs("locked/below")
    os.chmod("locked", 0)
    underway(note)
    hang()


def closes_its_output(note: str) -> None:
    # Of a function also what it is called by.
    os.closerange(1, 256)
    underway(note)
    hang()


def writes_for_ever(note: str) -> None:
    underway(note)
    chunk = b"x" * 65_536
    for _ in range(AT_FULL_SPEED):
        os.write(1, chunk)
    while True:
        time.sleep(PAUSE_S)
        os.write(1, chunk)


def reads_nothing(note: str) -> None:
    underway(note)
    hang()


def exits_unread(note: str) -> None:
    underway(note)


def leaves_a_holder(note: str) -> None:
    leave(lambda: underway(note))
    until_there(note)


def stops_itself(note: str) -> None:
    leave(lambda: None)
    underway(note)
    os.killpg(0, signal.SIGSTOP)


def burns_processor_time(note: str) -> None:
    underway(note)
    # For those who must work beside it; at the lowest priority a second of it could take for ever on a busy machine.
    os.nice(5)
    while True:
        until = time.thread_time() + BURNS_S
        while time.thread_time() < until:
            pass
        time.sleep(PAUSE_S)


def fills_a_file(note: str) -> None:
    underway(note)
    fill(f"{note}.full")


def fills_the_file_system(note: str) -> None:
    underway(note)
    fill(os.path.join(os.environ["TMPDIR"], os.path.basename(note)))


def fill(path: str) -> None:
    with open(path, "wb", buffering=0) as file:
        for _ in range(MOST):
            file.write(b"x" * 4096)


def forks_without_end(note: str) -> None:
    def go_on() -> None:
        for _ in range(GENERATIONS):
            os.fork()
        underway(note)
        # Each goes on in a child and ends: there are always as many, and never the same.
        while True:
            time.sleep(FORKS_EVERY_S)
            if os.fork():
                os._exit(0)

    leave(go_on)
    hang()


def forks_all_it_can(note: str) -> None:
    underway(note)
    for _ in range(MOST):
        leave(lambda: None)


def allocates_without_end(note: str) -> None:
    underway(note)
    held = [bytearray(1 << 20) for _ in range(1024)]
    raise AssertionError(f"{len(held)} MiB were given")


def opens_without_end(note: str) -> None:
    underway(note)
    for _ in range(MOST):
        os.dup(0)


ENDINGS: Final = {
    each.__name__: each
    for each in (
        *(answers, ignores_term, forks_grandchildren, leaves_its_session, flees, litters, closes_its_output),
        *(writes_for_ever, reads_nothing, exits_unread, leaves_a_holder, stops_itself, burns_processor_time),
        *(
            fills_a_file,
            fills_the_file_system,
            forks_without_end,
            forks_all_it_can,
            allocates_without_end,
            opens_without_end,
        ),
    )
}
UNREAD: Final = {"reads_nothing", "exits_unread"}


def main(ending: str, note: str) -> None:
    """As a program: a line in, unless it is not read, and a line out."""
    if ending not in UNREAD:
        sys.stdin.buffer.readline()
    play(ending, note)
    os.write(1, b"1\n")
    # What it has forked must not answer too, and nothing of the interpreter's is worth the wait.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
