"""Requests to a thin HTTP API: as a tool through the daemon, and by httpx2 directly."""

import contextlib
from statistics import median
from typing import Final

from benchmarks.harness import (
    Bar,
    Call,
    ClientResult,
    Table,
    client_words,
    load,
    load_generator,
    median_ratio,
    micros,
    on_cores,
    rotated,
    run_alone,
    run_peer,
    start_daemon,
    start_port_peer,
    thousands,
)

CONFIG: Final = """
[tools.weather]
type = "{{city: string, units?: string, days?: int}} -> json"
rest = {{ url = "http://127.0.0.1:{port}/v1/weather/${{parameters.city}}" }}
"""
INPUT: Final = '{"city":"Paris","units":"metric","days":3}'
IN_FLIGHT: Final = (1, 32)

DAEMON: Final = "through the daemon"
HTTPX2: Final = "httpx2, direct"
CLIENTS: Final = (DAEMON, HTTPX2)
ONE_AT_A_TIME: Final = 1.5

Rounds = dict[str, list[ClientResult]]


def measure(quick: bool) -> Table:
    """Speed, latency and CPU of each client, with one request in flight and with many."""
    rounds, seconds = (1, 0.3) if quick else (7, 1.0)
    found: dict[int, Rounds] = {}
    with (
        load_generator() as generator,
        start_port_peer("thin_api") as api,
        start_daemon(CONFIG.format(port=api.path)) as daemon,
    ):
        url = f"http://127.0.0.1:{api.path}/v1/weather/Paris"
        for in_flight in IN_FLIGHT:
            results: Rounds = {label: [] for label in CLIENTS}
            # As over stdio: a chain that takes turns shares one core, so that none is woken.
            with on_cores([daemon, api], shared=True) if in_flight == 1 else contextlib.nullcontext():
                for number in range(rounds):
                    for label in rotated(CLIENTS, number):
                        if label == DAEMON:
                            shape = {"connections": 1, "in_flight": in_flight}
                            call = Call("weather", INPUT, "")
                            each = load(generator, daemon, call, **shape, seconds=seconds).as_client()
                        else:
                            words = client_words("httpx2_client.py", str(in_flight), str(seconds), url)
                            each = run_peer(words, ClientResult)
                        results[label].append(each)
            found[in_flight] = results
    return Table(
        title="Requests to an HTTP API",
        program="rest",
        columns=("client", "in flight", "calls/s", "p50 us", "CPU us/call"),
        rows=[row for in_flight, each in found.items() for row in _rows(in_flight, each)],
        bars=[_bar(in_flight, each) for in_flight, each in found.items()],
        notes=(
            "Through the daemon: an agent's line, the input checked, the request, the answer read, a line back.",
            "1 in flight: all processes of a client's chain share one core; httpx2 is its blocking client there.",
        ),
    )


def _rows(in_flight: int, found: Rounds) -> list[tuple[str, ...]]:
    return [
        (
            label,
            str(in_flight),
            thousands(median(each.calls_per_s for each in results)),
            micros(median(each.p50_us for each in results)),
            micros(median(each.cpu_us for each in results)),
        )
        for label, results in found.items()
    ]


def _bar(in_flight: int, found: Rounds) -> Bar:
    daemon, httpx2 = ([1 / each.calls_per_s for each in found[label]] for label in CLIENTS)
    ratio = median_ratio(daemon, httpx2)
    most = ONE_AT_A_TIME if in_flight == 1 else 1.0
    what = f"HTTP API, {in_flight} in flight, time of a call through the daemon, of httpx2's"
    return Bar(what, f"≤ {most:g}", f"{ratio:.2f}", ratio <= most)


if __name__ == "__main__":
    run_alone(measure)
