"""What a service manager and the daemon tell each other; the manager is a datagram socket and a launcher."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.daemon.activated import CONFIG, Manager, SilentLog, agent_on, handing, listening_on, refusal, served
from tests.daemon.spawned import PATIENCE_S, ROOT, SERVE, children_of, until, without_places
from tests.daemon.test_peers import AS_ROOT, STRANGER, being
from tooldispatchd.daemon.places.listeners import ListenError
from tooldispatchd.daemon.systemd import Notifier, Pulse, listen_fds, open_pulse, take_watchdog
from tooldispatchd.front.front import Front
from tooldispatchd.front.timer import Timer


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(f"{tmp_path}/notify")
    yield manager
    manager.socket.close()


# --- the variables ---


def test_what_is_handed_to_another_process_is_not_ours() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "a", "PATH": "/bin"}
    assert listen_fds(environ) == []
    assert environ == {"PATH": "/bin"}


def test_nothing_is_handed_over_where_nobody_says_so() -> None:
    assert listen_fds({}) == []
    assert listen_fds({"LISTEN_PID": str(os.getpid())}) == []
    assert listen_fds({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"}) == []


@pytest.mark.parametrize("count", ["", "x", "-1", "1025", "9999999999"])
def test_a_number_of_descriptors_that_cannot_be_is_an_error(count: str) -> None:
    with pytest.raises(ListenError, match="no number of descriptors"):
        listen_fds({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count})


def test_as_many_names_as_descriptors_are_needed() -> None:
    with pytest.raises(ListenError, match="LISTEN_FDNAMES names 2 descriptors, and LISTEN_FDS has 1"):
        listen_fds({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "a:b"})


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "2000000"}, 2.0),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}, 2.0),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_ours_where_it_names_us(environ: dict[str, str], watchdog_s: float | None) -> None:
    assert take_watchdog(environ) == watchdog_s
    assert environ == {}


# --- telling the manager ---


def test_who_has_no_manager_tells_nobody(nothing_left: None) -> None:
    environ = {"PATH": "/bin"}
    notifier = Notifier(environ)
    assert not notifier.is_heard
    notifier.ready("serving")
    notifier.close()


def test_a_manager_on_an_abstract_address_is_told() -> None:
    manager = Manager(f"@tooldispatchd-test-{os.getpid()}")
    environ = {"NOTIFY_SOCKET": manager.address}
    notifier = Notifier(environ)
    notifier.ready("serving")
    assert environ == {}
    assert manager.hear() == ["READY=1", f"MAINPID={os.getpid()}", "STATUS=serving"]
    notifier.close()
    manager.socket.close()


def test_who_has_said_that_it_ends_is_not_ready_any_more(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    notifier.stopping("draining", within_s=1.0)
    notifier.reloaded()
    assert manager.hear()[0] == "STOPPING=1"
    assert not manager.has_heard
    notifier.close()


@pytest.mark.parametrize("address", ["/no/such/socket", "vsock:2:1", "/" + "x" * 200])
def test_a_manager_that_is_not_there_stops_nobody(address: str, nothing_left: None) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready("serving")
    notifier.close()


def test_a_manager_that_does_not_listen_is_not_waited_for(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    fill(notifier)
    notifier.close()
    assert manager.hear() == ["WATCHDOG=1"]


def test_what_is_no_beat_reaches_a_manager_that_is_slow(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    fill(notifier)
    notifier.stopping("draining", within_s=1.0)
    notifier.beat("WATCHDOG=1")
    read_all(manager)
    notifier.beat("WATCHDOG=1")
    assert [manager.hear()[0], manager.hear()[0]] == ["STOPPING=1", "WATCHDOG=1"]
    assert not manager.has_heard
    notifier.close()


def fill(notifier: Notifier) -> None:
    """Tell the manager more than it takes while it is slow."""
    for _ in range(2000):
        notifier.beat("WATCHDOG=1")


def read_all(manager: Manager) -> None:
    while manager.has_heard:
        pass


def test_what_a_slow_manager_is_to_keep_does_not_overtake_what_it_is_to_forget(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address, "FDSTORE": "3"})
    assert notifier.store([(0, "place-a")])
    fill(notifier)
    notifier.forget(["place-a"])
    assert not notifier.store([(0, "place-a")])
    read_all(manager)
    assert notifier.store([(0, "place-a")])
    assert manager.hear() == ["FDSTOREREMOVE=1", "FDNAME=place-a"]
    assert manager.hear() == ["FDSTORE=1", "FDNAME=place-a", "FDPOLL=0"]
    assert not manager.has_heard
    notifier.close()


def test_what_a_slow_manager_is_to_forget_drops_no_state(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    fill(notifier)
    notifier.reloaded()
    names = [f"place-{number}" for number in range(20)]
    notifier.forget(names)
    read_all(manager)
    notifier.beat()
    for message in (["READY=1"], *(["FDSTOREREMOVE=1", f"FDNAME={name}"] for name in names)):
        assert manager.hear() == message
        notifier.beat()
    notifier.close()


async def test_news_that_a_slow_manager_did_not_take_are_told_again(manager: Manager) -> None:
    notifier, timer = Notifier({"NOTIFY_SOCKET": manager.address}), Timer(SilentLog())
    front = Front(timer, SilentLog(), out_buffer_bytes=1, stalled_s=1)
    async with trio.open_nursery() as nursery:
        fill(notifier)
        pulse = Pulse(front, notifier, watchdog_s=None, status=lambda: "idle")
        nursery.start_soon(front.run)
        await trio.testing.wait_all_tasks_blocked()
        read_all(manager)
        pulse.expire()
        assert await trio.to_thread.run_sync(manager.hear) == ["STATUS=idle"]
        pulse.close()
        nursery.cancel_scope.cancel()
    notifier.close()


async def test_the_pulse_beats_as_long_as_the_front_goes_round(manager: Manager) -> None:
    notifier, timer = Notifier({"NOTIFY_SOCKET": manager.address}), Timer(SilentLog())
    front = Front(timer, SilentLog(), out_buffer_bytes=1, stalled_s=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timer.run)
        with open_pulse(front, notifier, watchdog_s=0.02, status=lambda: "at work"):
            await trio.testing.wait_all_tasks_blocked()
            assert not manager.has_heard
            nursery.start_soon(front.run)
            assert await trio.to_thread.run_sync(manager.hear) == ["WATCHDOG=1", "STATUS=at work"]
            assert await trio.to_thread.run_sync(manager.hear) == ["WATCHDOG=1"]
        nursery.cancel_scope.cancel()
    notifier.close()


async def test_without_a_watchdog_only_news_are_told(manager: Manager) -> None:
    notifier, timer = Notifier({"NOTIFY_SOCKET": manager.address}), Timer(SilentLog())
    front = Front(timer, SilentLog(), out_buffer_bytes=1, stalled_s=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front.run)
        pulse = Pulse(front, notifier, watchdog_s=None, status=lambda: "idle")
        assert await trio.to_thread.run_sync(manager.hear) == ["STATUS=idle"]
        pulse.expire()
        await trio.testing.wait_all_tasks_blocked()
        assert not manager.has_heard
        pulse.close()
        pulse.close()
        nursery.cancel_scope.cancel()
    notifier.close()


def test_a_daemon_that_drains_is_reported_alive(tmp_path: Path, manager: Manager) -> None:
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "40000"}
    with served(tmp_path, [], variables, "--listen", f"unix:{tmp_path}/s") as daemon, daemon.agent() as agent:
        agent.call("1", "until_told", {})
        until(lambda: bool(daemon.running("sh")))
        daemon.process.terminate()
        manager.hear_of("STOPPING=1")
        manager.hear_of("WATCHDOG=1")
        manager.hear_of("WATCHDOG=1")
        (tmp_path / "told").touch()
        assert agent.hear()["content"] == "1"


# --- daemons ---


def test_the_manager_is_told_the_whole_life_of_a_daemon(tmp_path: Path, manager: Manager) -> None:
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "200000", "WATCHDOG_PID": "$$"}
    with served(tmp_path, [], variables, "--listen", f"unix:{tmp_path}/s") as daemon:
        ready = ["READY=1", f"MAINPID={daemon.process.pid}", "STATUS=0 sessions, 0 channels"]
        assert manager.hear_of("READY=1") == ready
        with daemon.agent() as agent:
            assert agent.ask("echo", "hi")["content"] == '"hi"'
            assert manager.hear_of("STATUS=1 sessions, 1 channels")[0] == "WATCHDOG=1"
            assert agent.ask("environment", {})["content"] == "0"
        daemon.process.terminate()
        assert manager.hear_of("STOPPING=1")[2] == "EXTEND_TIMEOUT_USEC=16000000"
        assert daemon.process.wait(PATIENCE_S) == 0


def test_a_daemon_that_hangs_is_not_reported_alive(tmp_path: Path, manager: Manager) -> None:
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "40000"}
    with served(tmp_path, [], variables, "--listen", f"unix:{tmp_path}/s") as daemon:
        manager.hear_of("WATCHDOG=1")
        daemon.process.send_signal(signal.SIGSTOP)
        until(lambda: "\nState:\tT" in Path(f"/proc/{daemon.process.pid}/status").read_text())
        while manager.has_heard:
            pass
        manager.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            manager.hear()
        daemon.process.send_signal(signal.SIGCONT)


def test_a_socket_that_is_handed_over_is_served_and_left_as_it_was(tmp_path: Path) -> None:
    with listening_on(tmp_path / "s") as handed:
        (tmp_path / "s").chmod(0o612)
        before = (tmp_path / "s").lstat()
        with served(tmp_path, handed, handing(1), "--listen", "systemd") as daemon, daemon.agent() as agent:
            assert agent.ask("echo", "hi")["content"] == '"hi"'
            agent.close()
            daemon.process.terminate()
            assert daemon.process.wait(PATIENCE_S) == 0
        after = (tmp_path / "s").lstat()
        assert (before.st_ino, before.st_mode, before.st_ctime_ns) == (after.st_ino, after.st_mode, after.st_ctime_ns)
        # Whoever connects now waits for the next daemon.
        waiting = agent_on(tmp_path / "s")
        (tmp_path / "log").unlink()
        with served(tmp_path, handed, handing(1), "--listen", "systemd"):
            assert waiting.ask("echo", "again")["content"] == '"again"'
        waiting.close()


def test_a_socket_that_is_named_for_a_profile_opens_that_one_alone(tmp_path: Path) -> None:
    with (
        listening_on(tmp_path / "s", tmp_path / "narrow") as handed,
        served(tmp_path, handed, handing(2, "agents.socket:narrow"), "--listen", "systemd") as daemon,
        daemon.agent() as agent,
    ):
        assert agent.ask("echo", "hi")["content"] == '"hi"'
        narrow, other = agent_on(tmp_path / "narrow"), agent_on(tmp_path / "narrow")
        assert narrow.ask("echo", "hi")["is_error"]
        assert other.hello("default")["error"] == "not_authenticated"
        narrow.close()
        other.close()


@AS_ROOT
def test_an_abstract_socket_that_is_handed_over_admits_no_stranger(tmp_path: Path) -> None:
    name = f"\0tooldispatchd-test-handed-{os.getpid()}"
    with listening_on(name) as handed, served(tmp_path, handed, handing(1), "--listen", "systemd"):
        with being(STRANGER, STRANGER, []):
            stranger = agent_on(name)
        root = agent_on(name)
        assert stranger.hear()["error"] == "not_authenticated"
        assert root.ask("echo", "hi")["content"] == '"hi"'
        stranger.close()
        root.close()


def test_a_socket_whose_name_is_no_profile_stops_the_start(tmp_path: Path) -> None:
    with listening_on(tmp_path / "s") as handed:
        code, said = refusal(tmp_path, handed, handing(1, "narow"), "--listen", "systemd")
    assert (code, said) == (
        3,
        'tooldispatchd: cannot listen on systemd (narow): the socket is named "narow", and there is no such profile\n',
    )


def test_a_socket_is_not_named_for_a_profile_that_its_place_excludes(tmp_path: Path) -> None:
    with listening_on(tmp_path / "s") as handed:
        code, said = refusal(tmp_path, handed, handing(1, "narrow"), "--listen", "systemd?profile=default")
    assert code == 3
    assert "does not admit the profile that the socket is named for" in said


@pytest.mark.parametrize("variables", [{}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}])
def test_a_place_for_sockets_that_nobody_hands_over_stops_the_start(tmp_path: Path, variables: dict[str, str]) -> None:
    code, said = refusal(tmp_path, [], variables, "--listen", "systemd")
    assert code == 3
    assert said.startswith("tooldispatchd: cannot listen on systemd: no socket is handed over (LISTEN_PID")


def test_a_descriptor_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    code, said = refusal(tmp_path, [], handing(1), "--listen", "systemd")
    assert (code, said) == (3, "tooldispatchd: cannot listen on systemd: descriptor 3 is not open\n")


@pytest.mark.parametrize(
    ("kind", "why"), [("datagrams", "it is no stream socket"), ("deaf", "it is not listening"), ("tcp", "no Unix")]
)
def test_what_is_no_listening_stream_socket_stops_the_start(tmp_path: Path, kind: str, why: str) -> None:
    families = {"tcp": (socket.AF_INET, socket.SOCK_STREAM), "datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM)}
    with socket.socket(*families.get(kind, (socket.AF_UNIX, socket.SOCK_STREAM))) as handed:
        code, said = refusal(tmp_path, [handed], handing(1, "narrow"), "--listen", "systemd")
    assert code == 3
    assert 'systemd, descriptor 3 named "narrow"' in said
    assert why in said


def test_a_handed_socket_is_no_channel_too(tmp_path: Path) -> None:
    with listening_on(tmp_path / "s") as handed:
        code, said = refusal(tmp_path, handed, handing(1), "--listen", "systemd", "--listen", "fd:3,3")
    assert (code, said) == (
        3,
        "tooldispatchd: cannot listen on fd:3,3: descriptor 3 is a socket that systemd hands over\n",
    )


def test_sockets_that_no_place_takes_are_mentioned(tmp_path: Path) -> None:
    with (
        listening_on(tmp_path / "other") as handed,
        served(tmp_path, handed, handing(1), "--listen", f"unix:{tmp_path}/s") as daemon,
    ):
        assert daemon.logged("sockets not used") == 1


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd's tools are not installed")
@pytest.mark.parametrize("names", [None, "default:narrow"])
def test_the_managers_own_activation_starts_a_daemon_with_the_first_agent(tmp_path: Path, names: str | None) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    before = children_of(os.getpid())
    words = ["systemd-socket-activate", "-l", f"{tmp_path}/s", "-l", f"{tmp_path}/second"]
    words += [f"--fdname={names}"] if names else []
    words += [f"--setenv=PYTHONPATH={ROOT}", *SERVE, "--config", f"{tmp_path}/config.toml", "--listen", "systemd"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=without_places()) as process:
        until((tmp_path / "second").is_socket)  # made last
        agent, second = agent_on(tmp_path / "s"), agent_on(tmp_path / "second")
        assert agent.ask("echo", "hi")["content"] == '"hi"'
        assert second.ask("echo", "hi")["is_error"] == (names is not None)
        agent.close()
        second.close()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert b"incident" not in process.stderr.read()
    assert (tmp_path / "s").is_socket()
    assert children_of(os.getpid()) == before
