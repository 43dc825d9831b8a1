"""An MCP server over stdio that goes wrong in one way, named by its first argument; the standard library only.

Each mode is a function that serves until its input ends.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

# As mypy takes it. To import `typing` would cost each of a thousand servers a fifth of its start, `subprocess` as much.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Message = dict[str, "Any"]

ECHO = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def send(message: object) -> None:
    write(json.dumps(message).encode() + b"\n")


def answer(request: Message, result: object) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}]}


def requests() -> Iterator[Message]:
    """Messages that bear an id; the others are not for a test to see."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            yield message


def greet(request: Message, revision: str = "2025-11-25") -> None:
    result = {
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "misbehaving", "version": "1"},
        "instructions": "Handle with care.",
    }
    answer(request, result)


def calls(tools: list[Message] | None = None) -> Iterator[Message]:
    """Do the handshake as it should be; the calls, each with its `arguments` at the top."""
    for request in requests():
        if request["method"] == "initialize":
            greet(request)
        elif request["method"] == "tools/list":
            answer(request, {"tools": [ECHO] if tools is None else tools})
        elif request["method"] == "tools/call":
            yield request | {"arguments": request["params"]["arguments"]}
        else:
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "No"}})


def echo() -> None:
    """The one that behaves: it says `text`, after `sleep_s`; `exit` and `kill` end it."""
    for call in calls():
        arguments = call["arguments"]
        if "exit" in arguments:
            os._exit(arguments["exit"])
        if "kill" in arguments:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(arguments.get("sleep_s", 0))
        answer(call, text(arguments.get("text", "")))


def hinted() -> None:
    """Says of one tool that it only reads, and of one that it destroys."""
    hints = {"look": {"readOnlyHint": True}, "wipe": {"destructiveHint": True}, "add": {}}
    for call in calls([ECHO | {"name": name, "annotations": each} for name, each in hints.items()]):
        answer(call, text(""))


def remembers() -> None:
    """Says each `text` that it was told so far."""
    told: list[str] = []
    for call in calls():
        told.append(call["arguments"]["text"])
        answer(call, text(" ".join(told)))


def results() -> None:
    """Gives back its arguments as the whole result."""
    for call in calls():
        answer(call, call["arguments"]["result"])


def raw() -> None:
    """Writes `line` as it is, with the call's id in the place of `ID`; `latin1` says in which encoding."""
    for call in calls():
        line = call["arguments"]["line"].replace("ID", json.dumps(call["id"]))
        write(line.encode("latin-1" if "latin1" in call["arguments"] else "utf-8") + b"\n")


def silent() -> None:
    """Reads everything and answers nothing."""
    for _ in requests():
        pass


def silent_calls() -> None:
    """Does the handshake and then answers nothing."""
    for _ in calls():
        pass


def deaf() -> None:
    """Does the handshake and then reads nothing, not even the end of its input."""
    for _ in calls([ECHO]):
        time.sleep(3600)


def late() -> None:
    """Holds each answer back until the next call has come, and gives it after that one's."""
    held: Message | None = None
    for call in calls():
        if call["arguments"].get("hold"):
            held = call
            continue
        answer(call, text("prompt"))
        if held is not None:
            answer(held, text("late"))
            held = None


def reversed_order() -> None:
    """Answers three calls at a time, the last one first."""
    held: list[Message] = []
    for call in calls():
        held.append(call)
        if len(held) == 3:
            for each in reversed(held):
                answer(each, text(each["arguments"]["text"]))
            held = []


def twice() -> None:
    """Answers everything twice, and what nobody asked for, in one write: who reads the first reads them all."""
    for call in calls():
        said = [(call["id"], call["arguments"]["text"]), (call["id"], "again"), (4711, "unasked")]
        messages = ({"jsonrpc": "2.0", "id": number, "result": text(words)} for number, words in said)
        write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def string_id() -> None:
    """Gives numbers back as strings."""
    for call in calls():
        answer(call | {"id": str(call["id"])}, text("matched"))


def null_id() -> None:
    """Answers each call with an error that has no id."""
    for _ in calls():
        send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})


def close_stdout() -> None:
    """Closes its output at the first call, and lives on until its input ends."""
    for _ in calls():
        os.close(1)


def close_stdin() -> None:
    """Closes its input at the first call, and lives on."""
    for _ in calls():
        os.close(0)
        time.sleep(3600)


