"""A name server that never answers does not hold the end of the daemon up."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import SERVE, Daemon, ready, until

UNSHARE: Final = ("unshare", "--map-root-user", "--mount", "--net")
# In its namespaces it has a name server of its own, whose socket nobody reads, and goes on as the command it is given.
WITH_SILENT_NAMES: Final = """
import fcntl, os, socket, struct, subprocess, sys

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(server, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
server.bind(("127.0.0.1", 53))
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
server.set_inheritable(True)
os.execv(sys.argv[2], sys.argv[2:])
"""
# Far longer than any test.
RESOLVER: Final = "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"
CONFIG: Final = """
[daemon]
grace_s = 100
[mcp.trusted]
url = "http://far.example.com/mcp"
private = true
[mcp.public]
url = "https://other.example.com/mcp"
[limits]
mcp_opening = 200
"""
# More than trio has threads for, by default 40, of which each waits for a name.
MORE: Final = "".join(f'[mcp.n{n}]\nurl = "http://n{n}.example.com/mcp"\nprivate = true\n' for n in range(60))
TEARDOWN_S: Final = 6.0


@contextmanager
def daemon_without_names(directory: Path, config: str = CONFIG + MORE) -> Iterator[Daemon]:
    """A daemon all of whose look-ups hang."""
    file, path, log, resolver = (directory / name for name in ("config.toml", "dispatch.sock", "log", "resolv.conf"))
    file.write_text(config)
    resolver.write_text(RESOLVER)
    begin = [*UNSHARE, sys.executable, "-c", WITH_SILENT_NAMES, str(resolver)]
    tried = subprocess.run([*begin, "/bin/true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no namespaces with a name server of their own: {tried.stderr.strip()}")
    words = [*begin, *SERVE, "--config", str(file), "--listen", f"unix:{path}"]
    with (
        log.open("ab") as stderr,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=stderr) as process,
        ready(Daemon(process, path, log)) as daemon,
    ):
        yield daemon


def has_been_asked(daemon: Daemon) -> bool:
    """Whether something lies unread in the name server's socket (proc(5), the fifth column of `udp`)."""
    sockets = Path(f"/proc/{daemon.process.pid}/net/udp").read_text().splitlines()[1:]
    return any(not line.split()[4].endswith(":00000000") for line in sockets)


def test_the_end_waits_for_no_name(tmp_path: Path) -> None:
    with daemon_without_names(tmp_path) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello"})
        until(lambda: has_been_asked(daemon))
        daemon.process.send_signal(signal.SIGTERM)
        assert agent.hear()["error"] == "draining"
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(TEARDOWN_S) == 0


def test_the_end_waits_for_no_name_of_a_call_beyond_its_grace(tmp_path: Path) -> None:
    config = "[daemon]\ngrace_s = 1\n"
    for number in range(20):
        config += f'[tools.t{number}]\ntype = "{{}} -> json"\n'
        config += f'rest = {{ url = "https://n{number}.example.com/" }}\n'
    with daemon_without_names(tmp_path, config) as daemon, daemon.agent() as agent:
        agent.hello("default")
        for number in range(20):
            agent.call(str(number), f"t{number}", {})
        until(lambda: has_been_asked(daemon))
        daemon.process.send_signal(signal.SIGTERM)
        assert {agent.hear()["is_error"] for _ in range(20)} == {True}
        assert agent.hear() == {"end": True}
        assert daemon.process.wait(1 + TEARDOWN_S) == 0
