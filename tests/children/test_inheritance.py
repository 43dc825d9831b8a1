import os
import subprocess
import sys

import pytest
import trio

from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.inheritance import seal

PROBE = """
import os, signal
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
fds = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
# glibc keeps 32 and 33 for itself.
ignored = [number + 1 for number in range(64) if int(status["SigIgn"], 16) >> number & 1 and number + 1 not in (32, 33)]
print(sorted(map(int, fds)), status["NoNewPrivs"].strip(), int(status["SigBlk"], 16), ignored)
"""

# A daemon whose parent left it a descriptor, an ignored SIGCHLD and an ignored SIGTERM.
BADLY_STARTED = """
import os, sys, trio
from tooldispatchd.children.family import open_family

async def main():
    async with open_family() as family:
        probe = "test -e /proc/$$/fd/$0 && echo leaked || echo sealed; kill $$"
        child = family.spawn(["sh", "-c", probe, sys.argv[1]])
        await child.exited()
        print(os.read(child.stdout, 100), child.reap())

trio.run(main)
"""


async def output_of(
    family: Family, argv: list[str], *, env: dict[str, str] | None = None, cwd: str | None = None
) -> str:
    """All that the program writes to stdout."""
    child = family.spawn(argv, env=env or {}, cwd=cwd)
    whole = b""
    with trio.fail_after(20):
        while True:
            await trio.lowlevel.wait_readable(child.stdout)
            chunk = os.read(child.stdout, 65536)
            if not chunk:
                break
            whole += chunk
    await child.kill()
    return whole.decode()


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_a_child_sees_nothing_else_of_the_daemons_environment(
    monkeypatch: pytest.MonkeyPatch, nothing_left: None, cwd: str | None
) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with open_family() as family:
        lines = (await output_of(family, ["env"], env={"GIVEN": "yes"}, cwd=cwd)).splitlines()
        run_id = family.run_id
    assert "GIVEN=yes" in lines
    assert "LANG=C.UTF-8" in lines
    assert f"TOOLDISPATCHD_RUN_ID={run_id}" in lines
    names = {line.partition("=")[0] for line in lines}
    known = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
    assert names - known == {"GIVEN", "TOOLDISPATCHD_RUN_ID", "TOOLDISPATCHD_CHILD"}


async def test_the_run_id_cannot_be_given_another_value(family: Family) -> None:
    seen = await output_of(family, ["env"], env={"TOOLDISPATCHD_RUN_ID": "mine"})
    assert f"TOOLDISPATCHD_RUN_ID={family.run_id}\n" in seen
    assert "mine" not in seen


async def test_each_child_has_a_number_of_its_own_that_cannot_be_given_another_value(family: Family) -> None:
    seen = [await output_of(family, ["env"], env={"TOOLDISPATCHD_CHILD": "7"}) for _ in range(2)]
    assert "TOOLDISPATCHD_CHILD=1\n" in seen[0]
    assert "TOOLDISPATCHD_CHILD=2\n" in seen[1]


async def test_what_a_tool_is_given_stands_over_what_the_daemon_passes_on(family: Family) -> None:
    assert "HOME=/elsewhere\n" in await output_of(family, ["env"], env={"HOME": "/elsewhere"})


@pytest.mark.parametrize("cwd", [None, "/"])
async def test_a_child_has_three_descriptors_default_signals_and_no_way_to_new_privileges(
    family: Family, cwd: str | None
) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    seal()
    try:
        seen = await output_of(family, [sys.executable, "-I", "-S", "-c", PROBE], cwd=cwd)
    finally:
        os.close(reading)
        os.close(writing)
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25).
    assert seen == "[0, 1, 2] 1 0 [13, 25]\n"


def test_a_daemon_that_was_started_badly_has_children_that_were_not() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    started = ["sh", "-c", 'trap "" TERM CHLD; exec "$@"', "sh", sys.executable, "-c", BADLY_STARTED, str(writing)]
    try:
        done = subprocess.run(started, stdout=subprocess.PIPE, close_fds=False, timeout=30, check=True)
    finally:
        os.close(reading)
        os.close(writing)
    assert done.stdout == b"b'sealed\\n' Exit(code=None, signal=15)\n"
