"""MCP clients that others wrote see the same through the daemon, over stdio and over HTTP, each in its own way.

One daemon serves them all at once. Over stdio the server behind it speaks the revisions with a handshake, over HTTP the
one without: so each client also meets a server of the other kind.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.daemon.spawned import daemon_on
from tests.mcpface.real.clients import PACKAGES, conforming, node, package, relay
from tests.real.installed import SERVERS, python_of
from tests.real.listening import free_port

HERE: Final = Path(__file__).parent
INSPECTOR: Final = package("@modelcontextprotocol/inspector") / "clients" / "launcher" / "build" / "index.js"
# More than one page of tools, and what the server has none for.
TOOLS: Final = """
[tools.double]
type = "{n: int} -> {twice: int}"
map = '{"twice": n * 2}'
[tools.guarded]
type = "json -> string"
map = "'ran'"
approve = "always"
[tools.stuck]
command = ["sleep", "86398"]
call_s = 1000
""" + "".join(f'[tools.t{number}]\ninline = "id"\n' for number in range(1000))
CONFIG: Final = TOOLS + "".join(
    conforming(name, revision, 'tools = ["*"]')
    for name, revision in (("handshake", "2025-11-25"), ("stateless", "2026-07-28"))
)
EXPECTED: Final[dict[str, object]] = {
    "pages": [1000, 43],
    "typed": {"twice": 42},
    "blocks": ["text", "image", "resource"],
    "error": [True, "This tool intentionally returns an error for testing"],
    # How often is not said: what comes at once is told once.
    "progress": [100],
    "cancelled": True,
    "elicited": 'User response: action=accept, content={"username": "ada", "email": "ada@example.org"}',
    # Its user accepts whatever is asked, and so the form of the daemon.
    "approved": "ran",
    "resources": [
        *("test://static-text", "test://static-binary", "test://watched-resource"),
        *("skill://greeting/SKILL.md", "skill://greeting/references/words.md"),
    ],
    "read": '{"id": "7", "templateTest": true, "data": "Data for ID: 7"}',
    "prompts": [
        "test_simple_prompt",
        "test_prompt_with_arguments",
        "test_prompt_with_embedded_resource",
        "test_prompt_with_image",
        "test_input_required_result_prompt",
    ],
    "prompt": "Prompt with arguments: arg1='a', arg2='b'",
}
# Alone each takes two seconds, most of them to start; here all run at once, on a machine that may be busy.
LIMIT_S: Final = 200

Report = dict[str, Any]


class Client(NamedTuple):
    """A program of one of the sets that `make servers` installs; the word TARGET stands for the server."""

    made_by: str
    words: tuple[str, ...]
    expected: Report


def python(sdk: str, expected: Report, *mode: str) -> Client:
    return Client(sdk, (python_of(sdk), str(HERE / f"python_{sdk}.py"), "TARGET", *mode), expected)


def typescript(major: str, **differs: object) -> Client:
    return Client("clients", (node(), "typescript.mjs", major, "TARGET"), EXPECTED | differs)


def inspector(expected: Report, *words: str) -> Client:
    return Client("clients", (node(), str(INSPECTOR), "--cli", "TARGET", *words), expected)


IN_ONE: Final = EXPECTED | {"pages": [1043]}
PROGRAMS: Final = {
    "Python SDK 1": python("sdk1", {key: EXPECTED[key] for key in EXPECTED if key != "cancelled"}),
    **{
        f"Python SDK 2, {mode}": python("sdk2", EXPECTED | {"revision": revision}, mode)
        for mode, revision in (("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28"))
    },
    "FastMCP": python("fastmcp", IN_ONE),
    "TypeScript SDK 1": typescript("1"),
    "TypeScript SDK 2": typescript("2", pages=IN_ONE["pages"]),
    "TypeScript SDK 2, auto": typescript("2-auto", pages=IN_ONE["pages"]),
    "Inspector, a call": inspector(
        {"content": [{"type": "text", "text": '{"twice":42}'}], "structuredContent": {"twice": 42}},
        *("--method", "tools/call", "--tool-name", "double", "--tool-arg", "n=21"),
    ),
    "Inspector, a resource": inspector(
        {"contents": [{"uri": "test://template/7/data", "mimeType": "application/json", "text": EXPECTED["read"]}]},
        *("--method", "resources/read", "--uri", "test://template/7/data"),
    ),
}
# Each program takes seconds to start: in `make soak` it does so for both, and else for one, turn by turn.
OVER: Final = ("stdio", "HTTP")
# Of one make, with what others ask too: `make soak` runs them.
TWINS: Final = {"Python SDK 2, 2026-07-28", "TypeScript SDK 2, auto", "Inspector, a resource"}
IS_FULL: Final = "SOAK" in os.environ
RUNS: Final = [
    (name, over)
    for number, name in enumerate(PROGRAMS)
    if IS_FULL or name not in TWINS
    for over in (OVER if IS_FULL else [OVER[number % 2]])
]


def is_installed(client: Client) -> bool:
    return (SERVERS / client.made_by / ".installed").exists()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Report]:
    """What each client saw; they have run all at once, and are gone, as is the daemon."""
    place = tmp_path_factory.mktemp("clients")
    # Its imports are looked for from where it is.
    shutil.copy(HERE / "typescript.mjs", place)
    (place / "node_modules").symlink_to(PACKAGES)
    url = f"http://127.0.0.1:{free_port()}/mcp"
    runs = [(name, over) for name, over in RUNS if is_installed(PROGRAMS[name])]
    with daemon_on(place, CONFIG, "--log-level", "debug", "--listen", f"{url}?profile=stateless") as daemon:
        targets = {"stdio": relay(place / "relay", daemon, "handshake"), "HTTP": url}
        with ExitStack() as stack:
            started = {
                (name, over): stack.enter_context(run(PROGRAMS[name], targets[over], place)) for name, over in runs
            }
            seen = {each: report(process) for each, process in started.items()}
        ends = [json.loads(line) for line in daemon.log.read_text().splitlines() if '"tool":"stuck"' in line]
    # On a busy machine one may be cancelled before it was sent.
    assert {end["fault"] for end in ends} <= {"cancelled"}
    return seen


@contextmanager
def run(client: Client, target: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    words = [target if word == "TARGET" else word for word in client.words]
    # Some keep files at home.
    environ = os.environ | {"HOME": str(home)}
    with subprocess.Popen(
        words, cwd=home, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def report(process: subprocess.Popen[str]) -> Report:
    output, errors = process.communicate(timeout=LIMIT_S)
    found: Report = json.loads(output) if process.returncode == 0 else {"failed": output + errors}
    return found


@pytest.mark.parametrize(("name", "over"), RUNS)
def test_a_client_of_others_sees_what_the_server_offers(
    name: str, over: str, reports: dict[tuple[str, str], Report]
) -> None:
    if not is_installed(PROGRAMS[name]):
        pytest.skip(f"{PROGRAMS[name].made_by} is not installed: `make servers` does it")
    assert reports[name, over] == PROGRAMS[name].expected
