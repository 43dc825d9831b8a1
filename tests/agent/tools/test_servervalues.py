"""What the MCP client is told of a server, from the configuration and the session."""

import weakref

import msgspec

from tests.agent.fakes import Ledger, open_runtime
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.tools.servers import Once, open_keeper
from tooldispatchd.agent.tools.servervalues import value_of
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.profiles import ServerUse
from tooldispatchd.catalog.servers import ServerCredentials
from tooldispatchd.catalog.specs import Config, LimitsSpec, McpSpec, OAuthSpec, ProfileSpec, ToolSpec
from tooldispatchd.http.reach import OAuth, Reach
from tooldispatchd.providers.mcp.asking import NOBODY
from tooldispatchd.providers.mcp.server import Server

WHOLE = ServerUse("kit")
PART = ServerUse("kit", ("say",))
COMMAND = McpSpec(command="kit")


async def made(spec: McpSpec, use: ServerUse | None = WHOLE, *needed: str, secret: str = "") -> Server:
    """The server of a catalog whose tools `one` and `two` are made of it."""
    catalog = build_catalog(
        Config(
            mcp={"kit": spec},
            limits=LimitsSpec(handshake_s=7, call_s=8),
            tools={name: ToolSpec(mcp="kit") for name in ("one", "two")},
            agents={"default": ProfileSpec(mcp_resources=True), "plain": ProfileSpec()},
        )
    )
    assert isinstance(catalog, Catalog), catalog
    binding = catalog.servers["kit"]
    if secret:
        credentials = ServerCredentials((("authorization", secret),), client_secret=secret, private_key=secret)
        binding = msgspec.structs.replace(binding, credentials=credentials)
    async with open_runtime(catalog) as runtime:
        profile = catalog.profiles["default"]
        return value_of(runtime, binding, use, needed=needed, profile=profile, workspace=None)[0]


async def test_a_command_is_run_with_the_limits_of_all_or_its_own() -> None:
    spec = McpSpec(command="kit", args=("-v",), env={"A": "b"}, cwd="/srv", deny=("rm",), protocol="2025-06-18")
    server = await made(spec)
    assert (server.argv, server.env, server.cwd, server.reach) == (("kit", "-v"), {"A": "b"}, "/srv", None)
    assert (server.deny, server.protocol, server.handshake_s, server.call_s) == (("rm",), "2025-06-18", 7, 8)
    own = await made(McpSpec(command="kit", handshake_s=1, call_s=2, trace=True))
    assert (own.handshake_s, own.call_s, own.traced) == (1, 2, True)


async def test_a_url_is_reached_with_what_was_read_for_it() -> None:
    oauth = OAuthSpec(grant="client_credentials", client_id="me", client_secret_env="KIT", scopes=("read",))
    spec = McpSpec(url="https://x.example/mcp", auth="oauth", oauth=oauth, ca="/ca.pem", hosts=("y.example",))
    server = await made(spec, secret="s3cret")
    assert server.argv == ()
    assert server.reach == Reach(
        url="https://x.example/mcp",
        headers=(("authorization", "s3cret"),),
        oauth=OAuth(
            grant="client_credentials",
            client_id="me",
            client_secret="s3cret",
            private_key="s3cret",
            scopes=("read",),
        ),
        ca="/ca.pem",
        hosts=("y.example",),
    )
    assert "s3cret" not in repr(server)


async def test_only_what_is_wanted_is_listed() -> None:
    whitelisted = McpSpec(command="kit", tools=("say",))
    assert (await made(whitelisted)).whitelist == ("say",)
    assert (await made(COMMAND)).whitelist is None
    needed = await made(whitelisted, None, "one")
    assert (needed.whitelist, needed.declared) == ((), ("one",))


async def test_a_shared_server_is_the_same_for_all_sessions() -> None:
    spec = McpSpec(command="kit", shared=True)
    values = [await made(spec, use, *needed) for use, *needed in ((PART,), (None, "one"), (None, "two"))]
    assert values[0] == values[1] == values[2]
    assert (values[0].declared, values[0].dies_of_timeouts) == (("one", "two"), False)


async def test_a_call_over_its_time_is_the_end_unless_the_table_says_otherwise() -> None:
    assert (await made(COMMAND)).dies_of_timeouts
    assert not (await made(McpSpec(command="kit", on_timeout="cancel"))).dies_of_timeouts


async def test_a_profile_has_the_resources_of_the_servers_that_it_offers_whole() -> None:
    assert (await made(COMMAND)).resources
    assert not (await made(COMMAND, PART)).resources
    assert (await made(McpSpec(command="kit", mcp_resources=True), PART)).resources


async def test_a_connection_holds_no_generation() -> None:
    catalog = build_catalog(Config(mcp={"kit": COMMAND}))
    assert isinstance(catalog, Catalog), catalog
    binding = catalog.servers["kit"]
    async with open_runtime(catalog) as first:
        setup = Setup(catalog, Ledger(), uid=1000)
        runtime = Runtime(setup, first.services, first.state)
        profile = catalog.profiles["default"]
        server, _ = value_of(runtime, binding, WHOLE, needed=(), profile=profile, workspace=None)
        share, log = first.state.memory.share(None), Ledger()
        keeper = open_keeper(
            runtime,
            binding,
            server,
            nothing,
            nothing,
            program=None,
            log=log,
            agent=NOBODY,
            place=None,
            turns=(None, 1),
            share=share,
        )
        is_alive = weakref.ref(runtime)
        del runtime
        assert is_alive() is None
        assert keeper.server is server


def nothing() -> None:
    """There is nobody to tell."""


def test_who_acts_once_holds_nothing_then() -> None:
    told: list[str] = []
    once = Once(lambda: told.append("settled"))
    once()
    once()
    assert told == ["settled"]
