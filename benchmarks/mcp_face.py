"""What it costs an MCP client to reach a server through the daemon, and through bridges that others wrote.

`make bridges` installs those; one that is not there is left out.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    START_S,
    STOP_S,
    Bar,
    BenchmarkError,
    Table,
    daemon_words,
    memory_kib,
    micros,
    on_cores,
    rotated,
    run_alone,
    scratch,
)
from benchmarks.peers.mcp_clients import HELLO, Client, HttpClient, StdioClient, greet

BRIDGES: Final = Path(__file__).parent.parent / "build" / "bench"
PROXY: Final = BRIDGES / "pypi" / "bin" / "mcp-proxy"
GATEWAY: Final = BRIDGES / "npm" / "node_modules" / ".bin" / "supergateway"
HUB: Final = BRIDGES / "npm" / "node_modules" / ".bin" / "mcp-hub"
# Its processes are found by its path.
SERVER: Final = [sys.executable, str(PEERS / "thin_mcp.py")]
CONFIG: Final = f"""
[mcp.thin]
command = {msgspec.json.encode(SERVER[0]).decode()}
args = [{msgspec.json.encode(SERVER[1]).decode()}]
prefix = ""
[agents.default]
mcp = ["thin"]
"""
TEXT: Final = "what did the survey of bees find"
CLIENTS: Final = 50
# A just-in-time compiler needs some before it is at its speed.
WARM_CALLS: Final = 100
SHARE: Final = 1 / 3
START_BAR_MS: Final = 150
OURS: Final = "`tooldispatchd mcp`"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a client reaches the server: what runs already, and what the client itself starts or connects to.

    `serve` makes of a directory and a port the command that listens there; `reach` the client's command, or a URL.
    """

    name: str
    path: str
    serve: Callable[[Path, int], list[str]] | None = None
    reach: Callable[[Path, int], list[str] | str]
    needs: tuple[Path, ...] = ()


def _our_daemon(folder: Path, port: int) -> list[str]:
    file = folder / "tooldispatchd.toml"
    file.write_text(CONFIG)
    listen = [f"unix:{folder / 'socket'}", f"http://127.0.0.1:{port}/mcp?profile=default"]
    return [*daemon_words(file), *(word for place in listen for word in ("--listen", place))]


def _our_client(folder: Path, _port: int) -> list[str]:
    return [sys.executable, "-m", "tooldispatchd", "mcp", "--socket", str(folder / "socket")]


def _proxy(_folder: Path, port: int) -> list[str]:
    return [str(PROXY), "--port", str(port), "--log-level", "WARNING", "--", *SERVER]


def _gateway(_folder: Path, port: int) -> list[str]:
    shape = ["--outputTransport", "streamableHttp", "--stateful", "--port", str(port), "--logLevel", "none"]
    return [str(GATEWAY), "--stdio", " ".join(SERVER), *shape]


def _hub(folder: Path, port: int) -> list[str]:
    file = folder / "hub.json"
    file.write_bytes(msgspec.json.encode({"mcpServers": {"thin": {"command": SERVER[0], "args": SERVER[1:]}}}))
    return [str(HUB), "--port", str(port), "--config", str(file)]


