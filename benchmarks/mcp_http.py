"""Calls to a thin MCP server over Streamable HTTP: through the daemon, and by the official SDK's client."""

import contextlib
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    Bar,
    Call,
    ClientResult,
    Server,
    Table,
    client_words,
    load,
    load_generator,
    micros,
    on_cores,
    rotated,
    run_alone,
    run_peer,
    start_daemon,
    start_port_peer,
    thousands,
)

# Both speak the newest revision with a handshake: nothing is probed, and the GET is refused to both alike.
CONFIG: Final = """
[mcp.json]
url = "http://127.0.0.1:{port}/json"
protocol = "2025-11-25"
[mcp.events]
url = "http://127.0.0.1:{port}/events"
protocol = "2025-11-25"
[agents.default]
mcp = ["json", "events"]
"""
TEXT: Final = "what did the survey of bees find"
FORMS: Final = {"json": "answers in JSON", "events": "answers in event streams"}
"""The server's path and the binding's name, and what stands in the table."""
IN_FLIGHT: Final = (1, 32)

DAEMON: Final = "through the daemon"
SDK: Final = "official SDK's client, direct"
CLIENTS: Final = (DAEMON, SDK)
SHARE: Final = 1 / 3

Setting = tuple[str, int]
Rounds = dict[str, list[ClientResult]]


def measure(quick: bool) -> Table:
    """Speed, latency and CPU of each client, for both forms of answers."""
    rounds, seconds = (1, 0.3) if quick else (5, 0.6)
    found: dict[Setting, Rounds] = {}
    with (
        load_generator() as generator,
        start_port_peer("thin_http_mcp") as server,
        start_daemon(CONFIG.format(port=server.path)) as daemon,
    ):
        for form, in_flight in [(form, number) for form in FORMS for number in IN_FLIGHT]:
            stage = Stage(
                generator=generator,
                daemon=daemon,
                url=f"http://127.0.0.1:{server.path}/{form}",
                call=Call(f"{form}:echo", f'{{"text":"{TEXT}"}}', TEXT),
                in_flight=in_flight,
                seconds=seconds,
            )
            # As over stdio: a chain that takes turns shares one core, so that none is woken.
            with on_cores([daemon, server], shared=True) if in_flight == 1 else contextlib.nullcontext():
                found[form, in_flight] = stage.play(rounds)
    return Table(
        title="Calls to an MCP server over Streamable HTTP",
        program="mcp_http",
        columns=("client", "in flight", "calls/s", "p50 us", "CPU us/call"),
        rows=[row for setting, each in found.items() for row in _rows(setting, each)],
        bars=[_bar(setting, each) for setting, each in found.items()],
        notes=(
            "1 in flight: all processes of a client's chain share one core, as over stdio.",
            "CPU us/call: of the daemon alone, or of the client that stands in its place; the server's is left out.",
        ),
    )


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One form of answers, and so many calls in flight."""

    generator: list[str]
    daemon: Server
    url: str
    call: Call
    in_flight: int
    seconds: float

    def play(self, rounds: int) -> Rounds:
        """The clients take turns."""
        found: Rounds = {label: [] for label in CLIENTS}
        for number in range(rounds):
            for label in rotated(CLIENTS, number):
                found[label].append(self._through_daemon() if label == DAEMON else self._direct())
        return found

    def _through_daemon(self) -> ClientResult:
        shape = {"connections": 1, "in_flight": self.in_flight}
        found = load(self.generator, self.daemon, self.call, **shape, seconds=self.seconds)
        return found.as_client()

    def _direct(self) -> ClientResult:
        words = client_words("sdk_client.py", str(self.in_flight), str(self.seconds), self.url)
        return run_peer(words, ClientResult)


def _rows(setting: Setting, found: Rounds) -> list[tuple[str, ...]]:
    form, in_flight = setting
    return [
        (
            f"{FORMS[form]}, {label}",
            str(in_flight),
            thousands(median(each.calls_per_s for each in results)),
            micros(median(each.p50_us for each in results)),
            micros(median(each.cpu_us for each in results)),
        )
        for label, results in found.items()
    ]


def _bar(setting: Setting, found: Rounds) -> Bar:
    form, in_flight = setting
    daemon_us, sdk_us = (median(each.cpu_us for each in found[label]) for label in CLIENTS)
    what = f"MCP HTTP call, {FORMS[form]}, {in_flight} in flight, CPU of the daemon, of the SDK client's"
    share = daemon_us / sdk_us
    return Bar(what, "≤ 1/3", f"{share:.2f} ({micros(daemon_us)} us)", share <= SHARE)


if __name__ == "__main__":
    run_alone(measure)
