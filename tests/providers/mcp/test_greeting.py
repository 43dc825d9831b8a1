from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.providers.mcp.greeting import (
    CLIENT,
    MAX_INSTRUCTIONS_BYTES,
    MAX_INSTRUCTIONS_CHARS,
    MAX_NAME_CHARS,
    MAX_REVISIONS,
    Greeting,
    instructions_text,
    quoted,
    read_discovery,
    read_greeting,
    read_supported,
)


def test_the_client_names_itself_by_the_version_that_is_installed() -> None:
    assert CLIENT["name"] == "tooldispatchd"
    assert CLIENT["version"] == version("tooldispatchd")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_revision_with_a_handshake_is_accepted(revision: str) -> None:
    said = b'{"protocolVersion":"' + revision.encode() + b'","capabilities":{"tools":{}},"instructions":"Hi."}'
    assert read_greeting(Raw(said)) == Greeting(revision, None, has_tools=True, instructions="Hi.")


@pytest.mark.parametrize(
    "capabilities", [b"{}", b'{"tools":null}', b'{"tools":false}', b'{"sampling":{}}', b"null", b"[]", b'"x"']
)
def test_a_server_that_declares_no_tools_has_none(capabilities: bytes) -> None:
    greeting = read_greeting(Raw(b'{"protocolVersion":"2025-11-25","capabilities":' + capabilities + b"}"))
    assert greeting == Greeting("2025-11-25", None, has_tools=False, instructions=None)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (b'{"name":"docs","version":"1"}', "docs"),
        (b'{"name":"' + b"x" * 1000 + b'"}', "x" * MAX_NAME_CHARS),
        (b'{"name":""}', None),
        (b'{"name":7}', None),
        (b'{"version":"1"}', None),
        (b"null", None),
        (b"[]", None),
    ],
)
def test_what_a_server_calls_itself_is_known_where_it_can_be_read(server: bytes, name: str | None) -> None:
    greeting = read_greeting(Raw(b'{"protocolVersion":"2025-11-25","serverInfo":' + server + b"}"))
    assert greeting == Greeting("2025-11-25", name, has_tools=False, instructions=None)


def test_an_unknown_revision_is_named_and_cut() -> None:
    why = read_greeting(Raw(b'{"protocolVersion":"2099-01-01' + b"x" * 1000 + b'"}'))
    assert isinstance(why, str)
    assert "'2099-01-01xxx" in why
    assert len(why) < 200


@pytest.mark.parametrize(
    "result", [b"null", b"{}", b"[]", b'{"protocolVersion":7}', b"{", b'{"protocolVersion":"\xff"}']
)
def test_what_is_no_greeting_says_so(result: bytes) -> None:
    assert read_greeting(Raw(result)) == "its answer to initialize cannot be read"


def test_long_instructions_are_cut() -> None:
    said = b'{"protocolVersion":"2025-11-25","instructions":"' + b"x" * 100_000 + b'"}'
    greeting = read_greeting(Raw(said))
    assert isinstance(greeting, Greeting)
    assert greeting.instructions == "x" * MAX_INSTRUCTIONS_CHARS


def test_what_else_a_server_can_do_is_known() -> None:
    said = b'{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}}'
    greeting = read_greeting(Raw(b'{"protocolVersion":"2025-11-25","capabilities":' + said + b"}"))
    assert greeting == Greeting(
        "2025-11-25",
        None,
        has_tools=True,
        instructions=None,
        has_resources=True,
        has_prompts=True,
        tools_list_changed=True,
        capabilities=Raw(b'{"resources":{"subscribe":true},"prompts":{},"logging":{}}'),
    )


@pytest.mark.parametrize("tools", [b"{}", b'{"listChanged":false}', b'{"listChanged":"yes"}', b"true", b"[]"])
def test_a_server_that_does_not_plainly_say_so_tells_of_no_changes(tools: bytes) -> None:
    greeting = read_greeting(Raw(b'{"protocolVersion":"2025-11-25","capabilities":{"tools":' + tools + b"}}"))
    assert isinstance(greeting, Greeting)
    assert greeting.has_tools
    assert not greeting.tools_list_changed


