"""What all tables of a tool say together of how its calls wait, and what of that is a mistake."""

import pytest

from tooldispatchd.catalog.catalog import build_catalog
from tooldispatchd.catalog.policy import Breaking, CallPolicy, breaking_of, policy_of, rate_of
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.restspecs import RestApiSpec, RestSpec
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec, ToolSpec

QUEUES = {name: QueueSpec(concurrent=1) for name in ("b", "a", "c")}


def test_a_call_waits_in_all_queues_that_its_tables_name_in_the_order_of_the_file() -> None:
    server = Binding("s", McpSpec(command="x", queue="b"), prefix="s")
    config = Config(queues=QUEUES, tools={"t": ToolSpec(mcp="s", queue="c")})
    policy = policy_of(config, ProfileSpec(queue="a"), tool="t", server=server, server_tool="t")
    assert policy.queues == ("b", "a", "c")
    assert policy_of(config, ProfileSpec(queue="c"), tool="t").queues == ("c",)


@pytest.mark.parametrize(
    ("tool", "server", "profile", "found"),
    [
        ("low", "high", "high", "low"),
        (None, "high", "low", "high"),
        (None, None, "low", "low"),
        (None,) * 3 + ("normal",),
    ],
)
def test_the_nearest_table_says_the_priority(tool: str, server: str, profile: str, found: str) -> None:
    config = Config(tools={"t": ToolSpec(mcp="s", priority=tool)})  # type: ignore[arg-type]  # one of the three words
    binding = Binding("s", McpSpec(command="x", priority=server), prefix="s")  # type: ignore[arg-type]  # as above
    spec = ProfileSpec(priority=profile)  # type: ignore[arg-type]  # as above
    assert policy_of(config, spec, tool="t", server=binding).priority == found


def test_what_a_tool_says_of_reading_comes_before_what_its_server_says() -> None:
    config = Config(tools={"t": ToolSpec(mcp="s", exclusive="x", read_only=False), "u": ToolSpec(mcp="s")})
    server = Binding("s", McpSpec(command="x", exclusive="y", read_only=("get_*",)), prefix="s")
    own = policy_of(config, None, tool="t", server=server, server_tool="t", says_read_only=True)
    assert (own.exclusive, own.is_reader) == (("x", "y"), False)
    assert policy_of(config, None, tool="u", server=server, server_tool="u", says_read_only=True).is_reader
    assert policy_of(config, None, server=server, server_tool="get_file").is_reader
    assert not policy_of(config, None, server=server, server_tool="put_file").is_reader


def test_only_what_is_declared_so_is_tried_again() -> None:
    config = Config(tools={"t": ToolSpec(map="1", idempotent=True), "u": ToolSpec(map="1")})
    server = Binding("s", McpSpec(command="x", idempotent=("get_*",)), prefix="s")
    assert policy_of(config, None, tool="t").retried_by == ("tools", "t")
    assert policy_of(config, None, tool="u") == CallPolicy()
    assert policy_of(config, None, server=server, server_tool="get_file").retried_by == ("mcp", "s")
    assert policy_of(config, None, server=server, server_tool="put_file").retried_by is None


def test_a_tool_and_its_server_have_a_breaker_each() -> None:
    config = Config(tools={"t": ToolSpec(mcp="s", breaker="2 in 1m, rest 500ms")})
    server = Binding("s", McpSpec(command="x", breaker="5 in 30s, rest 10s"), prefix="s")
    assert policy_of(config, None, tool="t", server=server).breakers == (
        Breaking(("tools", "t"), 2, 60.0, 0.5),
        Breaking(("mcp", "s"), 5, 30.0, 10.0),
    )


def test_an_apis_table_holds_for_each_of_its_tools() -> None:
    api = RestApiSpec(
        base_url="http://x/", queue="a", priority="low", exclusive="x", breaker="5 in 30s, rest 10s", idempotent=True
    )
    rest = RestSpec(api="api", path="/")
    config = Config(queues=QUEUES, rest={"api": api}, tools={"t": ToolSpec(rest=rest, queue="b", exclusive="y")})
    posted = policy_of(config, None, tool="t")
    assert posted == CallPolicy(
        queues=("b", "a"), priority="low", exclusive=("x", "y"), breakers=(Breaking(("rest", "api"), 5, 30.0, 10.0),)
    )
    got = policy_of(config, None, tool="t", says_read_only=True, says_idempotent=True)
    assert (got.is_reader, got.retried_by) == (True, ("rest", "api"))


@pytest.mark.parametrize(
    ("text", "per_s", "burst"),
    [("10/s", 10.0, 1), ("30/m", 0.5, 1), ("36/h burst 5", 0.01, 5), ("2/s burst 20", 2.0, 20)],
)
def test_a_rate_is_so_many_in_a_time_and_so_many_at_once(text: str, per_s: float, burst: int) -> None:
    assert rate_of(text) == (per_s, burst)


def test_a_breaker_is_failures_in_a_time_and_a_rest() -> None:
    assert breaking_of(("tools", "t"), "3 in 2h, rest 1m") == Breaking(("tools", "t"), 3, 7200.0, 60.0)


def problems_of(config: Config) -> list[tuple[str, str, str | None]]:
    """Where each mistake stands, what it is, and what may have been meant."""
    found = build_catalog(config)
    assert isinstance(found, list)
    return [(".".join(map(str, each.path)), each.why, each.nearest) for each in found]


def test_a_queue_that_is_not_there_is_a_mistake_wherever_it_is_named() -> None:
    config = Config(
        queues={"github": QueueSpec(concurrent=1)},
        tools={"t": ToolSpec(map="1", queue="githup")},
        mcp={"s": McpSpec(command="x", queue="other")},
        agents={"default": ProfileSpec(tools=("t",), queue="github "), "a": ProfileSpec(tools=("t",), queue="github")},
    )
    why = "no such queue in [queues]"
    assert problems_of(config) == [
        ("tools.t.queue", why, "github"),
        ("mcp.s.queue", why, None),
        ("agents.default.queue", why, "github"),
    ]


def test_a_queue_bounds_something_and_has_a_name_of_its_own() -> None:
    config = Config(queues={"idle": QueueSpec(waiting=5), "agent": QueueSpec(concurrent=1)})
    assert problems_of(config) == [
        ("queues.idle", "this queue bounds nothing", None),
        ("queues.agent", "faults call one of the daemon's own queues so", None),
    ]
