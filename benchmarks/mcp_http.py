"""Calls to a thin MCP server over Streamable HTTP: through the daemon, and by the official SDK's client."""

from statistics import median
from typing import Final

from benchmarks.harness import Bar, Call, Table, load_generator, micros, run_alone, start_daemon, start_port_peer
from benchmarks.turns import COLUMNS, DAEMON, Rounds, direct, on_one_core, rows_of, take_turns, through

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

SDK: Final = "official SDK's client, direct"
SHARE: Final = 1 / 3

Setting = tuple[str, int]


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
            call = Call(f"{form}:echo", f'{{"text":"{TEXT}"}}', TEXT)
            url = f"http://127.0.0.1:{server.path}/{form}"
            clients = {
                DAEMON: through(generator, daemon, call, in_flight=in_flight, seconds=seconds),
                SDK: direct("sdk_client.py", str(in_flight), str(seconds), url),
            }
            with on_one_core((daemon, server), in_flight):
                found[form, in_flight] = take_turns(clients, rounds)
    return Table(
        title="Calls to an MCP server over Streamable HTTP",
        program="mcp_http",
        columns=COLUMNS,
        rows=[
            row
            for (form, in_flight), each in found.items()
            for row in rows_of(each, in_flight, before=f"{FORMS[form]}, ")
        ],
        bars=[_bar(setting, each) for setting, each in found.items()],
        notes=(
            "1 in flight: all processes of a client's chain share one core, as over stdio.",
            "CPU us/call: of the daemon alone, or of the client that stands in its place; the server's is left out.",
        ),
    )


def _bar(setting: Setting, found: Rounds) -> Bar:
    form, in_flight = setting
    daemon_us, sdk_us = (median(each.cpu_us for each in found[label]) for label in (DAEMON, SDK))
    what = f"MCP HTTP call, {FORMS[form]}, {in_flight} in flight, CPU of the daemon, of the SDK client's"
    share = daemon_us / sdk_us
    return Bar(what, "≤ 1/3", f"{share:.2f} ({micros(daemon_us)} us)", share <= SHARE)


if __name__ == "__main__":
    run_alone(measure)
