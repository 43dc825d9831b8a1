"""Requests to a thin HTTP API: as a tool through the daemon, and by httpx2 directly."""

from typing import Final

from benchmarks.harness import (
    Bar,
    Call,
    Table,
    load_generator,
    median_ratio,
    run_alone,
    start_daemon,
    start_port_peer,
)
from benchmarks.turns import COLUMNS, DAEMON, Rounds, direct, on_one_core, rows_of, take_turns, through

CONFIG: Final = """
[tools.weather]
type = "{{city: string, units?: string, days?: int}} -> json"
rest = {{ url = "http://127.0.0.1:{port}/v1/weather/${{parameters.city}}" }}
"""
WEATHER: Final = Call("weather", '{"city":"Paris","units":"metric","days":3}', "")
IN_FLIGHT: Final = (1, 32)

HTTPX2: Final = "httpx2, direct"
ONE_AT_A_TIME: Final = 1.5


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
            clients = {
                DAEMON: through(generator, daemon, WEATHER, in_flight=in_flight, seconds=seconds),
                HTTPX2: direct("httpx2_client.py", str(in_flight), str(seconds), url),
            }
            with on_one_core((daemon, api), in_flight):
                found[in_flight] = take_turns(clients, rounds)
    return Table(
        title="Requests to an HTTP API",
        program="rest",
        columns=COLUMNS,
        rows=[row for in_flight, each in found.items() for row in rows_of(each, in_flight)],
        bars=[_bar(in_flight, each) for in_flight, each in found.items()],
        notes=(
            "Through the daemon: an agent's line, the input checked, the request, the answer read, a line back.",
            "1 in flight: all processes of a client's chain share one core; httpx2 is its blocking client there.",
        ),
    )


def _bar(in_flight: int, found: Rounds) -> Bar:
    daemon, httpx2 = ([1 / each.calls_per_s for each in found[label]] for label in (DAEMON, HTTPX2))
    ratio = median_ratio(daemon, httpx2)
    most = ONE_AT_A_TIME if in_flight == 1 else 1.0
    what = f"HTTP API, {in_flight} in flight, time of a call through the daemon, of httpx2's"
    return Bar(what, f"≤ {most:g}", f"{ratio:.2f}", ratio <= most)


if __name__ == "__main__":
    run_alone(measure)
