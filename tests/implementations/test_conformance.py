"""The daemon and the agents in other languages keep the protocol, and an agent repeats only what it should."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.conformance import ROOT, outcomes, run

HERE: Final = ROOT / "protocol" / "implementations"
PATIENCE_S: Final = 120
LEVELS: Final = tuple(word for level in ("core", "agents", "jobs", "updates", "limits") for word in ("--level", level))


def needs(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"there is no {program}")
    return path


def command_of(language: str, tmp_path: Path) -> str:
    match language:
        case "rust":
            program = tmp_path / "client"
            subprocess.run([needs("rustc"), "-o", str(program), str(HERE / "client.rs")], check=True)
            return str(program)
        case "perl":
            return f"{needs('perl')} {HERE / 'client.pl'}"
        case "node":
            return f"{needs('node')} {HERE / 'client.mjs'}"
        case "jq":
            return f"{needs('jq')} --unbuffered -cnf {HERE / 'client.jq'}"
        case _:
            return f"{needs('sh')} {HERE / 'client.sh'}"


def test_the_daemon_in_node_keeps_the_protocol() -> None:
    command = f"{needs('node')} {HERE / 'daemon.mjs'} {{fixtures}} {{socket}}"
    # Node does not see that a peer has closed its socket while nothing is written (M15).
    report = run(*LEVELS, "--cannot", "hang_up", "--start", command)
    assert outcomes(report, "failed") == {}
    assert len(outcomes(report, "passed")) > 110


@pytest.mark.parametrize("language", ["perl", "node", "rust"])
def test_an_agent_on_a_socket_keeps_the_protocol(language: str, tmp_path: Path) -> None:
    assert outcomes(run("--agent", command_of(language, tmp_path), "--agent-socket"), "failed") == {}


@pytest.mark.parametrize("language", ["sh", "jq"])
def test_an_agent_on_its_stdin_and_stdout_keeps_the_protocol(language: str, tmp_path: Path) -> None:
    assert outcomes(run("--agent", command_of(language, tmp_path)), "failed") == {}


FULL: Final[dict[str, object]] = {
    "error": "queue_full",
    "category": "unavailable",
    "detail": "",
    "retry_after_ms": 10,
    "ran": "no",
}
# It came before a tool was found.
FLOODED: Final[dict[str, object]] = {"error": "too_many", "category": "unavailable", "detail": "", "retry_after_ms": 10}
LATE: Final[dict[str, object]] = {"error": "timeout", "category": "unavailable", "detail": "", "ran": "maybe"}
LONG: Final = {"error": "line_too_long", "category": "invalid", "detail": ""}


def answer_to(request: dict[str, object], line: int, before: int) -> dict[str, object]:
    """`echo` is over the rate, then done, then late; `slow` is told by its line alone; `fails` is always full."""
    match request["name"], before:
        case "slow", _:
            return {"__port": "fault", **LONG, "line": line}
        case "echo", 0:
            fault = FLOODED
        case "fails", _:
            fault = FULL
        case "echo", 1:
            return {"__port": "tool_resp", "id": request["id"], "content": "done", "is_error": False}
        case "echo", _:
            fault = LATE
        case _:
            return {"__port": "tool_resp", "id": request["id"], "content": "null", "is_error": False}
    return {"__port": "tool_resp", "id": request["id"], "content": json.dumps(fault), "is_error": True, "fault": True}


def calls_of(command: str, directory: Path, *, by_socket: bool) -> list[str]:
    """Serve an agent to its end; the names of the tools in the order in which it called them."""
    address = directory / "s"
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as listener, ours, theirs:
        listener.bind(str(address))
        listener.listen()
        agent = subprocess.Popen(
            command.split(),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TOOLDISPATCHD_SOCKET": str(address)},
        )
        theirs.close()
        channel = listener.accept()[0] if by_socket else ours
        channel.settimeout(PATIENCE_S)
        names: list[str] = []
        with channel, channel.makefile("rwb") as lines:
            for number, raw in enumerate(lines, 1):
                said = json.loads(raw)
                if said["__port"] == "tool_req":
                    answer = answer_to(said, number, names.count(said["name"]))
                    names.append(said["name"])
                else:
                    answer = {"__port": said["__port"], "tools": []}
                lines.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
                lines.flush()
        assert agent.wait(PATIENCE_S) == 0
    return names


@pytest.mark.parametrize("language", ["perl", "node", "rust", "sh"])
def test_an_agent_repeats_only_what_has_not_run_and_may_pass(language: str, tmp_path: Path) -> None:
    command = command_of(language, tmp_path)
    names = calls_of(command, tmp_path, by_socket=language != "sh")
    assert [name for name in names if name == "echo"] == ["echo"] * 3
    assert names.count("slow") == 1
    assert names.count("fails") == 3
    assert names[-1] == "report"


def test_an_agent_without_a_clock_repeats_nothing(tmp_path: Path) -> None:
    names = calls_of(command_of("jq", tmp_path), tmp_path, by_socket=False)
    assert names == ["echo", "slow", "echo", "fails", "report"]