def stubborn() -> None:
    """Ignores the end of its input, and SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for call in calls():
        answer(call, text("still here"))
    while True:
        time.sleep(3600)


def grandchild() -> None:
    """Leaves a child of its own behind, in its group, which holds its pipes; the answer is its pid."""
    child = os.posix_spawnp("sleep", ["sleep", "3600"], os.environ)
    for call in calls():
        if "exit" in call["arguments"]:
            os._exit(call["arguments"]["exit"])
        answer(call, text(str(child)))


def noisy() -> None:
    """Writes 1 MiB to stderr before every answer."""
    for call in calls():
        for _ in range(1024):
            os.write(2, b"x" * 1023 + b"\n")
        answer(call, text("done"))


def garbage() -> None:
    """Writes lines that are no JSON, no UTF-8 and no message before every answer."""
    for call in calls():
        write(b'Listening on port 8080\n\n\xff\xfe\xfd\n{"jsonrpc":\n[1,\n42\n[1,2]\nnull\n' + b"[" * 5000 + b"\n")
        answer(call, text("clean"))


def large() -> None:
    """Answers with one line of `bytes`."""
    for call in calls():
        head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % call["id"]
        write(head + b"x" * call["arguments"]["bytes"] + b'"}]}}\n')


def chatty() -> None:
    """Sends 20,000 notifications before every answer: progress of this call, or of none."""
    line = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}\n'
    for call in calls():
        token = call["params"].get("_meta", {}).get("progressToken", 1)
        write("".join(line % (token, step) for step in range(20_000)).encode())
        answer(call, text("done"))


def progress() -> None:
    """Tells `before`, answers with the `_meta` that it got (behind the next answer, if to `hold`), tells `after`."""
    held: Message | None = None
    for call in calls():
        arguments = call["arguments"]
        token = call["params"].get("_meta", {}).get("progressToken")
        token = {"string": str, "float": float}.get(arguments.get("token_as", ""), lambda same: same)(token)
        tell(arguments.get("before", []), token)
        if "exit" in arguments:
            os._exit(arguments["exit"])
        if "hold" in arguments:
            held = call
            continue
        answer(call, text(json.dumps(call["params"].get("_meta"))))
        if held is not None:
            answer(held, text("held"))
            held = None
        tell(arguments.get("after", []), token)


def lively() -> None:
    """Answers after 2 s, in which it tells its progress each quarter of a second where it was given a token."""
    for call in calls():
        token = call["params"].get("_meta", {}).get("progressToken")
        for step in range(8):
            time.sleep(0.25)
            tell([{"progress": step}] if token is not None else [], token)
        answer(call, text(call["arguments"].get("text", "at last")))


def tell(steps: "list[Any]", token: object) -> None:
    """Each of `steps` as the parameters of a progress, with `token` where a step names none; in one write."""
    said = [{"progressToken": token} | step if isinstance(step, dict) else step for step in steps]
    lines = [json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": each}) for each in said]
    write("".join(line + "\n" for line in lines).encode())


def list_from(page: Callable[[str | None], Message]) -> None:
    for request in requests():
        if request["method"] == "initialize":
            greet(request)
        elif request["method"] == "tools/list":
            answer(request, page(request.get("params", {}).get("cursor")))
        else:
            answer(request, text("called"))


def pages() -> None:
    """Three tools on three pages."""
    list_from(
        lambda cursor: (
            {"tools": [ECHO | {"name": f"tool{cursor or 0}"}]}
            | ({} if cursor == "2" else {"nextCursor": str(int(cursor or 0) + 1)})
        )
    )


def endless_pages() -> None:
    """A further page behind every page, and a further tool on it."""
    list_from(
        lambda cursor: {
            "tools": [ECHO | {"name": f"tool{cursor or 0}"}],
            "nextCursor": str(int(cursor or 0) + 1),
        }
    )


def same_page() -> None:
    """The same cursor again and again."""
    list_from(lambda cursor: {"tools": [ECHO], "nextCursor": "more"})


def bad_names() -> None:
    """A name that stands there twice, one that is empty, one that is long, and tools without names."""
    names = ["echo", "echo", "", "x" * 1025]
    list_from(lambda cursor: {"tools": [*(ECHO | {"name": name} for name in names), {"title": "nameless"}, 7]})


def bad_schemas() -> None:
    """Schemas that are broken in every way, and one that is not."""
    deep: Message = {"type": "object"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"x": deep}}
    tools = [
        ECHO,
        {"name": "absent"},
        {"name": "word", "inputSchema": "object"},
        {"name": "wrong", "inputSchema": {"type": "no such type"}},
        {"name": "dangling", "inputSchema": {"$ref": "#/$defs/nowhere"}},
        {"name": "remote", "inputSchema": {"$ref": "http://127.0.0.1:9/schema.json"}},
        {"name": "deep", "inputSchema": deep},
        {"name": "huge", "inputSchema": {"type": "object", "description": "x" * 300_000}},
        {"name": "output", "inputSchema": {"type": "object"}, "outputSchema": {"type": 5}},
    ]
    list_from(lambda cursor: {"tools": tools})


def old_revision() -> None:
    """Speaks a revision from before all others."""
    for request in requests():
        greet(request, "2023-01-01")


def toolless() -> None:
    """Declares no tools, and refuses to list them."""
    for request in requests():
        if request["method"] == "initialize":
            answer(request, {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "x"}})
        else:
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}})


def undeclared(then: str = "lists") -> None:
    """Declares no tools; asked for them all the same it lists one, hangs or ends."""
    for request in requests():
        if request["method"] == "initialize":
            answer(request, {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "x"}})
        elif then == "ends":
            os._exit(1)
        elif then == "lists":
            answer(request, {"tools": [ECHO]} if request["method"] == "tools/list" else text("called"))


def undeclared_hangs() -> None:
    """See `undeclared`."""
    undeclared("hangs")


def undeclared_ends() -> None:
    """See `undeclared`."""
    undeclared("ends")


def curious() -> None:
    """Asks for a ping and for sampling in every call; its answer is what it was told."""
    for call in calls():
        send({"jsonrpc": "2.0", "id": "p-1", "method": "ping"})
        send({"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": {}})
        said = [json.loads(sys.stdin.buffer.readline()) for _ in range(2)]
        answer(call, text(json.dumps(said)))


def witness() -> None:
    """Answers the second call with the notifications that came before it."""
    seen: list[Message] = []
    count = 0
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            seen.append(message)
        elif message["method"] == "initialize":
            greet(message)
        elif message["method"] == "tools/list":
            answer(message, {"tools": [ECHO]})
        else:
            count += 1
            if count == 2:
                answer(message, text(json.dumps(seen)))


def tattle() -> None:
    """Answers no call, and writes each notification to stderr."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message["method"] == "initialize":
            greet(message)
        elif message["method"] == "tools/list":
            answer(message, {"tools": [ECHO]})
        elif "id" not in message:
            sys.stderr.write(json.dumps(message) + "\n")


