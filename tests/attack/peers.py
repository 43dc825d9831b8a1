"""Hostile agents against the tools of `stage.CONFIG`: peers of one kind, as in `benchmarks.peers.hostile_peers`.

python -m tests.attack.peers SOCKET KIND CHANNELS
"""

import sys
from collections.abc import Callable
from typing import Final

import msgspec

from benchmarks.peers.hostile_peers import (
    INPUT_BYTES,
    LINE_BYTES,
    NEVER,
    Run,
    ask,
    call,
    come_and_go,
    play,
    pump,
    rows,
    slow,
)
from benchmarks.peers.hostile_peers import KINDS as BARE

SIZE: Final = b'{"size":60000000}'
SLEEP: Final = b'{"__port":"tool_req","id":"%d","name":"sleep","input":60}\n'
JOB: Final = b'{"__port":"tool_req","id":"%b","agent":"a%d","name":"%b","input":%b,"background":%b}\n'


OVER_64_BITS: Final = [b"%d" % (2**64 + number) for number in range(5_000)]


def hello(profile: str, **fields: object) -> bytes:
    return msgspec.json.encode({"__port": "hello", "profile": profile} | fields) + b"\n"


def checked(tool: bytes, part: bytes) -> Callable[[], Run]:
    """1.4 MiB for a declared tool whose schema makes much of each small value."""
    return lambda: ask(call(rows(part, INPUT_BYTES), tool))


def asked(tool: bytes, value: bytes = b"{}", first: bytes = b"") -> Callable[[], Run]:
    """One call after the other."""
    return lambda: ask(call(value, tool), first=first)


def of_server(mode: str) -> Callable[[], Run]:
    """The same of a server's `echo`."""
    return asked(f"{mode}:echo".encode(), b"{}", hello(mode))


def inputs_of(mode: str) -> Callable[[], Run]:
    """Lines of 8 MiB for a server."""
    return asked(f"{mode}:echo".encode(), b'{"text":"%b"}' % (b"x" * (LINE_BYTES - 1024)), hello(mode))


def opened(said: bytes) -> Callable[[], Run]:
    """Sessions that open, hear it all, and close, without end."""
    return lambda: lambda path, channels: come_and_go(said, path, channels, half=True)


def unread_jobs() -> Run:
    """30 named agents, each with as much in results as one may have."""
    agents = range(30)
    said = [*(hello("default", agent=f"a{number}") for number in agents)]
    said += [JOB % (b"1", number, b"letters", SIZE, b"true") for number in agents]
    return pump(b"", first=b"".join(said))


def read_jobs() -> Run:
    """One large result, read as often as can be asked, by agents that take it."""
    begun = hello("default", agent="a1") + JOB % (b"1", 1, b"letters", SIZE, b"true")
    return ask(JOB % (b"2", 1, b"job_read", b'{"job":"job-1"}', b"false"), first=begun)


KINDS: Final[dict[str, Callable[[], Run]]] = {
    **BARE,
    "enum of numbers and texts": checked(b"mixed", b'"999"'),
    "dependent names": checked(b"dependents", b"{}"),
    "long allOf": checked(b"all_of", b"1"),
    "long anyOf": checked(b"any_of", b"499"),
    "unique values": lambda: pump(call(rows(b"[[]]", LINE_BYTES // 2)[:-1] + b",1]", b"unique")),
    # Just below what is taken to a checker by its parts alone.
    "integers over 64 bits": lambda: pump(call(b"[%b]" % b",".join(OVER_64_BITS), b"unique")),
    "large exponents": lambda: pump(call(rows(b"1e308", 96 * 1024), b"echo")),
    "repeated patterns": asked(b"pattern", b'["%b"]' % (b"a" * 60_000)),
    "copies": lambda: pump(call(rows(b"[]"), b"copy")),
    "inputs of a program": lambda: ask(call(rows(b"[]"), b"count")),
    "inputs as text": lambda: ask(call(b'"%b"' % (b"\\u00e9" * (LINE_BYTES // 7)), b"count_text")),
    "inputs as arguments": lambda: pump(call(rows(b"[]"), b"count_arguments")),
    "inputs of a function": lambda: ask(call(b'{"given":%b}' % rows(b"[]"), b"take")),
    **{f"inputs of {mode}": inputs_of(mode) for mode in ("echo", "http_echo", "ws_echo")},
    "patterns": checked(b"pattern", b'"%b"' % (b"a" * 1000)),
    "a chain": lambda: pump(call(rows(b"[]"), b"chain")),
    "answers of functions": asked(b"function", SIZE),
    "answers read slowly": lambda: slow(call(SIZE, b"letters"), read_every_s=1.0),
    "answers never read": lambda: slow(call(SIZE, b"letters"), read_every_s=NEVER),
    "unread jobs": unread_jobs,
    "jobs read again and again": read_jobs,
    "wrong tokens": opened(b"".join(hello("secret", token="wrong", agent=str(number)) for number in range(4))),
    "sleeps": lambda: pump(b"", first=b"".join(SLEEP % number for number in range(16))),
    "zombies": asked(b"zombies"),
    "shown to openai": opened(hello("catalog", schemas="openai")),
    "shown to google": opened(hello("catalog", schemas="google")),
    "lists for google": lambda: ask(b'{"__port":"tools","schemas":"google"}\n', first=hello("catalog")),
    "schemas that differ": opened(hello("differing")),
    **{mode: of_server(mode) for mode in ("enum", "large_text", "large_structure", "large_blocks", "half_line")},
    **{mode: of_server(mode) for mode in ("changing", "pinging", "noting", "post", "get", "half_events", "ws")},
}

if __name__ == "__main__":
    play(KINDS, *sys.argv[1:])
