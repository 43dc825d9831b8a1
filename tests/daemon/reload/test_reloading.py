"""A real daemon whose configuration is read anew while agents are connected."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import ExitStack
from fcntl import ioctl
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.reload.reloadable import ECHO, WHO, Reloadable, serving
from tests.daemon.spawned import MISBEHAVING, PATIENCE_S, SERVE, Agent, Daemon, server, until, without_places
from tooldispatchd.daemon.reload.generations import MAX_LIVING

DOUBLE: Final = '[tools.double]\ntype = "int -> int"\nmap = "x * 2"\n'
SHARED: Final = server("docs", "echo", "shared = true")
RELOADS: Final = int(os.environ.get("RELOADS", "12"))


def test_new_sessions_get_the_new_configuration_and_living_ones_keep_theirs(daemon: Reloadable) -> None:
    daemon.reload(ECHO)
    with daemon.agent() as old:
        assert old.ask("echo", "a")["content"] == '"a"'
        assert daemon.reload(DOUBLE)["changed"] == ["tools.echo: gone", "tools.double: new"]
        with daemon.agent() as new:
            assert new.ask("double", 4)["content"] == "8"
            assert new.ask("echo", "a")["fault"] is True
        assert old.ask("echo", "b")["content"] == '"b"'
        assert old.ask("double", 4)["fault"] is True


def test_a_wrong_configuration_changes_nothing_and_says_why(daemon: Reloadable) -> None:
    daemon.reload(ECHO)
    told = daemon.reload(ECHO.replace("string -> string", "strin -> string"))
    assert told["event"] == "configuration not reloaded"
    assert [problem["key"] for problem in told["problems"]] == ["tools.echo.type"]
    with daemon.agent() as agent:
        assert agent.ask("echo", "a")["content"] == '"a"'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# nothing yet\n", "it says nothing, no tools, no agents and no places"),
        (DOUBLE, "daemon.listen is gone, and with it every place where the daemon can be reached"),
    ],
)
def test_what_may_be_the_beginning_of_a_file_takes_no_place_away(daemon: Reloadable, text: str, why: str) -> None:
    daemon.reload(ECHO)
    (daemon.path.parent / "config.toml").write_text(text)
    told = daemon.hang_up()
    assert (told["event"], why in told["why"]) == ("configuration not reloaded", True)
    with daemon.agent() as agent:
        assert agent.ask("echo", "a")["content"] == '"a"'


def test_a_configuration_that_says_the_same_makes_no_generation(daemon: Reloadable) -> None:
    first = daemon.reload(ECHO + DOUBLE)
    # Another line is another place of what is written, and nothing else.
    assert daemon.reload(f"# twice\n{ECHO}{DOUBLE}") == {**first, "changed": [], "time": daemon.lines()[-1]["time"]}
    # Tools are offered in the order of their tables.
    assert daemon.reload(DOUBLE + ECHO)["generation"] == first["generation"] + 1


def test_only_so_many_generations_live_at_a_time(daemon: Reloadable) -> None:
    daemon.reload(ECHO)
    words = [*SERVE[:-1], "reload", "--apply", "--socket", str(daemon.path)]
    with ExitStack() as agents:
        for number in range(MAX_LIVING):
            daemon.reload(f"{ECHO}[limits]\ncall_s = {number + 1}\n")
            agents.enter_context(daemon.agent()).ask("echo", "a")
        told = daemon.reload(DOUBLE)
        assert told["event"] == "configuration not reloaded"
        assert "the old ones, or" in told["why"]
        assert daemon.reload(f"{ECHO}[limits]\ncall_s = {MAX_LIVING}\n")["event"] == "configuration reloaded"
        daemon.write(DOUBLE)
        assert subprocess.run(words, check=False, capture_output=True).returncode == 0
        assert daemon.reload(ECHO)["event"] == "configuration reloaded"


def test_people_are_asked_again_about_a_tool_that_runs_another_command(daemon: Reloadable) -> None:
    tool = '[tools.note]\ntype = "string -> string"\napprove = "always"\ncommand = ["{}"]\n'
    daemon.reload(tool.format("cat"))
    words = [*SERVE[:-1], "reload", "--apply", "--socket", str(daemon.path)]
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "answers": ["approve"]})
        agent.hear()
        for program, is_asked in (("cat", True), ("cat", False), ("tac", True), ("tac", False)):
            daemon.write(tool.format(program))
            subprocess.run(words, check=True, capture_output=True)
            agent.call("1", "note", "a")
            heard = agent.hear()
            assert (heard.get("__port") == "approve_req") == is_asked, (program, heard)
            if is_asked:
                agent.say({"__port": "approve_resp", "id": heard["id"], "allow": True, "remember": "tool"})
                heard = agent.hear()
            assert heard["content"] == '"a"'


def test_only_the_first_of_very_many_problems_are_told(daemon: Reloadable) -> None:
    wrong = "".join(f'[tools.t{number}]\ninline = "id"\nagentx = 1\n' for number in range(60))
    problems = daemon.reload(wrong)["problems"]
    assert (len(problems), problems[-1]) == (51, {"why": "and 10 more"})


def test_places_come_and_go_and_no_channel_is_dropped(daemon: Reloadable, tmp_path: Path) -> None:
    daemon.reload(ECHO, tmp_path / "second.sock")
    second = Daemon(daemon.process, tmp_path / "second.sock", daemon.log)
    with daemon.agent() as first, second.agent() as other:
        assert first.ask("echo", "a")["content"] == '"a"'
        assert other.ask("echo", "b")["content"] == '"b"'
        told = daemon.reload(ECHO, tmp_path / "third.sock")
        assert told["changed"][-2:] == [
            f"listening on unix:{tmp_path}/third.sock",
            f"not listening on unix:{tmp_path}/second.sock any more",
        ]
        assert not (tmp_path / "second.sock").exists()
        assert first.ask("echo", "c")["content"] == '"c"'
        assert other.ask("echo", "d")["content"] == '"d"'
        with Daemon(daemon.process, tmp_path / "third.sock", daemon.log).agent() as third:
            assert third.ask("echo", "e")["content"] == '"e"'


def test_a_place_for_metrics_comes_and_goes_and_no_channel_is_dropped(daemon: Reloadable, tmp_path: Path) -> None:
    place = tmp_path / "metrics.sock"
    daemon.reload(ECHO)
    listen = [f"unix:{daemon.path}", f"http+unix:{place}?path=/metrics"]
    with daemon.agent() as agent:
        assert agent.ask("echo", "a")["content"] == '"a"'
        (daemon.path.parent / "config.toml").write_text(f"{ECHO}[daemon]\nlisten = {json.dumps(listen)}\n")
        assert daemon.hang_up()["changed"][-1] == f"listening on {listen[1]}"
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(PATIENCE_S)
            monitor.connect(str(place))
            monitor.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert monitor.recv(12) == b"HTTP/1.1 200"
            # Somebody is still connected when it goes.
            assert daemon.reload(ECHO)["changed"][-1] == f"not listening on {listen[1]} any more"
        assert not place.exists()
        assert agent.ask("echo", "b")["content"] == '"b"'


def test_a_place_that_cannot_be_opened_makes_the_reload_fail_whole(daemon: Reloadable, tmp_path: Path) -> None:
    daemon.reload(ECHO)
    told = daemon.reload(DOUBLE, tmp_path / "opened.sock", tmp_path / "no" / "directory.sock")
    assert "there is no directory" in told["why"]
    assert not (tmp_path / "opened.sock").exists()
    with daemon.agent() as agent:
        assert agent.ask("echo", "a")["content"] == '"a"'


def test_what_only_a_start_can_change_is_told(daemon: Reloadable) -> None:
    daemon.reload(ECHO)
    before = daemon.logged("configuration")
    told = daemon.reload(f"{ECHO}[limits]\nprocesses = 3\ncall_s = 5\n")
    assert told["changed"] == ["limits.call_s: 60.0 → 5.0"]
    warnings = [line["detail"] for line in daemon.lines() if line["event"] == "configuration"]
    assert daemon.logged("configuration") == before + 1
    assert warnings[-1].startswith("limits.processes stays as it was")


def test_warm_parents_and_shared_servers_that_did_not_change_live_on(daemon: Reloadable) -> None:
    daemon.reload(WHO + SHARED)
    with daemon.agent() as old:
        worker = old.ask("who", {})["content"]
        servers = daemon.running(str(MISBEHAVING))
        assert len(servers) == 1
        daemon.reload(WHO + SHARED + ECHO)
        with daemon.agent() as new:
            assert new.ask("docs:echo", {"text": "a"})["is_error"] is False
            assert new.ask("who", {})["content"] == worker
        assert daemon.running(str(MISBEHAVING)) == servers
        daemon.reload(WHO.replace("true", 'true\nenv = { MORE = "1" }') + SHARED)
        with daemon.agent() as changed:
            assert changed.ask("who", {})["content"] != worker
        assert old.ask("who", {})["content"] == worker
    daemon.reload(ECHO)
    until(lambda: not daemon.family())


def test_a_reload_that_is_applied_plans_open_sessions_anew(daemon: Reloadable) -> None:
    own = server("docs", "echo")
    daemon.reload(own + ECHO)
    words = [*SERVE[:-1], "reload", "--apply", "--socket", str(daemon.path)]
    with daemon.agent() as agent:
        assert agent.ask("docs:echo", {"text": "a"})["is_error"] is False
        assert agent.ask("echo", "a")["content"] == '"a"'
        servers = daemon.running(str(MISBEHAVING))
        daemon.write(own + DOUBLE)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["tools.echo: gone", "tools.double: new"]
        assert agent.ask("double", 4)["content"] == "8"
        assert agent.ask("echo", "a")["fault"] is True
        # The connection went along.
        assert agent.ask("docs:echo", {"text": "b"})["is_error"] is False
        assert daemon.running(str(MISBEHAVING)) == servers
        daemon.write(own + "[[wrong")
        refused = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (refused.returncode, "config.toml" in refused.stderr) == (2, True)
    until(lambda: not daemon.running(str(MISBEHAVING)))


@pytest.mark.parametrize(
    ("keys", "is_changed"),
    [("", False), ("", True), ("shared = true", False), ("shared = true", True), ("shared = true\nlazy = true", False)],
)
@pytest.mark.parametrize("is_opening", [False, True])
def test_a_call_at_a_server_is_answered_where_a_reload_is_applied_meanwhile(
    daemon: Reloadable, tmp_path: Path, keys: str, *, is_changed: bool, is_opening: bool
) -> None:
    # The server opens, and answers, when the test has opened and closed these.
    start, answer = tmp_path / "start", tmp_path / "answer"
    os.mkfifo(start)
    os.mkfifo(answer)
    (tmp_path / "slow.py").write_text(
        f"import sys\nsys.path.append({str(MISBEHAVING.parent)!r})\nfrom misbehaving import answer, calls, text\n"
        "open(sys.argv[1]).read()\nfor call in calls():\n    open(sys.argv[2]).read()\n    answer(call, text('said'))\n"
    )
    args = json.dumps(["-I", "-S", str(tmp_path / "slow.py"), str(start), str(answer)])
    docs = f"[mcp.docs]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n{keys}\n"
    daemon.reload(docs + ECHO)
    words = [*SERVE[:-1], "reload", "--apply", "--socket", str(daemon.path)]
    with daemon.agent() as agent:
        agent.call("1", "docs:echo", {})
        if not is_opening:
            start.open("w").close()
        with (start if is_opening else answer).open("w"):
            daemon.write(docs + ("trace = true\n" if is_changed else "") + DOUBLE)
            subprocess.run(words, capture_output=True, check=True)
        if is_opening:
            answer.open("w").close()
        assert agent.hear()["content"] == "said"


def test_a_session_whose_profile_has_another_token_ends_where_a_reload_is_applied(daemon: Reloadable) -> None:
    config = ECHO + '[agents.default]\ntools = ["echo"]\ntoken = "a {} token that nobody guesses"\n'
    daemon.reload(config.format("first"))
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "default", "token": "a first token that nobody guesses"})
        assert agent.hear()["__port"] == "ready"
        daemon.write(config.format("second"))
        words = [*SERVE[:-1], "reload", "--apply", "--socket", str(daemon.path)]
        subprocess.run(words, capture_output=True, check=True)
        assert agent.hear() == {"end": True}


def test_a_channel_that_is_there_opens_what_its_place_admits_now(daemon: Reloadable) -> None:
    agents = "".join(f'[agents.{name}]\ntools = ["echo"]\n' for name in ("default", "one", "two"))
    daemon.write(ECHO + agents)
    file, path = daemon.path.parent / "config.toml", str(daemon.path)
    file.write_text(file.read_text().replace(path, f"{path}?profiles=one,two"))
    daemon.hang_up()
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "two", "agent": "a"})
        assert agent.hear()["__port"] == "ready"
        file.write_text(file.read_text().replace("one,two", "one"))
        daemon.hang_up()
        for name, said in (("two", "fault"), ("one", "ready")):
            agent.say({"__port": "hello", "profile": name, "agent": name})
            assert agent.hear()["__port"] == said


def test_a_reload_that_ends_when_the_daemon_drains_opens_no_place_again(tmp_path: Path) -> None:
    slow = tmp_path / "slow.sh"
    slow.write_text("#!/bin/sh\ntouch $0.begun; sleep 0.7; echo a token that nobody guesses\n")
    slow.chmod(0o700)
    later = "[tools.later]\ncommand = ['sh', '-c', 'sleep 1.5; echo 1']\n"
    with serving(tmp_path) as daemon:
        daemon.reload(later)
        with daemon.agent() as agent:
            agent.call("1", "later", {})
            daemon.write(f'{later}[agents.default]\ntools = ["later"]\ntoken = "${{command:{slow}}}"\n')
            daemon.process.send_signal(signal.SIGHUP)
            until((tmp_path / "slow.sh.begun").exists)
            daemon.process.terminate()
            assert agent.hear()["content"] == "1"
        assert daemon.process.wait(PATIENCE_S) == 0
    assert not daemon.path.exists()
    assert daemon.logged("configuration reloaded") == 1


def test_secrets_are_read_again(daemon: Reloadable) -> None:
    token = daemon.path.parent / "token"
    token.write_text("a first token that nobody guesses")
    token.chmod(0o600)
    config = f'{ECHO}[agents.default]\ntools = ["echo"]\ntoken_file = "{token}"\n'
    daemon.reload(config)
    token.write_text("a second token that nobody guesses")
    assert daemon.reload(config)["changed"] == ["agents.default: its token"]
    for word, said in (("first", "fault"), ("second", "ready")):
        with daemon.agent() as agent:
            agent.say({"__port": "hello", "profile": "default", "token": f"a {word} token that nobody guesses"})
            assert agent.hear()["__port"] == said


def test_reloads_under_load_lose_nothing_and_leave_nothing(daemon: Reloadable) -> None:
    texts = [ECHO + DOUBLE, ECHO + WHO, ECHO]
    daemon.reload(ECHO)
    for text in texts:
        daemon.reload(text)
    process = Path(f"/proc/{daemon.process.pid}")
    is_over = threading.Event()
    answered = [0] * 4
    load = [threading.Thread(target=call_until, args=(daemon, is_over, answered, each)) for each in range(4)]
    for thread in load:
        thread.start()
    before = len(list((process / "fd").iterdir())), memory_of(process)
    for number in range(RELOADS):
        assert daemon.reload(texts[number % len(texts)])["event"] == "configuration reloaded"
    daemon.reload(ECHO)
    is_over.set()
    for thread in load:
        thread.join(PATIENCE_S)
    assert min(answered) > 0
    until(lambda: len(list((process / "fd").iterdir())) <= before[0])
    until(lambda: not daemon.family())
    assert memory_of(process) < before[1] + 4 * 1024 * 1024


def call_until(daemon: Daemon, is_over: threading.Event, answered: list[int], number: int) -> None:
    """Call one tool after the other, over a new channel now and then."""
    while not is_over.is_set():
        with daemon.agent() as agent:
            for _ in range(20):
                if agent.ask("echo", "a").get("content") != '"a"':
                    answered[number] = -1_000_000
                answered[number] += 1


def test_wrong_configurations_leave_nothing(daemon: Reloadable) -> None:
    tools = "".join(f'[tools.t{number}]\ntype = "json -> string"\ncommand = ["cat"]\n' for number in range(200))
    process, wrong, before = Path(f"/proc/{daemon.process.pid}"), f"{tools}nonsense = 1\n", 0
    for reading in range(12):
        assert daemon.reload(wrong)["event"] == "configuration not reloaded"
        # The first ones fill what is kept for the next.
        before = memory_of(process) if reading < 4 else before
    # It was a third of a megabyte for each.
    assert memory_of(process) < before + 1024 * 1024


def memory_of(process: Path) -> int:
    """Bytes that are its own."""
    return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_a_reload_does_not_hold_the_loop(tmp_path: Path) -> None:
    """Neither reading, nor planning for those who come next, nor freeing what was before; a start may be long."""
    (tmp_path / "config.toml").write_text(ECHO)
    with serving(tmp_path) as daemon:
        for version in range(2):
            with daemon.agent() as agent:
                assert agent.ask("echo", "a")["content"] == '"a"'
            daemon.reload(ECHO + many_tools(version))
        daemon.process.terminate()
        assert daemon.process.wait(PATIENCE_S) == 0
    stopped = daemon.lines()[-1]
    # In processor time: it is 2 ms, and was 16 to 24 where all tools were freed, or planned, in one turn.
    assert (stopped["event"], stopped["longest_turn_ms"] < 10) == ("daemon stopped", True), stopped


def many_tools(version: int) -> str:
    """Tables of tools that have all changed."""
    kinds = [
        f'type = "{{text: string, v{version}?: int}} -> {{text: string, v{version}?: int}}"\ninline = "id"',
        f'type = "int -> int"\nmap = "x * {version + 2}"',
        f'type = "string -> int"\ncommand = ["wc", "-w", "{version}"]\ninput_mode = "text"',
    ]
    return "".join(f"[tools.t{number}]\n{kinds[number % len(kinds)]}\n" for number in range(300))


def test_a_terminal_that_is_gone_ends_the_daemon(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(ECHO)
    path = tmp_path / "own.sock"
    words = [*SERVE, "--config", str(tmp_path / "config.toml"), "--listen", f"unix:{path}"]
    master, terminal = pty.openpty()
    # It becomes the terminal of the session that the daemon leads.
    process = subprocess.Popen(
        words,
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # no thread of the tests runs here
        env=without_places(),
    )
    os.close(terminal)
    try:
        until(path.exists)
        process.send_signal(signal.SIGHUP)
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(str(path))
            assert Agent(channel).ask("echo", "a")["content"] == '"a"'
        os.close(master)
        # The kernel tells it once, and a shell that ends tells its jobs again.
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def test_files_that_are_watched_are_read_when_they_have_changed(daemon: Reloadable) -> None:
    directory = daemon.path.parent
    (directory / "more.json").write_text('{"mcpServers": {}}')
    watched = f'mcp_json = ["more.json"]\n{ECHO}[daemon]\nwatch = true\nlisten = ["unix:{daemon.path}"]\n'
    (directory / "config.toml").write_text(watched)
    daemon.hang_up()
    before = daemon.logged("configuration reloaded")
    # As editors do: in steps, or a new file in the place of the old one.
    with (directory / "config.toml").open("w") as file:
        file.write(watched)
        file.flush()
        file.write(DOUBLE)
    until(lambda: daemon.logged("configuration reloaded") == before + 1)
    (directory / "new.json").write_text('{"mcpServers": {"more": {"command": "false", "disabled": true}}}')
    (directory / "new.json").rename(directory / "more.json")
    until(lambda: daemon.logged("configuration reloaded") == before + 2)
    assert daemon.lines()[-1]["changed"] == ["mcp.more: new"]
    daemon.reload(ECHO)


def test_a_place_for_http_admits_the_tokens_that_were_read_last(tmp_path: Path) -> None:
    token, place = tmp_path / "token", tmp_path / "web.sock"
    token.touch(0o600)
    token.write_text("a-first-token-that-nobody-guesses")
    config = (
        f'{ECHO}[agents.default]\ntools = ["echo"]\ntoken_file = "{token}"\n'
        f'[daemon]\nlisten = ["unix:{tmp_path}/dispatch.sock", "http+unix:{place}"]\n'
    )
    with serving(tmp_path, config) as daemon:
        until(lambda: initialized(place, "a-first-token-that-nobody-guesses") == 200)
        token.write_text("a-second-token-that-nobody-guesses")
        daemon.hang_up()
        until(lambda: initialized(place, "a-second-token-that-nobody-guesses") == 200)
        assert initialized(place, "a-first-token-that-nobody-guesses") == 401


def initialized(place: Path, token: str) -> int:
    """The status of a client's first request."""
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info})
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(place))
        client.sendall((head + body).encode())
        return int(client.recv(4096).split()[1])
