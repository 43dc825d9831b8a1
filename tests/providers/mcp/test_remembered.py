import msgspec
import pytest

from tests.providers.mcp.connecting import DEFAULT, ECHO
from tooldispatchd.http.reach import OAuth, Reach
from tooldispatchd.providers.mcp.remembered import MAX_SERVERS, Era, Eras, ToolLists, key_of
from tooldispatchd.providers.mcp.server import ServerOffer


def test_what_was_learnt_of_an_origin_is_known_until_it_is_forgotten() -> None:
    eras = Eras()
    assert eras.get("https://docs.example") is None
    eras.keep("https://docs.example", Era.MODERN)
    assert eras.get("https://docs.example") is Era.MODERN
    eras.forget("https://docs.example")
    assert eras.get("https://docs.example") is None


def test_what_was_learnt_last_holds() -> None:
    eras = Eras()
    eras.keep(("npx", "docs"), Era.LEGACY)
    eras.keep(("npx", "docs"), Era.MODERN)
    assert eras.get(("npx", "docs")) is Era.MODERN


def test_forgetting_what_is_not_known_is_nothing() -> None:
    Eras().forget("https://docs.example")


def full() -> Eras:
    """As many eras as are remembered; their origins are numbers."""
    eras = Eras()
    for number in range(MAX_SERVERS):
        eras.keep(number, Era.LEGACY)
    return eras


def test_the_origin_that_was_not_asked_for_longest_leaves_first() -> None:
    eras = full()
    eras.get(0)
    eras.keep("new", Era.MODERN)
    assert [eras.get(origin) for origin in (0, 1, 2, "new")] == [Era.LEGACY, None, Era.LEGACY, Era.MODERN]


def test_learning_an_origin_anew_makes_none_leave() -> None:
    eras = full()
    eras.keep(1, Era.MODERN)
    assert [eras.get(origin) for origin in (0, 1)] == [Era.LEGACY, Era.MODERN]


KNOWN = ServerOffer(tools={"echo": ECHO}, listed=("echo",), said_name="s")
URL = Reach(url="https://x.example/mcp")


def test_a_list_is_good_until_the_server_said() -> None:
    lists = ToolLists()
    lists.keep(b"a", msgspec.structs.replace(KNOWN, ttl_s=10.0), 0.0)
    lists.keep(b"b", KNOWN, 0.0)
    assert lists.get(b"a", 9.9) is not None
    assert lists.get(b"a", 10.0) is None
    assert lists.get(b"a", 0.0) is None
    assert lists.get(b"b", 1e12) is KNOWN


def test_what_is_forgotten_is_not_known() -> None:
    lists = ToolLists()
    lists.keep(b"a", KNOWN, 0.0)
    lists.forget(b"a")
    lists.forget(b"b")
    assert lists.get(b"a", 0.0) is None


def test_the_list_that_was_not_asked_for_longest_leaves() -> None:
    lists = ToolLists()
    for number in range(MAX_SERVERS):
        lists.keep(b"%d" % number, KNOWN, 0.0)
    lists.get(b"0", 0.0)
    lists.keep(b"new", KNOWN, 0.0)
    assert [key for key in (b"0", b"1", b"new") if lists.get(key, 0.0) is not None] == [b"0", b"new"]


def test_equal_servers_have_one_key() -> None:
    assert key_of(DEFAULT) == key_of(msgspec.structs.replace(DEFAULT))


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ("other",)},
        {"env": {"TOKEN": "a"}},
        {"cwd": "/elsewhere"},
        {"whitelist": ("echo",)},
        {"resources": True},
        {"reach": URL},
        {"reach": msgspec.structs.replace(URL, headers=(("authorization", "Bearer a"),))},
        {"reach": msgspec.structs.replace(URL, headers=(("authorization", "Bearer b"),))},
        {"reach": msgspec.structs.replace(URL, oauth=OAuth(grant="client_credentials", client_secret="a"))},
    ],
)
def test_whatever_makes_a_server_another_makes_its_key_another(change: dict[str, object]) -> None:
    keys = {key_of(DEFAULT), key_of(msgspec.structs.replace(DEFAULT, reach=URL, name="one"))}
    assert key_of(msgspec.structs.replace(DEFAULT, **change)) not in keys
