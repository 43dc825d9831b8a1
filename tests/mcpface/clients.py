"""MCP clients as processes see them: a `tooldispatchd mcp` that runs, and what is said to it and heard of it."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.daemon.spawned import PATIENCE_S, server, without_places

COMMAND: Final = [sys.executable, "-m", "tooldispatchd", "mcp"]
CONFIG: Final = f"""
[tools.echo]
type = "json -> json"
inline = "id"
[tools.later]
type = "json -> json"
command = ["sh", "-c", "sleep 0.3; cat"]
[tools.stuck]
command = ["sleep", "86397"]
call_s = 1000
{server("steady", "echo")}
[agents.default]
tools = ["echo", "later", "stuck"]
[agents.closed]
tools = ["echo"]
token = "open sesame"
[agents.served]
mcp = ["steady"]
tools = ["stuck"]
"""

Message = dict[str, Any]


class StdioClient:
    """An MCP client with its server as a child."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.log = log
        self._heard = bytearray()

    def say(self, *messages: Message) -> None:
        self.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))
        self.stdin.flush()

    def call(self, id_: int | str, name: str, value: object = None) -> None:
        arguments = {} if value is None else {"input": value}
        self.say({"id": id_, "method": "tools/call", "params": {"name": name, "arguments": arguments}})

    def hear(self) -> Message:
        """The next message; at the end of stdout `{"end": true}`."""
        until = time.monotonic() + PATIENCE_S
        while b"\n" not in self._heard:
            assert select.select([self.stdout], [], [], until - time.monotonic())[0], self.log.read_text()
            chunk = os.read(self.stdout.fileno(), 1 << 20)
            if not chunk:
                assert not self._heard, self._heard
                return {"end": True}
            self._heard += chunk
        line, _, rest = self._heard.partition(b"\n")
        self._heard = bytearray(rest)
        heard: Message = json.loads(line)
        return heard

    def initialize(self) -> Message:
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.say({"id": 0, "method": "initialize", "params": client})
        answer = self.hear()
        if "result" in answer:
            self.say({"method": "notifications/initialized"})
        return answer

    def leave(self) -> int:
        """End its stdin; the exit code."""
        self.stdin.close()
        return self.process.wait(PATIENCE_S)


@contextmanager
def stdio_client(directory: Path, *words: str, cwd: Path | None = None, **environ: str) -> Iterator[StdioClient]:
    """A client whose server was started with `words`; its log lies in `directory`. Killed where it still runs."""
    log = directory / "mcp.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=without_places() | environ,
            cwd=cwd,
        )
    with process:
        try:
            yield StdioClient(process, log)
        finally:
            process.kill()