def refuses() -> None:
    """Answers initialize with an error."""
    for request in requests():
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32022, "message": "Too old"}})


def long_list() -> None:
    """Lists its tools on a line of 1 MiB."""
    list_from(lambda cursor: {"tools": [ECHO | {"description": "x" * 1024 * 1024}]})


def dies_at_start() -> None:
    """Ends before it answers anything, with its reason on stderr."""
    sys.stderr.write("no such module: frobnicate\n")
    sys.exit(3)


def typed() -> None:
    """A tool with an output schema; its result is `result` of the arguments."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for call in calls([ECHO | {"outputSchema": schema}]):
        answer(call, call["arguments"]["result"])


def batch() -> None:
    """Answers in a batch, behind a notification and something that is no message."""
    for call in calls():
        send([{"method": "notifications/message"}, 7, {"id": call["id"], "result": text("batched")}])


MODES: dict[str, Callable[[], None]] = {
    mode.__name__: mode
    for mode in (
        echo, results, raw, silent, silent_calls, deaf, late, reversed_order, twice, string_id, null_id, batch,
        close_stdout, close_stdin, stubborn, grandchild, noisy, garbage, large, chatty, curious, witness, tattle,
        progress, lively, typed, pages, endless_pages, same_page, long_list, bad_names, bad_schemas, old_revision,
        toolless, refuses, dies_at_start, remembers, hinted, undeclared, undeclared_hangs, undeclared_ends,
    )
}  # fmt: skip

if __name__ == "__main__":
    MODES[sys.argv[1]]()
