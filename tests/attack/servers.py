"""MCP servers over stdio that say more than anyone can bear, each named by its first argument.

Each is a function that serves until its input ends. `tests/servers/misbehaving.py` has what a server needs for that.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.peers.hostile_peers import rows
from tests.servers.misbehaving import ECHO, Message, answer, calls, requests, text, write

MIB: Final = 1024 * 1024
LARGE: Final = 60 * MIB
"""Under the bound for one answer."""
MEMBERS: Final = [[number, -number] for number in range(15_000)]
PING: Final = b'{"jsonrpc":"2.0","id":"p","method":"ping"}\n'
NOTE: Final = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"so far"}}\n'
CHANGED: Final = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'


def whole(call: Message, result: bytes) -> None:
    """Answer with a result that is JSON already."""
    write(b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (call["id"], result))


def enum() -> None:
    """An output schema with an enum of 15,000 pairs, and 240 KB that are its last one again and again."""
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": {"enum": MEMBERS}}}}
    structured = {"rows": [MEMBERS[-1]] * 16_000}
    for call in calls([ECHO | {"outputSchema": schema}]):
        answer(call, text("see there") | {"structuredContent": structured})


def large_text() -> None:
    for call in calls():
        whole(call, b'{"content":[{"type":"text","text":"%b"}]}' % (b"x" * LARGE))


def large_structure() -> None:
    for call in calls([ECHO | {"outputSchema": {"type": "object"}}]):
        whole(call, b'{"content":[],"structuredContent":{"rows":%b}}' % rows(b"[]", LARGE))


def large_blocks() -> None:
    for call in calls():
        whole(call, b'{"content":%b}' % rows(b'{"type":"text","text":""}', LARGE))


def half_line() -> None:
    """Never comes to the end of its answer."""
    for call in calls():
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b' % (call["id"], b"x" * LARGE))


def catalogue(seed: int) -> list[Message]:
    """1,000 tools of 4 KiB each."""
    fields = {f"field_{seed}_{number}": {"type": "string", "minLength": number} for number in range(70)}
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    return [ECHO | {"name": f"echo{number}", "inputSchema": schema} for number in range(1000)]


def catalog() -> None:
    """Lists 4 MiB of tools."""
    for call in calls(catalogue(0)):
        answer(call, text(""))


def differing() -> None:
    """Lists 4 MiB of tools that nobody has seen before."""
    for call in calls(catalogue(os.getpid())):
        answer(call, text(""))


def hanging() -> None:
    """Reads everything and answers nothing."""
    for _ in requests():
        pass


def without_end(said: bytes) -> Callable[[], None]:
    """A server that says this for ever once it is called, and reads nothing meanwhile."""

    def serve() -> None:
        for _ in calls():
            while True:
                write(said * 1000)

    return serve


def changing() -> None:
    """Says in each answer a hundred times that its 4 MiB of tools have changed."""
    for call in calls(catalogue(0)):
        write(CHANGED * 100)
        answer(call, text(""))


def echo() -> None:
    """The one that behaves."""
    for call in calls():
        answer(call, text(call["arguments"].get("text", "")))


MODES: Final[dict[str, Callable[[], None]]] = {
    "echo": echo,
    "enum": enum,
    "large_text": large_text,
    "large_structure": large_structure,
    "large_blocks": large_blocks,
    "half_line": half_line,
    "catalog": catalog,
    "differing": differing,
    "changing": changing,
    "hanging": hanging,
    "pinging": without_end(PING),
    "noting": without_end(NOTE),
}


def tables(root: str) -> Iterator[str]:
    """Each as a table of the configuration, with a profile of its name; and 40 that hang, in one profile."""
    for mode in MODES:
        yield table(mode, mode, root) + f"[agents.{mode}]\nmcp = ['{mode}']\n"
    names = [f"hanging{number}" for number in range(40)]
    yield from (table(name, "hanging", root) for name in names)
    yield f"[agents.all_hanging]\nmcp = {json.dumps(names)}\n"


def table(name: str, mode: str, root: str) -> str:
    """Of `[mcp]`."""
    args = json.dumps(["-m", __name__, mode])
    return f"[mcp.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\ncwd = {json.dumps(root)}\n"


if __name__ == "__main__":
    MODES[sys.argv[1]]()