def _url(_folder: Path, port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


def _proxy_to(folder: Path, port: int) -> list[str]:
    return [str(PROXY), "--log-level", "WARNING", "--transport", "streamablehttp", _url(folder, port)]


def _gateway_to(folder: Path, port: int) -> list[str]:
    return [str(GATEWAY), "--streamableHttp", _url(folder, port), "--logLevel", "none"]


def _gateway_to_events(folder: Path, port: int) -> list[str]:
    return [str(GATEWAY), "--sse", _url(folder, port), "--logLevel", "none"]


WAYS: Final = (
    Way(name="the server", path="stdio", reach=lambda _folder, _port: SERVER),
    Way(name=OURS, path="stdio, daemon", serve=_our_daemon, reach=_our_client),
    Way(name="the daemon", path="HTTP", serve=_our_daemon, reach=_url),
    Way(name="mcp-proxy", path="stdio, HTTP, mcp-proxy", serve=_proxy, reach=_proxy_to, needs=(PROXY,)),
    Way(name="mcp-proxy", path="HTTP", serve=_proxy, reach=_url, needs=(PROXY,)),
    Way(name="supergateway", path="stdio, HTTP, supergateway", serve=_gateway, reach=_gateway_to, needs=(GATEWAY,)),
    Way(name="supergateway", path="HTTP", serve=_gateway, reach=_url, needs=(GATEWAY,)),
    Way(name="supergateway", path="stdio, SSE, mcp-hub", serve=_hub, reach=_gateway_to_events, needs=(GATEWAY, HUB)),
)


class Found(msgspec.Struct, frozen=True):
    """What was measured of one way; the calls and the starts in turns with the others."""

    p50_us: list[float] = []
    start_ms: list[float] = []
    mib: list[float] = []
    """Of each process that many clients need."""
    servers_mib: list[float] = []
    """Of those, the servers that are reached."""


def measure(quick: bool) -> Table:
    """Latency of calls, time to the first answer, memory of many clients."""
    rounds, seconds, clients = (1, 0.2, 2) if quick else (7, 0.5, CLIENTS)
    ways = [way for way in WAYS if all(need.exists() for need in way.needs)]
    found = [(way, Found()) for way in ways]
    _measure_calls(found, rounds, seconds)
    for way, its in found:
        with _served(way) as reach:
            if not isinstance(reach, str):
                its.start_ms.extend(_start_ms(reach) for _ in range(rounds))
        # Anew: what clients leave behind that have gone would count for those that are there.
        with _served(way) as reach:
            _measure_memory(reach, clients, its)
    left_out = sorted({need.name for way in WAYS for need in way.needs if not need.exists()})
    return Table(
        title="An MCP client reaches a server over stdio: directly, through the daemon, through others' bridges",
        program="mcp_face",
        columns=(
            "client of",
            "way to the server",
            "call p50 us",
            "added us",
            "start ms",
            "processes",
            "MiB",
            "less servers",
        ),
        rows=[_row(way, its, found[0][1]) for way, its in found],
        bars=_bars(found),
        notes=(
            "Call: one in flight; all processes of a way share one core. Start: exec to the answer of `initialize`.",
            f"Processes, and MiB (PSS): of {clients} clients that have made a call each; the last without the servers.",
            "A server is there for each client; behind mcp-proxy and mcp-hub all clients share one.",
            *([f"Left out, for `make bridges` has not installed them: {', '.join(left_out)}."] if left_out else []),
        ),
    )


def _row(way: Way, its: Found, direct: Found) -> tuple[str, ...]:
    return (
        way.name,
        way.path,
        micros(median(its.p50_us)),
        "" if its is direct else micros(_added_us(its, direct)),
        f"{median(its.start_ms):.0f}" if its.start_ms else "",
        str(len(its.mib)),
        f"{sum(its.mib):.0f}",
        f"{sum(its.mib) - sum(its.servers_mib):.0f}",
    )


def _added_us(its: Found, direct: Found) -> float:
    return median(one - other for one, other in zip(its.p50_us, direct.p50_us, strict=True))


def _bars(found: list[tuple[Way, Found]]) -> list[Bar]:
    (_way, direct), (_way, ours), *others = found
    start_ms = median(ours.start_ms)
    bars = [
        Bar(f"{OURS}: exec to its first answer", f"≤ {START_BAR_MS} ms", f"{start_ms:.0f} ms", start_ms <= START_BAR_MS)
    ]
    # Only what a client over stdio can use: over HTTP there is one bridge less.
    if best := min((_added_us(its, direct) for _way, its in others if its.start_ms), default=None):
        share = _added_us(ours, direct) / best
        what = f"{OURS}: time that it adds to a call, of what the best other bridge adds"
        bars.append(Bar(what, "≤ 1/3", f"{share:.2f} ({micros(best)} us)", share <= SHARE))
    return bars


# --- what is measured ------------------------------------------------------------------------------------------------


def _measure_calls(found: list[tuple[Way, Found]], rounds: int, seconds: float) -> None:
    """All ways stand open, and take turns."""
    # As in `mcp_stdio`: a chain takes turns, and waking idle cores would cost more than what is measured.
    with on_cores([], shared=True), contextlib.ExitStack() as stack:
        callers = [(stack.enter_context(_caller(way)), its) for way, its in found]
        for number in range(rounds):
            for call, its in rotated(callers, number):
                its.p50_us.append(_p50_us(call, seconds))


def _p50_us(call: Callable[[], None], seconds: float) -> float:
    took = []
    until = time.perf_counter() + seconds
    while (start := time.perf_counter()) < until:
        call()
        took.append(time.perf_counter() - start)
    return median(took) * 1e6


def _start_ms(words: list[str]) -> float:
    start = time.perf_counter()
    with contextlib.closing(StdioClient(words)) as client:
        client.ask("initialize", HELLO)
        return (time.perf_counter() - start) * 1e3


def _measure_memory(reach: list[str] | str, clients: int, its: Found) -> None:
    with contextlib.ExitStack() as stack:
        # All are started before the first is waited for.
        many = [stack.enter_context(contextlib.closing(_client(reach))) for _ in range(clients)]
        for client in many:
            greet(client)
            _call_of(client)()
        for pid in _descendants(os.getpid()):
            mib = memory_kib(pid)["Pss"] / 1024
            its.mib.append(mib)
            # A bridge has the server's command among its words, too, but further back.
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [SERVER[1].encode()]:
                its.servers_mib.append(mib)


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _descendants(child)


# --- ways, opened ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _caller(way: Way) -> Iterator[Callable[[], None]]:
    """A client at the end of that way: each call is one of `echo`."""
    with _served(way) as reach, contextlib.closing(_client(reach)) as client:
        greet(client)
        call = _call_of(client)
        for _ in range(WARM_CALLS):
            call()
        yield call


def _call_of(client: Client) -> Callable[[], None]:
    """What calls `echo`, by whatever name it is told; a hub listens before it has its servers."""
    until = time.monotonic() + START_S
    while b'echo"' not in (listed := client.ask("tools/list", {})) and time.monotonic() < until:
        time.sleep(0.05)
    names = [tool["name"] for tool in msgspec.json.decode(listed)["tools"]]
    asked = {"name": next(name for name in names if name.endswith("echo")), "arguments": {"text": TEXT}}

    def call() -> None:
        if TEXT.encode() not in (answer := client.ask("tools/call", asked)):
            raise BenchmarkError(f"echo was answered {answer[:400]!r}")

    return call


def _client(reach: list[str] | str) -> Client:
    return HttpClient(reach) if isinstance(reach, str) else StdioClient(reach)


@contextlib.contextmanager
def _served(way: Way) -> Iterator[list[str] | str]:
    """How the client reaches that way, once it listens; nothing is left of it afterwards."""
    with scratch() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        if way.serve is None:
            yield way.reach(folder, port)
            return
        words = way.serve(folder, port)
        # What some of them keep of themselves, they keep at home.
        environ = os.environ | {"HOME": str(folder)}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, env=environ, start_new_session=True)
        try:
            _wait_for(port, process, folder / "log")
            yield way.reach(folder, port)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise BenchmarkError(f"{process.args!r} does not listen: {log.read_text()[-2000:]}")


if __name__ == "__main__":
    run_alone(measure)
