"""The units of systemd/: sound and closed by systemd's own judgement, and in step with the program that they start."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import ROOT
from tests.systemd_tools import install_systemd_tools
from tooldispatchd.__main__ import COMMANDS
from tooldispatchd.catalog.specs import Config
from tooldispatchd.client.reach import SYSTEM_SOCKET
from tooldispatchd.daemon.places.listeners import BACKLOG

UNITS: Final = ROOT / "systemd"
SERVICE: Final = UNITS / "tooldispatchd.service"
SOCKET: Final = UNITS / "tooldispatchd.socket"
EXAMPLE: Final = UNITS / "examples" / "tooldispatchd-developer.socket"
SYSUSERS: Final = UNITS / "tooldispatchd.sysusers"
PROGRAM: Final = "/usr/local/bin/tooldispatchd"
# With which the manager sends a signal, where one is asked for.
KILL: Final = "/bin/kill"
# systemd's own units, which ours are ordered by (sysinit.target and the like).
SYSTEM_UNITS: Final = Path("/usr/lib/systemd/system")
# Of 10: what a service without any hardening has is 9.6.
MAX_EXPOSURE: Final = 2.5
# The design's bound for the end after `grace_s`.
TEARDOWN_S: Final = 6.0
# What the daemon, its guardian and the start of a child cannot do without.
SYSTEM_CALLS: Final = {
    *(
        "epoll_create1",
        "epoll_ctl",
        "epoll_wait",
        "eventfd2",
        "accept4",
        "recvfrom",
        "sendto",
        "getsockopt",
        "socketpair",
    ),
    *("clone", "clone3", "vfork", "execve", "wait4", "waitid", "setpgid", "setsid", "kill"),
    *("pidfd_open", "pidfd_send_signal", "memfd_create", "pwrite64", "prctl", "prlimit64", "flock", "getrandom"),
}

pytestmark = pytest.mark.usefixtures("_systemd_tools")


@pytest.fixture(scope="module")
def _systemd_tools() -> None:
    install_systemd_tools()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A root directory with systemd's units, ours, and a program in the place of the daemon's."""
    shutil.copytree(SYSTEM_UNITS, tmp_path / SYSTEM_UNITS.relative_to("/"), symlinks=True)
    ours = tmp_path / "etc" / "systemd" / "system"
    ours.mkdir(parents=True)
    for unit in (SERVICE, SOCKET, EXAMPLE):
        shutil.copy(unit, ours)
    for named in (PROGRAM, KILL):
        program = tmp_path / named.removeprefix("/")
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    yield tmp_path
    shutil.rmtree(tmp_path / "usr")


