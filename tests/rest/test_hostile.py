"""APIs that answer with more than anyone can bear: others wait for nothing, and the loop is not held."""

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.rest.recording import answer, recording
from tests.seeds.seeded import seeded

# In processor time, as `tests.attack.stage` has it: beside other tests a fault of a page alone takes a tenth of it.
TURN_MS: Final = 10.0 if "ATTACK_S" in os.environ else 250.0
BYTES: Final = 8_000_000 if "ATTACK_S" in os.environ else 1_000_000
# Of what is small: in the short form still more than a turn has time for.
MANY: Final = 4_000_000 if "ATTACK_S" in os.environ else 1_000_000
CHUNKED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
JSON: Final = b"application/json"


def chunks(*pieces: bytes, kind: bytes = JSON) -> Iterator[bytes]:
    yield CHUNKED % kind
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def gzipped(body: bytes, media_type: str = "application/json") -> bytes:
    return answer(gzip.compress(body, 1), media_type=media_type, more="Content-Encoding: gzip\r\n")


KINDS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "a bomb of lists": lambda: iter([gzipped(b"[" + b"[]," * (5 * MANY))]),
    "a bomb of blanks": lambda: iter([gzipped(b" " * (25 * MANY))]),
    "small lists": lambda: iter([answer(b"[" + b"[]," * (BYTES // 3) + b"[]]")]),
    "depth": lambda: iter([answer(b"[" * 100_000 + b"]" * 100_000)]),
    "some depth": lambda: iter([answer(b"[" * 3_000 + b"]" * 3_000)]),
    "a text of nothing but escapes": lambda: iter([answer(b"\0" * BYTES, media_type="text/plain")]),
    "a text that is no UTF-8": lambda: iter([answer(b"\xff" * BYTES, media_type="text/plain")]),
    "another encoding": lambda: iter([answer(('"' + "é" * (BYTES // 3) + '"').encode("utf-16"))]),
    "an image": lambda: iter([answer(b"\1" * BYTES, media_type="image/png")]),
    "chunks of one byte": lambda: chunks(*[b"1"] * 100_000),
    "a flood of chunks": lambda: iter([CHUNKED % JSON, b"1\r\n1\r\n" * 300_000, b"0\r\n\r\n"]),
    "headers": lambda: iter([b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 3_000 + b"\r\n"]),
    "a header without end": lambda: iter([b"HTTP/1.1 200 OK\r\na: " + b"x" * 1_000_000]),
    "interim answers": lambda: iter([b"HTTP/1.1 103 x\r\n\r\n" * 100_000]),
    "a large refusal": lambda: iter([answer(b"[" + b"[]," * 500_000 + b"[]]", status="500 x")]),
    "a refusal with depth": lambda: iter([answer(b"[" * 4_000 + b"]" * 4_000, status="500 x")]),
}
# What stands in the way of these comes before any type is looked at: the short form has them for untyped tools alone.
UNTYPED: Final = {
    *("a text of nothing but escapes", "a text that is no UTF-8", "an image", "chunks of one byte"),
    *("a flood of chunks", "headers", "a header without end", "interim answers"),
    *("a large refusal", "a refusal with depth"),
}
TYPED: Final = {kind: say for kind, say in KINDS.items() if "ATTACK_S" in os.environ or kind not in UNTYPED}
STREAMS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "lines": lambda: chunks(b"x\n" * (MANY // 2)),
    "blank lines": lambda: chunks(b"\n" * MANY),
    "empty events": lambda: chunks(b"data:\n\n" * (MANY // 6)),
    "tokens": lambda: chunks(b'data: {"type":"token","content":"x"}\n\n' * (MANY // 20)),
    "an answer": lambda: chunks(b'data: {"type":"done","answer":[' + b"1," * 400_000 + b"1]}\n\n"),
    "an event without end": lambda: chunks(b"data: " + b"x" * BYTES),
}
PAGES: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "links": lambda: iter([answer(b"[1]", more="Link: " + "<x>;" * 3_500 + "\r\n")]),
    "pages": lambda: iter([answer(b"[" + b"1," * 500_000 + b"1]", more='Link: <?x>; rel="next"\r\n')]),
}
CONFIG: Final = """\
[tools.echo]
inline = "id"
[tools.get]
rest = {{ url = "{url}/KINDS?${{parameters.kind}}" }}
type = "{{kind: string}} -> json"
[tools.typed]
rest = {{ url = "{url}/KINDS?${{parameters.kind}}", pick = "/x" }}
type = "{{kind: string}} -> [[int]]"
[tools.stream]
rest = {{ url = "{url}/STREAMS?${{parameters.kind}}", stream = {{ format = "sse" }} }}
type = "{{kind: string}} -> json"
[tools.lines]
rest = {{ url = "{url}/STREAMS?${{parameters.kind}}", stream = {{ format = "json-lines", line_prefix = "data: " }} }}
type = "{{kind: string}} -> json"
[tools.pages]
rest = {{ url = "{url}/PAGES?${{parameters.kind}}", paginate = {{ by = "link", max_pages = 5 }} }}
type = "{{kind: string}} -> json"
"""


@pytest.mark.parametrize(
    ("tool", "kinds"), [("get", KINDS), ("typed", TYPED), ("stream", STREAMS), ("lines", STREAMS), ("pages", PAGES)]
)
def test_nobody_waits_for_what_an_api_says(
    tmp_path: Path, tool: str, kinds: dict[str, Callable[[], Iterator[bytes]]]
) -> None:
    numbers = list(kinds)

    def respond(request: bytes) -> Iterator[bytes]:
        number = request.partition(b"?")[2].partition(b" ")[0]
        return kinds[numbers[int(number) if number.isdigit() else 0]]()

    with (
        recording(respond) as api,
        seeded(tmp_path, CONFIG.format(url=api.url)) as daemon,
        daemon.agent() as agent,
        daemon.agent() as other,
    ):
        agent.say({"__port": "hello", "profile": "default", "updates": True})
        agent.hear()
        for number, kind in enumerate(numbers):
            agent.call(kind, tool, {"kind": str(number)}, deadline_ms=2_000)
            while (heard := agent.hear())["__port"] != "tool_resp":
                assert other.ask("echo", 1)["content"] == "1"
            assert heard["id"] == kind
            assert other.ask("echo", 1)["content"] == "1"
        daemon.process.terminate()
        daemon.process.wait(20)
        stopped = [json.loads(line) for line in daemon.log.read_text().splitlines() if '"daemon stopped"' in line]
    longest, name = stopped[0]["longest_turn_ms"], stopped[0]["longest_turn"]
    assert longest < TURN_MS, f"{name} took the loop for {longest} ms"


def test_an_answer_that_drips_ends_at_the_limit_and_others_go_on(tmp_path: Path) -> None:
    def respond(_request: bytes) -> Iterator[bytes]:
        yield CHUNKED % JSON
        for _ in range(100):
            yield b"1\r\n1\r\n"
            time.sleep(0.02)

    with (
        recording(respond) as api,
        seeded(tmp_path, CONFIG.format(url=api.url)) as daemon,
        daemon.agent() as agent,
        daemon.agent() as other,
    ):
        for number in range(20):
            agent.call(str(number), "get", {"kind": "0"}, deadline_ms=500)
        for _ in range(10):
            assert other.ask("echo", 1)["content"] == "1"
        for _ in range(20):
            assert json.loads(agent.hear()["content"])["error"] == "timeout"
