"""The least that a shared relay of MCP calls does under trio: one task on an epoll set, a server for each agent.

lean_relay.py SOCKET

It reads `tool_req` lines, checks the input by a schema, passes it on as `tools/call` with a number of its own, keeps a
deadline for each call in a heap, and answers with the text that comes back. Nothing is isolated, bounded, counted or
told; what the daemon does more than this is what its users get for the difference.
"""

import os
import select
import socket
import subprocess
import sys
import time
from heapq import heappop, heappush
from pathlib import Path

import jsonschema_rs
import msgspec
import trio

LIMIT_S = 60.0
CHECK = jsonschema_rs.validator_for(
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
).is_valid


class Request(msgspec.Struct):
    """A line of an agent."""

    id: str
    input: msgspec.Raw


class Block(msgspec.Struct):
    """A text."""

    text: str


class Result(msgspec.Struct):
    """What a call gives."""

    content: tuple[Block]


class Reply(msgspec.Struct):
    """A line of a server."""

    id: int
    result: Result


class Answer(msgspec.Struct, tag_field="__port", tag="tool_resp"):
    """A line to an agent."""

    id: str
    content: str
    is_error: bool = False


decode_request = msgspec.json.Decoder(Request).decode
decode_reply = msgspec.json.Decoder(Reply).decode
decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode
encode_lines = msgspec.json.Encoder().encode_lines


class Agent:
    """A connection and its server."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("thin_mcp.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.requests, self.replies = self.server.stdin.fileno(), self.server.stdout.fileno()
        self.pending: dict[int, str] = {}
        self.number = 0
        self.half = self.half_reply = b""

    def hear(self, deadlines: list[tuple[float, int]]) -> bool:
        """Pass the agent's lines on; whether it is still there."""
        chunk = self.connection.recv(65536)
        *lines, self.half = (self.half + chunk).split(b"\n")
        out = []
        until = time.perf_counter() + LIMIT_S
        for line in lines:
            request = decode_request(line)
            if not CHECK(decode(request.input)):
                self.connection.sendall(encode(Answer(request.id, "invalid_input", is_error=True)) + b"\n")
                continue
            self.number += 1
            self.pending[self.number] = request.id
            heappush(deadlines, (until, self.number))
            out.append(
                b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":%b}}\n'
                % (self.number, bytes(request.input))
            )
        if out:
            os.write(self.requests, b"".join(out))
        while deadlines and (deadlines[0][0] < until - LIMIT_S or deadlines[0][1] not in self.pending):
            heappop(deadlines)
        return bool(chunk)

    def answer(self) -> None:
        """Pass the server's answers on."""
        *lines, self.half_reply = (self.half_reply + os.read(self.replies, 65536)).split(b"\n")
        replies = [decode_reply(line) for line in lines]
        self.connection.sendall(
            encode_lines([Answer(self.pending.pop(each.id), each.result.content[0].text) for each in replies])
        )

    def close(self) -> None:
        """End the server."""
        self.connection.close()
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()


async def serve(path: str) -> None:
    """Wait for the set; serve all that is ready."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(128)
    ready = select.epoll()
    ready.register(listening, select.EPOLLIN)
    agents: dict[int, Agent] = {}
    deadlines: list[tuple[float, int]] = []
    while True:
        await trio.lowlevel.wait_readable(ready.fileno())
        for fd, _mask in ready.poll(0, 512):
            if fd == listening.fileno():
                agent = Agent(listening.accept()[0])
                for each in (agent.connection.fileno(), agent.replies):
                    ready.register(each, select.EPOLLIN)
                    agents[each] = agent
            elif (agent := agents[fd]).replies == fd:
                agent.answer()
            elif not agent.hear(deadlines):
                for each in (fd, agent.replies):
                    ready.unregister(each)
                    del agents[each]
                agent.close()


if __name__ == "__main__":
    trio.run(serve, sys.argv[1])
