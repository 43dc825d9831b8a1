"""All metrics of a daemon: their names, kinds, labels and meanings. `docs/operate/metrics.md` shows this table."""

from typing import Final

from tooldispatchd.metrics.exposition import Metric, MetricKind

_COUNTER: Final = MetricKind.COUNTER
_GAUGE: Final = MetricKind.GAUGE
_TOOL: Final = ("tool", "kind", "provider", "outcome")

CALLS: Final = Metric(
    "tooldispatchd_calls_total",
    _COUNTER,
    "Requests that were answered, by tool and outcome: ok, error where the tool said so, or a fault's code.",
    _TOOL,
)
DURATION: Final = Metric(
    "tooldispatchd_call_duration_seconds",
    MetricKind.HISTOGRAM,
    "What calls took from their request to their answer; without those that are answered in the moment they come.",
    _TOOL,
)
WAIT: Final = Metric(
    "tooldispatchd_call_wait_seconds",
    MetricKind.HISTOGRAM,
    "What calls waited for something before their tool, by stage, and by queue where the stage has several.",
    ("stage", "queue"),
)
IN_FLIGHT: Final = Metric("tooldispatchd_calls_in_flight", _GAUGE, "Calls that have begun and have not ended.")
QUEUE_INSIDE: Final = Metric(
    "tooldispatchd_queue_calls_inside", _GAUGE, "Calls that have a place of a queue.", ("queue",)
)
QUEUE_WAITING: Final = Metric(
    "tooldispatchd_queue_calls_waiting", _GAUGE, "Calls that wait for a place of a queue.", ("queue",)
)
JOBS: Final = Metric("tooldispatchd_jobs", _GAUGE, "Jobs of all agents that run, or whose results are kept.")
SESSIONS: Final = Metric("tooldispatchd_sessions", _GAUGE, "Open sessions.")
SESSIONS_OPENED: Final = Metric("tooldispatchd_sessions_opened_total", _COUNTER, "Sessions that were opened.")
CHANNELS: Final = Metric("tooldispatchd_channels", _GAUGE, "Open channels.")
TURNED_AWAY: Final = Metric(
    "tooldispatchd_connections_refused_total",
    _COUNTER,
    "Connections that were turned away: peers that are not admitted, or over a limit.",
)
REFUSED_LINES: Final = Metric(
    "tooldispatchd_lines_refused_total", _COUNTER, "Lines of agents that were no message, or came too fast."
)
WRONG_TOKENS: Final = Metric(
    "tooldispatchd_hellos_not_authenticated_total", _COUNTER, "Profiles that were asked for without the right."
)
RECEIVED: Final = Metric("tooldispatchd_received_bytes_total", _COUNTER, "Bytes that agents have sent.")
SENT: Final = Metric("tooldispatchd_sent_bytes_total", _COUNTER, "Bytes that were sent to agents.")
SERVERS: Final = Metric(
    "tooldispatchd_server_connections",
    _GAUGE,
    "Connections to MCP servers, of all sessions, by state: opening, open, away, asleep or waking.",
    ("server", "state"),
)
SERVER_OPENED: Final = Metric(
    "tooldispatchd_server_opened_total", _COUNTER, "Connections to MCP servers that opened.", ("server",)
)
SERVER_FAILED: Final = Metric(
    "tooldispatchd_server_failed_total", _COUNTER, "Connections to MCP servers that did not open.", ("server",)
)
SERVER_DIED: Final = Metric(
    "tooldispatchd_server_deaths_total",
    _COUNTER,
    "Open connections to MCP servers that ended by themselves.",
    ("server",),
)
SERVER_RETRIES: Final = Metric(
    "tooldispatchd_server_restarts_total",
    _COUNTER,
    "Connections to MCP servers that were opened anew after the one before.",
    ("server",),
)
CHILDREN: Final = Metric("tooldispatchd_children", _GAUGE, "Processes that the daemon, or a forker of it, has started.")
CHILDREN_STARTED: Final = Metric(
    "tooldispatchd_children_started_total",
    _COUNTER,
    "Processes that were started, by what did: spawn or fork.",
    ("by",),
)
FORKERS: Final = Metric("tooldispatchd_forkers", _GAUGE, "Launchers and warm parents that serve.", ("kind",))
PLACES_TAKEN: Final = Metric("tooldispatchd_process_places_taken", _GAUGE, "Places for programs that calls have.")
PLACES_WAITING: Final = Metric("tooldispatchd_process_places_waiting", _GAUGE, "Calls that wait for such a place.")
MEMORY: Final = Metric("tooldispatchd_buffered_bytes", _GAUGE, "What the daemon keeps for agents and servers.")
MEMORY_LIMIT: Final = Metric("tooldispatchd_buffered_bytes_limit", _GAUGE, "The limit buffered_bytes.")
STORED: Final = Metric("tooldispatchd_stored_bytes", _GAUGE, "Long answers in files.")
STORED_LIMIT: Final = Metric("tooldispatchd_stored_bytes_limit", _GAUGE, "The limit all_stored_bytes.")
CACHE_ENTRIES: Final = Metric("tooldispatchd_cache_entries", _GAUGE, "Answers that may be given again.")
CACHE_BYTES: Final = Metric("tooldispatchd_cache_bytes", _GAUGE, "What they take.")
CACHE_LOOKUPS: Final = Metric(
    "tooldispatchd_cache_lookups_total", _COUNTER, "Calls that were looked up in the cache: hit or miss.", ("result",)
)
AUDIT_LOST: Final = Metric("tooldispatchd_audit_lost_total", _COUNTER, "Calls for whose record there was no room.")
AUDIT_WAITING: Final = Metric("tooldispatchd_audit_waiting", _GAUGE, "Calls whose record is not written yet.")
LOG_LOST: Final = Metric("tooldispatchd_log_lines_lost_total", _COUNTER, "Lines of the log that could not be written.")
TURNS: Final = Metric("tooldispatchd_loop_turns_total", _COUNTER, "Steps of all tasks.")
LONGEST_TURN: Final = Metric(
    "tooldispatchd_loop_longest_turn_seconds", _GAUGE, "The longest step so far, in which nobody else was served."
)
DRAINING: Final = Metric("tooldispatchd_draining", _GAUGE, "1 once the daemon is ending.")
BUILD: Final = Metric("tooldispatchd_build_info", _GAUGE, "Always 1.", ("version", "python"))
CPU: Final = Metric("process_cpu_seconds_total", _COUNTER, "Processor time of the daemon itself.")
RESIDENT: Final = Metric("process_resident_memory_bytes", _GAUGE, "Its memory.")
VIRTUAL: Final = Metric("process_virtual_memory_bytes", _GAUGE, "Its address space.")
STARTED_AT: Final = Metric("process_start_time_seconds", _GAUGE, "When it was started, in Unix seconds.")
DESCRIPTORS: Final = Metric("process_open_fds", _GAUGE, "Its open descriptors.")
DESCRIPTORS_LIMIT: Final = Metric("process_max_fds", _GAUGE, "How many it may have.")

ALL: Final = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
