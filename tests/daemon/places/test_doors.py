"""Ways into real daemons: several at once, who is let in, and what ends with them."""

import os
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.daemon.activated import SilentLog
from tests.daemon.forking import run_forked
from tests.daemon.spawned import PATIENCE_S, SERVE, Agent, daemon_on, until, without_places
from tests.daemon.test_peers import AS_ROOT, STRANGER, being
from tooldispatchd.calls.memory import Memory
from tooldispatchd.front.channel import Channel
from tooldispatchd.front.front import Front
from tooldispatchd.front.pair import give_back, open_pair
from tooldispatchd.front.timer import Timer

CONFIG: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
[tools.twice]
type = "int -> int"
map = "x * 2"
[agents.default]
tools = ["echo"]
[agents.counter]
tools = ["twice"]
"""
ECHO: Final = b'{"__port":"tool_req","id":"1","name":"echo","input":"hi"}\n'
ECHOED: Final = b'{"__port":"tool_resp","id":"1","content":"\\"hi\\"","is_error":false}\n'


def words(directory: Path, *places: str) -> list[str]:
    (directory / "config.toml").write_text(CONFIG)
    listening = [word for place in places for word in ("--listen", place)]
    return [*SERVE, "--config", str(directory / "config.toml"), *listening]


@contextmanager
def connected(address: str) -> Iterator[Agent]:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(address)
    agent = Agent(channel)
    try:
        yield agent
    finally:
        agent.close()


def refusal(directory: Path, *places: str) -> tuple[int, str]:
    """The exit code and the complaint of a daemon that cannot start."""
    ended = run_forked(*words(directory, *places)[len(SERVE) - 1 :])
    return ended.returncode, ended.stderr


def refusal_with(pass_fds: tuple[int, ...], directory: Path, *places: str) -> tuple[int, str]:
    """As above, of one that has descriptors passed to it."""
    ended = subprocess.run(
        words(directory, *places),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        pass_fds=pass_fds,
        timeout=PATIENCE_S,
        check=False,
    )
    return ended.returncode, ended.stderr


def is_served(agent: Agent) -> bool:
    return bool(agent.ask("echo", "hi")["content"] == '"hi"')


def abstract(name: str) -> str:
    return f"tooldispatchd-test-{os.getpid()}-{name}"


# --- several ---


def test_all_kinds_of_places_are_served_at_once(tmp_path: Path) -> None:
    name = abstract("all")
    ours, theirs = socket.socketpair()
    second, paired = socket.socketpair()
    places = [f"unix:{tmp_path}/a", f"unix:{tmp_path}/b?profile=counter", f"unix:@{name}", "stdio"]
    command = words(tmp_path, *places, f"fd:{paired.fileno()},{paired.fileno()}")
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=log, pass_fds=(paired.fileno(),)
        ) as daemon,
    ):
        theirs.close()
        paired.close()
        agents = [Agent(ours), Agent(second)]
        assert all(map(is_served, agents))
        with connected(f"{tmp_path}/a") as a, connected(f"{tmp_path}/b") as b, connected(f"\0{name}") as c:
            assert is_served(a)
            assert b.ask("twice", 4)["content"] == "8"
            assert is_served(c)
            for agent in agents:
                agent.end_input()
                assert agent.hear() == {"end": True}
                agent.close()
            # What is listened on outlives both channels.
            assert is_served(a)
        with connected(f"{tmp_path}/a") as later:
            assert is_served(later)
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["config.toml", "log"]


def test_two_places_that_share_a_descriptor_are_a_mistake_of_usage(tmp_path: Path) -> None:
    code, said = refusal(tmp_path, "stdio", "fd:1,1")
    assert (code, said) == (2, "tooldispatchd: --listen fd:1,1: another place has this descriptor\n")


def test_an_unknown_profile_is_a_mistake_of_usage(tmp_path: Path) -> None:
    code, said = refusal(tmp_path, f"unix:{tmp_path}/s?profile=conter")
    assert code == 2
    assert said.endswith('?profile=conter: unknown profile; did you mean "counter"?\n')


def test_a_place_admits_the_profiles_that_it_names_alone(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG, "--listen", f"unix:{tmp_path}/s?profiles=counter"):
        with connected(f"{tmp_path}/s") as agent:
            assert agent.hello("counter")["__port"] == "ready"
        with connected(f"{tmp_path}/s") as agent:
            assert agent.hello("default")["error"] == "not_authenticated"
        with connected(f"{tmp_path}/s") as agent:
            assert agent.hello("none")["error"] == "not_authenticated"


def test_a_socket_that_the_environment_names_may_have_any_path(tmp_path: Path) -> None:
    command = words(tmp_path)
    environ = without_places() | {"TOOLDISPATCHD_SOCKET": f"{tmp_path}/100%?mode=x"}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ) as daemon:
        until((tmp_path / "100%?mode=x").is_socket)
        with connected(f"{tmp_path}/100%?mode=x") as agent:
            assert is_served(agent)
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0


# --- who is let in ---


@AS_ROOT
def test_a_stranger_at_an_abstract_socket_is_told_nothing_and_turned_away(tmp_path: Path) -> None:
    name = abstract("own")
    with daemon_on(tmp_path, CONFIG, "--listen", f"unix:@{name}") as daemon:
        with being(STRANGER, STRANGER, []), connected(f"\0{name}") as stranger:
            assert stranger.hear() == {
                "__port": "fault",
                "error": "not_authenticated",
                "category": "denied",
                "detail": "you may not connect here",
                "line": 0,
            }
            assert stranger.hear() == {"end": True}
        with connected(f"\0{name}") as root:
            assert is_served(root)
        assert daemon.logged("peer not admitted") == 1


@AS_ROOT
@pytest.mark.parametrize("query", ["uid=any", f"uid={STRANGER}", "gid=4242", "uid=1,nobody", "gid=any"])
def test_a_stranger_comes_in_where_the_place_says_so(tmp_path: Path, query: str) -> None:
    name = abstract("open")
    with (
        daemon_on(tmp_path, CONFIG, "--listen", f"unix:@{name}?{query}"),
        being(STRANGER, STRANGER, [4242]),
        connected(f"\0{name}") as stranger,
    ):
        assert is_served(stranger)


@AS_ROOT
def test_a_place_that_names_users_admits_root_no_more(tmp_path: Path) -> None:
    name = abstract("others")
    with daemon_on(tmp_path, CONFIG, "--listen", f"unix:@{name}?uid={STRANGER}"), connected(f"\0{name}") as root:
        assert root.hear()["error"] == "not_authenticated"


@AS_ROOT
def test_strangers_at_the_door_take_no_place_of_others(tmp_path: Path) -> None:
    name = abstract("crowd")
    config = f"{CONFIG}[limits]\nconnections = 1\n"
    with daemon_on(tmp_path, config, "--listen", f"unix:@{name}"), ExitStack() as agents:
        with being(STRANGER, STRANGER, []):
            strangers = [agents.enter_context(connected(f"\0{name}")) for _ in range(5)]
        assert [stranger.hear()["error"] for stranger in strangers] == ["not_authenticated"] * 5
        assert is_served(agents.enter_context(connected(f"\0{name}")))


# --- sockets ---


def test_an_abstract_socket_that_lives_is_an_error(tmp_path: Path) -> None:
    name = abstract("taken")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0{name}")
        code, said = refusal(tmp_path, f"unix:@{name}")
    assert (code, said) == (
        3,
        f"tooldispatchd: cannot listen on unix:@{name}: another program is listening there\n",
    )


@AS_ROOT
def test_a_socket_has_the_mode_and_the_owner_of_its_place(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG, "--listen", f"unix:{tmp_path}/s?mode=0606&owner=nobody:4242"):
        status = (tmp_path / "s").stat()
    assert (oct(status.st_mode & 0o7777), status.st_uid, status.st_gid) == ("0o606", STRANGER, 4242)


@AS_ROOT
def test_a_socket_that_was_given_away_is_replaced_after_its_daemon_was_killed(tmp_path: Path) -> None:
    place = f"unix:{tmp_path}/s?owner=nobody"
    with daemon_on(tmp_path, CONFIG, "--listen", place) as killed:
        killed.process.kill()
        killed.process.wait()
    killed.log.unlink()
    assert (tmp_path / "s").is_socket()
    with daemon_on(tmp_path, CONFIG, "--listen", place), connected(f"{tmp_path}/s") as agent:
        assert is_served(agent)


def test_an_owner_that_does_not_exist_stops_the_start(tmp_path: Path) -> None:
    place = f"unix:{tmp_path}/s?owner=nobody-at-all"
    code, said = refusal(tmp_path, f"unix:{tmp_path}/first", place)
    assert (code, said) == (3, f"tooldispatchd: cannot listen on {place}: no such user: nobody-at-all\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.toml"]


def test_without_descriptors_to_spare_accepting_pauses_and_goes_on(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon, ExitStack() as agents:
        first = agents.enter_context(daemon.agent())
        assert is_served(first)
        # One for each number that is free below the largest in use, and two more.
        limit = max(int(entry.name) for entry in Path(f"/proc/{daemon.process.pid}/fd").iterdir()) + 3
        _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (limit, hard))
        crowd = [agents.enter_context(daemon.agent()) for _ in range(limit)]
        for agent in crowd:
            agent.call("1", "echo", "hi")
        until(lambda: len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir())) >= limit)
        assert is_served(first)
        # Who was let in is answered and leaves, until everybody has had a turn.
        assert [agent.hear()["content"] for agent in leaving(crowd)] == ['"hi"'] * limit
        assert daemon.logged("incident") == 0


def leaving(agents: list[Agent]) -> Iterator[Agent]:
    for agent in agents:
        yield agent
        agent.close()


# --- inherited descriptors ---


@contextmanager
def piped(directory: Path, *places: str) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """A daemon on a pair of pipes, and the ends to write requests to and to read answers from."""
    reading, requests = os.pipe()
    answers, writing = os.pipe()
    command = words(directory, f"fd:{reading},{writing}", *places)
    with (
        (directory / "log").open("ab") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, pass_fds=(reading, writing)) as daemon,
    ):
        os.close(reading)
        os.close(writing)
        try:
            yield daemon, requests, answers
        finally:
            os.close(answers)
            daemon.terminate()


def heard(answers: int) -> bytes:
    """All that is answered, to its end."""
    return b"".join(iter(lambda: os.read(answers, 65_536), b""))


def test_a_pair_of_pipes_is_a_channel_and_its_end_is_the_daemons(tmp_path: Path, nothing_left: None) -> None:
    with piped(tmp_path) as (daemon, requests, answers):
        os.write(requests, ECHO)
        assert os.read(answers, 65_536) == ECHOED
        os.close(requests)
        assert heard(answers) == b""
        assert daemon.wait(PATIENCE_S) == 0


def test_the_answers_of_a_pair_end_while_the_daemon_goes_on(tmp_path: Path, nothing_left: None) -> None:
    with piped(tmp_path, f"unix:{tmp_path}/s") as (daemon, requests, answers):
        os.write(requests, ECHO)
        os.close(requests)
        assert heard(answers) == ECHOED
        with connected(f"{tmp_path}/s") as agent:
            assert is_served(agent)
        assert daemon.poll() is None


def test_the_last_of_two_pairs_is_the_daemons_end(tmp_path: Path, nothing_left: None) -> None:
    ours, theirs = socket.socketpair()
    command = words(tmp_path, "stdio", f"fd:{theirs.fileno()},{theirs.fileno()}")
    fds = (theirs.fileno(),)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=fds
    ) as daemon:
        theirs.close()
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        daemon.stdin.write(ECHO)
        daemon.stdin.close()
        assert daemon.stdout.read() == ECHOED
        agent = Agent(ours)
        assert is_served(agent)
        agent.close()
        assert daemon.wait(PATIENCE_S) == 0


def test_a_pair_opens_the_profile_of_its_place(tmp_path: Path, nothing_left: None) -> None:
    ours, theirs = socket.socketpair()
    command = words(tmp_path, f"fd:{theirs.fileno()},{theirs.fileno()}?profile=counter")
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
    ) as daemon:
        theirs.close()
        agent = Agent(ours)
        assert agent.ask("twice", 2)["content"] == "4"
        assert agent.ask("echo", "hi")["is_error"]
        agent.close()
        assert daemon.wait(PATIENCE_S) == 0


@AS_ROOT
async def test_the_pipes_of_another_user_are_a_channel_too(nothing_left: None) -> None:
    front = Front(Timer(SilentLog()), SilentLog(), out_buffer_bytes=1, stalled_s=1)
    reading, requests = os.pipe()
    answers, writing = os.pipe()
    with being(STRANGER, STRANGER, []):
        channel = open_pair(front, Memory(1).share(0), reading, writing)
    give_back((reading, writing))
    assert isinstance(channel, Channel)
    channel.write(ECHOED)
    channel.close()
    assert heard(answers) == ECHOED
    os.close(answers)
    os.close(requests)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front.run)
        nursery.cancel_scope.cancel()


def test_a_descriptor_that_is_not_open_stops_the_start(tmp_path: Path) -> None:
    code, said = refusal(tmp_path, f"unix:{tmp_path}/s", "fd:200,201")
    assert (code, said) == (3, "tooldispatchd: cannot listen on fd:200,201: descriptor 200 is not open\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["config.toml"]


def test_the_ends_of_pipes_are_not_mixed_up(tmp_path: Path, nothing_left: None) -> None:
    reading, writing = os.pipe()
    code, said = refusal_with((reading, writing), tmp_path, f"fd:{writing},{reading}")
    os.close(reading)
    os.close(writing)
    assert code == 3
    assert f"descriptor {writing} is not open for reading" in said


@pytest.mark.parametrize(("kind", "why"), [(socket.SOCK_STREAM, "listening socket"), (socket.SOCK_DGRAM, "no stream")])
def test_a_socket_that_is_no_channel_stops_the_start(
    tmp_path: Path, kind: socket.SocketKind, why: str, nothing_left: None
) -> None:
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(tmp_path / "s"))
        if kind == socket.SOCK_STREAM:
            other.listen()
        code, said = refusal_with((other.fileno(),), tmp_path, f"fd:{other.fileno()},{other.fileno()}")
    assert code == 3
    assert why in said
