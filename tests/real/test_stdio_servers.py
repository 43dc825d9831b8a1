"""Servers that others wrote, over stdio: each opens, lists what it is known to have, answers rightly, and ends."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.daemon.spawned import until
from tests.forked.sandbox.confined import abilities, lack_of
from tests.real.installed import SERVERS, binding, makes_no_new_point, needs_npm, needs_sdk1, needs_sdk2, npm, pypi
from tests.real.visit import Visit, visit
from tooldispatchd.client.conversation import Call
from tooldispatchd.client.errors import FaultError

FILESYSTEM_TOOLS = {
    "files:read_file",
    "files:read_text_file",
    "files:read_media_file",
    "files:read_multiple_files",
    "files:write_file",
    "files:edit_file",
    "files:create_directory",
    "files:list_directory",
    "files:list_directory_with_sizes",
    "files:directory_tree",
    "files:move_file",
    "files:search_files",
    "files:get_file_info",
    "files:list_allowed_directories",
}


def whole(name: str) -> str:
    """A profile with one server."""
    return f'[agents.default]\nmcp = ["{name}"]\n'


@needs_npm
def test_everything_is_offered_answers_in_every_kind_and_tells_its_progress(tmp_path: Path) -> None:
    with visit(tmp_path, binding("every", npm("everything", "stdio")) + whole("every")) as agent:
        assert {
            "every:echo",
            "every:get-annotated-message",
            "every:get-env",
            "every:get-resource-links",
            "every:get-resource-reference",
            "every:get-structured-content",
            "every:get-sum",
            "every:get-tiny-image",
            "every:gzip-file-as-resource",
            "every:toggle-simulated-logging",
            "every:toggle-subscriber-updates",
            "every:trigger-long-running-operation",
        } <= agent.tools
        assert agent.call("every:echo", message="bees") == "Echo: bees"
        assert agent.call("every:get-sum", a=2, b=3) == "The sum of 2 and 3 is 5."
        weather = json.loads(agent.call("every:get-structured-content", location="Chicago"))
        assert set(weather) == {"temperature", "conditions", "humidity"}
        assert [block["type"] for block in json.loads(agent.call("every:get-tiny-image"))] == ["text", "image", "text"]
        links = json.loads(agent.call("every:get-resource-links", count=2))
        assert [block["type"] for block in links] == ["text", "resource_link", "resource_link"]
        told: list[tuple[float | None, float | None]] = []
        answer = agent.client.call(
            "every:trigger-long-running-operation",
            {"duration": 0.3, "steps": 3},
            on_update=lambda update: told.append((update.progress, update.total)),
        )
        assert not answer.is_error
        assert told == [(1.0, 3.0), (2.0, 3.0), (3.0, 3.0)]


@needs_npm
def test_the_filesystem_server_reads_writes_and_refuses_what_lies_outside(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with visit(tmp_path, binding("files", npm("filesystem", str(home))) + whole("files")) as agent:
        assert agent.tools == FILESYSTEM_TOOLS
        agent.call("files:write_file", path=str(home / "bees.txt"), content="three hives\n")
        assert (home / "bees.txt").read_text() == "three hives\n"
        read = json.loads(agent.call("files:read_text_file", path=str(home / "bees.txt")))
        assert read == {"content": "three hives\n"}
        assert "Access denied" in agent.error("files:read_text_file", path="/etc/hostname")


def shut_in(*readable: Path, write: Path) -> tuple[str, ...]:
    """The keys with which a server is kept to some places, and from the network."""
    if (why := lack_of(abilities().landlock, "network", "read", "write")) is not None:
        pytest.skip(why)
    return ("network = false", f"read = {json.dumps(list(map(str, readable)))}", f"write = [{json.dumps(str(write))}]")


@needs_npm
def test_the_filesystem_server_that_is_shut_in_is_kept_from_what_it_would_let_agents_do(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    for directory in (home, outside):
        directory.mkdir()
    (outside / "note.txt").write_text("not for agents")
    # By its own lights it may do anything in both.
    program = npm("filesystem", str(home), str(outside))
    config = binding("files", program, *shut_in(SERVERS / "npm", write=home)) + whole("files")
    with visit(tmp_path, config) as agent:
        assert agent.tools == FILESYSTEM_TOOLS
        agent.call("files:write_file", path=str(home / "bees.txt"), content="three hives\n")
        assert (home / "bees.txt").read_text() == "three hives\n"
        agent.error("files:read_text_file", path=str(outside / "note.txt"))
        agent.error("files:write_file", path=str(outside / "new.txt"), content="x")
    assert not (outside / "new.txt").exists()


@makes_no_new_point
@needs_sdk2
def test_the_time_server_works_where_it_may_read_itself_alone(tmp_path: Path) -> None:
    kept = shut_in(SERVERS / "sdk2", write=tmp_path)
    bounds = ('memory = "1G"', "files = 200", "nice = 1")
    with visit(tmp_path, binding("time", pypi("sdk2", "time"), *kept, *bounds) + whole("time")) as agent:
        assert "UTC" in agent.call("time:get_current_time", timezone="UTC")


@makes_no_new_point
@needs_npm
def test_the_memory_server_keeps_what_it_is_told(tmp_path: Path) -> None:
    graph = tmp_path / "graph.jsonl"
    config = binding("memory", npm("memory"), f'env = {{ MEMORY_FILE_PATH = "{graph}" }}') + whole("memory")
    with visit(tmp_path, config) as agent:
        assert agent.tools == {
            "memory:create_entities",
            "memory:create_relations",
            "memory:add_observations",
            "memory:delete_entities",
            "memory:delete_observations",
            "memory:delete_relations",
            "memory:read_graph",
            "memory:search_nodes",
            "memory:open_nodes",
        }
        bee = {"name": "bee", "entityType": "insect", "observations": ["it dances"]}
        agent.call("memory:create_entities", entities=[bee])
        assert json.loads(agent.call("memory:read_graph")) == {"entities": [bee], "relations": []}
        assert "not found" in agent.error(
            "memory:add_observations", observations=[{"entityName": "wasp", "contents": ["it stings"]}]
        )


@makes_no_new_point
@needs_npm
def test_the_thinking_server_counts_thoughts(tmp_path: Path) -> None:
    with visit(tmp_path, binding("thinking", npm("sequential-thinking")) + whole("thinking")) as agent:
        assert agent.tools == {"thinking:sequentialthinking"}
        thought = {"thought": "bees dance", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
        said = json.loads(agent.call("thinking:sequentialthinking", **thought))
        assert (said["thoughtNumber"], said["thoughtHistoryLength"]) == (1, 1)


@makes_no_new_point
@needs_sdk2
def test_the_time_server_converts_and_refuses_an_unknown_zone(tmp_path: Path) -> None:
    with visit(tmp_path, binding("time", pypi("sdk2", "time")) + whole("time")) as agent:
        assert agent.tools == {"time:get_current_time", "time:convert_time"}
        zones = {"source_timezone": "Asia/Tokyo", "target_timezone": "UTC"}
        said = json.loads(agent.call("time:convert_time", time="12:00", **zones))
        assert said["time_difference"] == "-9.0h"
        assert "Mars" in agent.error("time:get_current_time", timezone="Mars/Olympus")


@makes_no_new_point
@needs_sdk2
def test_the_git_server_reads_a_repository_and_refuses_what_is_none(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(repository)], check=True)
    (repository / "hives.txt").write_text("three\n")
    with visit(tmp_path, binding("git", pypi("sdk2", "git")) + whole("git")) as agent:
        assert agent.tools == {
            "git:git_status",
            "git:git_diff_unstaged",
            "git:git_diff_staged",
            "git:git_diff",
            "git:git_commit",
            "git:git_add",
            "git:git_reset",
            "git:git_log",
            "git:git_create_branch",
            "git:git_checkout",
            "git:git_show",
            "git:git_branch",
        }
        assert "hives.txt" in agent.call("git:git_status", repo_path=str(repository))
        agent.error("git:git_status", repo_path=str(tmp_path))


@makes_no_new_point
@needs_sdk2
def test_the_fetch_server_says_itself_that_it_cannot_fetch(tmp_path: Path) -> None:
    with visit(tmp_path, binding("fetch", pypi("sdk2", "fetch")) + whole("fetch")) as agent:
        assert agent.tools == {"fetch:fetch"}
        agent.error("fetch:fetch", url="http://127.0.0.1:9/robots.txt")


@needs_sdk1
def test_the_sqlite_server_of_the_older_sdk_keeps_rows(tmp_path: Path) -> None:
    config = binding("sqlite", pypi("sdk1", "sqlite", "--db-path", str(tmp_path / "hives.db"))) + whole("sqlite")
    with visit(tmp_path, config) as agent:
        assert agent.tools == {
            "sqlite:read_query",
            "sqlite:write_query",
            "sqlite:create_table",
            "sqlite:list_tables",
            "sqlite:describe_table",
            "sqlite:append_insight",
        }
        agent.call("sqlite:create_table", query="CREATE TABLE hives (name TEXT, bees INTEGER)")
        agent.call("sqlite:write_query", query="INSERT INTO hives VALUES ('north', 40000)")
        assert agent.call("sqlite:read_query", query="SELECT * FROM hives") == "[{'name': 'north', 'bees': 40000}]"


@needs_sdk2
def test_a_server_that_dies_at_its_start_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    """The newest sqlite server was written for SDK 1.x, and falls over under 2.x."""
    config = (
        binding("sqlite", pypi("sdk2", "sqlite", "--db-path", str(tmp_path / "hives.db")))
        + binding("time", pypi("sdk2", "time"))
        + '[agents.default]\nmcp = ["sqlite", "time"]\n'
    )
    with visit(tmp_path, config) as agent:
        assert agent.tools == {"time:get_current_time", "time:convert_time"}
        (warning,) = agent.ready.warnings
        assert "sqlite" in str(warning)
        agent.call("time:get_current_time", timezone="UTC")


@needs_npm
@needs_sdk2
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=makes_no_new_point)])
def test_servers_of_one_agent_fail_one_by_one(tmp_path: Path, number: signal.Signals) -> None:
    config = (
        binding("every", npm("everything", "stdio"))
        + binding("time", pypi("sdk2", "time"))
        + '[agents.default]\nmcp = ["every", "time"]\n'
    )
    with visit(tmp_path, config) as agent:
        waiting = agent.client.start(Call("every:trigger-long-running-operation", {"duration": 60, "steps": 2}))
        program = npm("everything")[0]
        (pid,) = agent.daemon.running(program)
        os.kill(pid, number)
        until(lambda: not agent.daemon.running(program))
        assert agent.fault("every:echo", message="bees").code == "connection_dead"
        assert "UTC" in agent.call("time:get_current_time", timezone="UTC")
        with pytest.raises(FaultError, match="connection_dead"):
            agent.client.result(waiting)


@needs_sdk2
def test_a_server_that_was_killed_comes_back_where_it_may(tmp_path: Path) -> None:
    config = binding("time", pypi("sdk2", "time"), 'restart = "backoff"') + whole("time")
    with visit(tmp_path, config) as agent:
        program = pypi("sdk2", "time")[0]
        (pid,) = agent.daemon.running(program)
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in agent.daemon.running(program))
        codes: set[str] = set()
        until(lambda: "UTC" in answer_or_code(agent, codes))
        assert codes <= {"connection_dead", "server_unavailable"}


def answer_or_code(agent: Visit, codes: set[str]) -> str:
    """What the time server says; "" where a fault came in its place, whose code is noted."""
    try:
        return agent.call("time:get_current_time", timezone="UTC")
    except FaultError as fault:
        codes.add(fault.code)
        return ""