def verify(root: Path, *units: str) -> tuple[int, str]:
    """What systemd-analyze thinks of `units` as they stand in `root`: its exit code and all that it wrote."""
    words = ["systemd-analyze", "verify", f"--root={root}", "--man=no", "--recursive-errors=yes", *map(str, units)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def settings(unit: Path) -> dict[str, list[str]]:
    """Every setting of a unit; one that may be given several times has several values."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def members(system_call_set: str) -> set[str]:
    """The system calls of a set such as `@system-service`, those of the sets in it too."""
    words = ["systemd-analyze", "syscall-filter", "--no-pager", system_call_set]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^    ([@\w-]+)$", listed, re.MULTILINE)
    return {name for name in names if name[0] != "@"}.union(*(members(name) for name in names if name[0] == "@"))


def test_systemd_finds_nothing_wrong_with_the_units(root: Path) -> None:
    assert verify(root, SERVICE.name, SOCKET.name, EXAMPLE.name) == (0, "")


def test_systemd_finds_nothing_wrong_with_the_units_of_a_user(tmp_path: Path) -> None:
    program = tmp_path / ".local" / "bin" / "tooldispatchd"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    units = [UNITS / "user" / f"tooldispatchd.{kind}" for kind in ("socket", "service")]
    words = ["systemd-analyze", "--user", "verify", "--man=no", "--recursive-errors=yes", *map(str, units)]
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    # What clients look for first, and what ends a drain in time, as for the system's service.
    assert settings(units[0])["ListenStream"] == [f"%t{SYSTEM_SOCKET.removeprefix('/run')}"]
    shared = (
        "Type",
        "NotifyAccess",
        "KillMode",
        "TimeoutStopSec",
        "WatchdogSec",
        "Restart",
        "RestartPreventExitStatus",
    )
    assert [settings(units[1])[key] for key in shared] == [settings(SERVICE)[key] for key in shared]


def test_the_judgement_is_systemds_own_and_sees_a_program_that_is_missing(root: Path) -> None:
    (root / PROGRAM.removeprefix("/")).unlink()
    _code, said = verify(root, SERVICE.name)
    assert f"Command {PROGRAM} is not executable" in said


def test_the_judgement_sees_a_setting_that_systemd_does_not_know(root: Path) -> None:
    copy = root / "etc" / "systemd" / "system" / SERVICE.name
    copy.write_text(copy.read_text().replace("\nPrivateTmp=yes\n", "\nPrivateTemp=yes\n"))
    _code, said = verify(root, SERVICE.name)
    assert "Unknown key 'PrivateTemp'" in said


def test_the_service_is_hardly_exposed() -> None:
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(SERVICE)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    overall = re.search(r"Overall exposure level for tooldispatchd\.service: ([\d.]+)", done.stdout)
    assert done.stderr == ""
    assert overall is not None
    assert float(overall[1]) <= MAX_EXPOSURE


def test_the_filter_of_system_calls_lets_the_daemon_and_its_children_work() -> None:
    groups, taken, added = settings(SERVICE)["SystemCallFilter"]
    assert (groups, taken) == ("@system-service", "~@privileged")
    allowed = (members("@system-service") - members("@privileged")) | set(added.split())
    assert SYSTEM_CALLS - allowed == set()


def test_the_service_starts_the_daemon_on_the_sockets_of_the_manager() -> None:
    program, command, *words = shlex.split(settings(SERVICE)["ExecStart"][0])
    assert (program, command in COMMANDS) == (PROGRAM, True)
    assert words == ["--config", "/etc/tooldispatchd/config.toml", "--listen", "systemd"]


def test_the_manager_waits_for_longer_than_a_drain_takes() -> None:
    assert float(settings(SERVICE)["TimeoutStopSec"][0]) > Config().daemon.grace_s + TEARDOWN_S


def test_a_wrong_configuration_and_a_missing_socket_are_not_tried_again() -> None:
    unit = settings(SERVICE)
    assert (unit["Restart"], unit["RestartPreventExitStatus"]) == (["on-failure"], ["2 3"])


def test_a_credential_that_is_not_there_does_not_stop_the_start() -> None:
    # Only one without a path may be missing (systemd.exec, LoadCredential=).
    assert [value for value in settings(SERVICE)["LoadCredential"] if ":" in value] == []


def test_stopping_the_service_leaves_the_socket_where_it_is() -> None:
    directory = Path("/run") / settings(SERVICE)["RuntimeDirectory"][0]
    assert Path(settings(SOCKET)["ListenStream"][0]).is_relative_to(directory)
    assert settings(SERVICE)["RuntimeDirectoryPreserve"] == ["yes"]


def test_the_socket_is_where_clients_look_for_it() -> None:
    unit = settings(SOCKET)
    assert (unit["ListenStream"], unit["SocketMode"], unit["Accept"]) == ([SYSTEM_SOCKET], ["0660"], ["no"])
    assert unit["Backlog"] == [str(BACKLOG)]


def test_systemd_makes_the_user_that_the_units_name(root: Path) -> None:
    words = ["systemd-sysusers", f"--root={root}", "-"]
    subprocess.run(words, input=SYSUSERS.read_bytes(), capture_output=True, check=True)
    name, _, _, _, _, home, _ = (root / "etc" / "passwd").read_text().splitlines()[-1].split(":")
    assert [name] == settings(SERVICE)["User"] == settings(SERVICE)["Group"] == settings(SOCKET)["SocketGroup"]
    assert home == f"/var/lib/{settings(SERVICE)['StateDirectory'][0]}"