def test_a_revision_that_is_not_the_wanted_one_is_refused_and_both_are_named() -> None:
    why = read_greeting(Raw(b'{"protocolVersion":"2025-06-18"}'), frozenset({"2025-11-25"}))
    assert why == "it speaks protocol revision '2025-06-18'; wanted is 2025-11-25"


def test_a_discovery_is_a_greeting_in_the_revision_that_both_speak() -> None:
    greeting = read_discovery(
        Raw(
            b'{"resultType":"complete","supportedVersions":["2025-11-25","2026-07-28"],'
            b'"capabilities":{"tools":{"listChanged":true}},"instructions":"Hi.","ttlMs":0,"cacheScope":"private",'
            b'"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"docs","version":"1"}}}'
        )
    )
    assert greeting == Greeting("2026-07-28", "docs", has_tools=True, instructions="Hi.", tools_list_changed=True)


@pytest.mark.parametrize("meta", [b"null", b"[]", b"{}", b'{"io.modelcontextprotocol/serverInfo":7}'])
def test_a_discovery_needs_no_name_of_the_server(meta: bytes) -> None:
    greeting = read_discovery(Raw(b'{"supportedVersions":["2026-07-28"],"_meta":' + meta + b"}"))
    assert greeting == Greeting("2026-07-28", None, has_tools=False, instructions=None)


def test_a_discovery_without_a_known_modern_revision_gives_the_revisions() -> None:
    assert read_discovery(Raw(b'{"supportedVersions":["2025-11-25","2099-01-01"]}')) == ["2025-11-25", "2099-01-01"]


@pytest.mark.parametrize(
    "result",
    [
        b"null",
        b"{}",
        b"{",
        b'{"supportedVersions":"2026-07-28"}',
        b'{"supportedVersions":["2026-07-28"],"resultType":"input_required"}',
        b'{"supportedVersions":["2026-07-28"],"resultType":7}',
    ],
)
def test_what_is_no_discovery_is_none(result: bytes) -> None:
    assert read_discovery(Raw(result)) is None


def test_the_revisions_that_a_refusal_names_are_read() -> None:
    error = b'{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2099-01-01"}}'
    assert read_supported(Raw(error)) == ["2026-07-28"]


@pytest.mark.parametrize("error", [b"7", b"{}", b'{"data":null}', b'{"data":{"supported":"2026-07-28"}}'])
def test_a_refusal_that_names_no_revisions_gives_none(error: bytes) -> None:
    assert read_supported(Raw(error)) is None


def test_what_is_quoted_of_foreign_revisions_is_bounded() -> None:
    assert quoted(["a\n", "x" * 100]) == "'a\\n', '" + "x" * 40 + "'"
    assert quoted(["a"] * (MAX_REVISIONS + 1)) == "'a', " * MAX_REVISIONS + "…"


@given(st.binary())
def test_any_bytes_are_read_without_an_exception(said: bytes) -> None:
    read_greeting(Raw(said))
    read_discovery(Raw(said))
    read_supported(Raw(said))


def test_each_servers_advice_stands_under_its_prefix() -> None:
    text = instructions_text([("docs", "Search first.\n\tThen read.\n"), ("empty", " "), ("", "Be quick.")])
    assert text == "# docs\nSearch first.\n\tThen read.\n\n# Tools without a prefix\nBe quick."


def test_without_advice_there_is_no_text() -> None:
    assert instructions_text([]) == ""


def test_control_characters_are_left_out() -> None:
    assert instructions_text([("a", "x\x1b[31m\r\u202ey")]) == "# a\nx[31my"


def test_no_server_drowns_another() -> None:
    text = instructions_text([("a", "x" * MAX_INSTRUCTIONS_BYTES), ("b", "short")])
    assert text.endswith("\n\n# b\nshort")
    assert text.count("x") > MAX_INSTRUCTIONS_BYTES // 2 - 10


@given(st.lists(st.tuples(st.sampled_from(["docs", "git", ""]), st.text() | st.just("é" * 40_000)), max_size=5))
def test_all_together_are_bounded_in_bytes(pairs: list[tuple[str, str]]) -> None:
    assert len(instructions_text(pairs).encode()) <= MAX_INSTRUCTIONS_BYTES
