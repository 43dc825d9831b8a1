"""What every test stands on: how hypothesis runs, and a count of what a test left behind."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.daemon.forking import preloaded
from tests.daemon.spawned import children_of
from tests.examples import examples
from tooldispatchd.runner.signals import PASSED_ON

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

# On a busy machine a slow example says nothing; a wrong one does.
settings.register_profile(
    "local", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
# The same examples each time: a change is judged by what it changed.
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

TESTS = Path(__file__).parent
# Files that `make soak` alone runs: they attack, wait, or meet programs of others. A part of a path is enough.
SOAK = (
    "/attack/",
    "/fuzz/",
    "/implementations/",
    "/real/",
    "/daemon/test_hostile_programs.py",
    "/daemon/test_memory.py",
    "/daemon/test_own_processes.py",
    "/mcpface/web/test_http_hostile.py",
    "/rest/test_hostile.py",
    "/test_dockerfile.py",
    "/toolbox/test_killed_calls.py",
)
# Files that take longest: begun last, each would be waited for alone.
LONG_ONES = (*SOAK, "test_hostile", "test_conformance", "test_daemon.py")

# As the Makefile does it, for whoever runs pytest without: each daemon and client would compile what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What is imported and collected stays, hundreds of megabytes: the collector would look through it again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on the collector looks at what tests make."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Have each of several workers begin its collection elsewhere.

    In a fresh clone all files are compiled, with their assertions rewritten. Workers that go the same way compile each
    file at the same time, all of them.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None and config.getoption("numprocesses", None):
        config.pluginmanager.register(Watch())
    if worker is None or [Path(arg).resolve() for arg in config.args] != [TESTS]:
        return
    files = sorted(map(str, TESTS.rglob("test_*.py")))
    begins = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args = [*files[begins:], *files[:begins]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `make soak`, and begin with the longest; wherever the collection began, in one order."""
    for item in items:
        if any(part in str(item.path) for part in SOAK):
            item.add_marker("soak")
    items.sort(key=lambda item: (not any(part in str(item.path) for part in LONG_ONES), item.path))


def open_descriptors() -> set[str]:
    """What this process has open, as `fd -> target`."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {entry.readlink()}")
        except FileNotFoundError:
            continue  # the descriptor of this very listing
    return found


def children() -> set[int]:
    """The pids of this process's children, zombies too."""
    return children_of(os.getpid())


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fail a test that leaves a descriptor or a child behind. What an earlier one left may be collected meanwhile."""
    descriptors, pids = open_descriptors(), children()
    yield
    assert (open_descriptors() - descriptors, children() - pids) == (set(), set())


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """One server of PostgreSQL for all tests that want one."""
    from tests.servers.postgres import postgres_server  # noqa: PLC0415  # most files have no use for it

    with postgres_server() as server:
        if server is None:
            pytest.skip("there is no PostgreSQL: `make servers` installs one")
        yield server


@pytest.fixture(autouse=True, scope="session")
def no_signal_is_ignored() -> Iterator[None]:
    """Under nohup, or as a job in the background, SIGHUP or SIGINT is ignored, and what a test starts inherits that."""
    ignored = [number for number in PASSED_ON if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True, scope="session")
def forking(no_signal_is_ignored: None) -> Iterator[None]:
    """The process that daemons are forked from; from the beginning, for it is of no one test."""
    with preloaded():
        yield


# Far over the slowest test on a busy machine: one that hangs must fail, and not hold up all that follow.
HANGS_AFTER_S = 240


class HungError(BaseException):
    """A test does not end. It is no `Exception`, for tests and what they test may catch those."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Fail a test that hangs, wherever it does. A fixture for each of thousands of tests would cost them more."""

    def fail(_signum: int, _frame: object) -> None:
        raise HungError(f"this test has hung for {HANGS_AFTER_S} s")

    before = signal.signal(signal.SIGALRM, fail)
    # Again and again: what cleans up after it may hang too.
    signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER_S, HANGS_AFTER_S / 10)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Watch:
    """Ends the run when no worker has said anything for too long: one may be where no signal's handler runs.

    Each worker says on stderr where it is, and the last line of the run names the tests that were begun.
    """

    def __init__(self) -> None:
        self._begun: set[str] = set()
        signal.signal(signal.SIGALRM, self._end)
        signal.alarm(2 * HANGS_AFTER_S)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begun.add(nodeid)
        signal.alarm(2 * HANGS_AFTER_S)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._begun.discard(nodeid)
        signal.alarm(2 * HANGS_AFTER_S)

    def _end(self, _signum: int, _frame: object) -> None:
        for pid in children():
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            print(f"\n{pid} is {state} in {Path(f'/proc/{pid}/wchan').read_text()}", file=sys.stderr)
            # `faulthandler`, which pytest enables, answers the one; the other is for one that is stopped.
            os.kill(pid, signal.SIGABRT)
            os.kill(pid, signal.SIGCONT)
        pytest.exit(f"nothing was heard for {2 * HANGS_AFTER_S} s; begun: {' '.join(sorted(self._begun))}", 1)
