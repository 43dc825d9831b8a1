"""Who may come in: decisions only, with no channel and no daemon."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.agent.session.entrance import (
    MAX_NAMES,
    NOT_AUTHENTICATED,
    Authenticator,
    Entrance,
    Visitor,
    narrow_profile,
)
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ProfileSpec, ToolSpec
from tooldispatchd.wire.faults import Code, Fault

ANN = Visitor(uid=1001, gid=1001, groups=(7,))
BEN = Visitor(uid=1002, gid=1002)
ANYWHERE = Entrance()


def catalog_of(**profiles: ProfileSpec) -> Catalog:
    catalog = build_catalog(Config(agents=dict(profiles)))
    assert isinstance(catalog, Catalog)
    return catalog


OPEN = catalog_of(default=ProfileSpec(), other=ProfileSpec())
PROTECTED = catalog_of(
    default=ProfileSpec(),
    secret=ProfileSpec(token="s3cret"),
    ann=ProfileSpec(uid=1001),
    seven=ProfileSpec(gid=(7, 8)),
    either=ProfileSpec(uid=1002, gid=7),
    both=ProfileSpec(token="s3cret", uid=1001),
)


def admitted(
    catalog: Catalog,
    name: str | None,
    token: str | None = None,
    *,
    entrance: Entrance = ANYWHERE,
    visitor: Visitor = ANN,
    said_hello: bool = True,
) -> str | Fault:
    """The name of the profile that is opened, or the fault."""
    found = Authenticator(catalog).admit(name, token=token, said_hello=said_hello, entrance=entrance, visitor=visitor)
    return found.name if isinstance(found, Profile) else found


@pytest.mark.parametrize(
    ("keys", "token", "opened"),
    [
        ({}, None, NOT_AUTHENTICATED),
        ({}, "s3cret", NOT_AUTHENTICATED),
        ({"token": "s3cret"}, None, NOT_AUTHENTICATED),
        ({"token": "s3cret"}, "s3cret", "w"),
        ({"uid": 1001}, None, "w"),
        ({"gid": 9}, None, NOT_AUTHENTICATED),
    ],
)
def test_the_profile_of_an_agent_process_is_opened_only_as_its_keys_say(
    keys: dict[str, object], token: str | None, opened: str | Fault
) -> None:
    process = ProcessSpec(kind="agent", command=("true",), tools=("t",), **keys)  # type: ignore[arg-type]  # its own
    catalog = build_catalog(Config(tools={"t": ToolSpec(inline="id", type="int -> int")}, processes={"w": process}))
    assert isinstance(catalog, Catalog), catalog
    assert admitted(catalog, "w", token) == opened
    assert admitted(catalog, None) == "default"


# --- who may connect ---


@pytest.mark.parametrize(
    ("entrance", "is_admitted"),
    [
        (Entrance(), True),
        (Entrance(uids=frozenset({1001})), True),
        (Entrance(uids=frozenset({1002})), False),
        (Entrance(uids=frozenset()), False),
        (Entrance(gids=frozenset({1001})), True),
        (Entrance(gids=frozenset({7})), True),
        (Entrance(gids=frozenset({8})), False),
        (Entrance(uids=frozenset({1002}), gids=frozenset({7})), True),
        (Entrance(uids=frozenset({1002}), gids=frozenset({8})), False),
    ],
)
def test_an_entrance_admits_its_users_and_the_members_of_its_groups(entrance: Entrance, is_admitted: bool) -> None:
    assert entrance.admits(ANN) is is_admitted


# --- which profile ---


@pytest.mark.parametrize("said_hello", [True, False])
def test_who_names_no_profile_gets_the_entrances(said_hello: bool) -> None:
    assert admitted(OPEN, None, said_hello=said_hello) == "default"
    assert admitted(OPEN, None, entrance=Entrance("other"), said_hello=said_hello) == "other"


def test_what_is_admitted_is_the_catalogs_own_profile() -> None:
    found = Authenticator(OPEN).admit("other", token=None, said_hello=True, entrance=ANYWHERE, visitor=ANN)
    assert found is OPEN.profiles["other"]


def test_where_nothing_is_protected_an_unknown_profile_is_called_so() -> None:
    unknown = Fault(Code.UNKNOWN_PROFILE, "no such profile: none")
    assert admitted(OPEN, "none") == unknown
    assert admitted(OPEN, "none", "any") == unknown
    default = Fault(Code.UNKNOWN_PROFILE, "no such profile: default")
    assert admitted(catalog_of(other=ProfileSpec()), None, said_hello=False) == default


def test_an_unknown_profile_is_told_with_the_name_that_is_near() -> None:
    found = admitted(OPEN, "othr")
    assert isinstance(found, Fault)
    assert (found.code, found.extras) == (Code.UNKNOWN_PROFILE, {"did_you_mean": "other"})
    assert found.detail == "no such profile: othr; did you mean other?"


def test_the_daemons_own_user_is_told_of_an_unknown_profile_where_others_are_not() -> None:
    authenticator = Authenticator(PROTECTED, own_uid=ANN.uid)

    def told(visitor: Visitor, token: str | None, entrance: Entrance = ANYWHERE) -> object:
        found = authenticator.admit("secrt", token=token, said_hello=True, entrance=entrance, visitor=visitor)
        return found.code if isinstance(found, Fault) else found

    assert told(ANN, None) is Code.UNKNOWN_PROFILE
    assert told(BEN, None) is Code.NOT_AUTHENTICATED
    # Who shows a token may be guessing, and a listener that names its profiles tells of no others.
    assert told(ANN, "x") is Code.NOT_AUTHENTICATED
    assert told(ANN, None, Entrance("other", frozenset({"other"}))) is Code.NOT_AUTHENTICATED


@pytest.mark.parametrize(
    ("name", "token", "visitor"),
    [
        ("secret", "s3cret", BEN),
        ("ann", None, ANN),
        ("seven", None, ANN),
        ("either", None, ANN),
        ("either", None, BEN),
        ("both", "s3cret", ANN),
        ("default", None, BEN),
        # What is asked of nobody may be shown by anybody.
        ("default", "any", BEN),
        ("ann", "any", ANN),
    ],
)
def test_who_is_asked_for_nothing_or_shows_what_is_asked_is_admitted(
    name: str, token: str | None, visitor: Visitor
) -> None:
    assert admitted(PROTECTED, name, token, visitor=visitor) == name


@pytest.mark.parametrize(
    ("name", "token", "visitor"),
    [
        ("none", None, ANN),
        ("none", "s3cret", ANN),
        ("secret", None, ANN),
        ("secret", "", ANN),
        ("secret", "s3cre", ANN),
        ("secret", "s3cret\n", ANN),
        ("secret", "s3cret" * 2_000_000, ANN),
        ("secret", "\udcff", ANN),
        ("ann", None, BEN),
        ("ann", "s3cret", BEN),
        ("seven", None, BEN),
        ("both", "s3cret", BEN),
        ("both", "wrong", ANN),
        ("both", None, ANN),
    ],
)
def test_every_refusal_is_the_same_fault(name: str, token: str | None, visitor: Visitor) -> None:
    assert admitted(PROTECTED, name, token, visitor=visitor) is NOT_AUTHENTICATED


@pytest.mark.parametrize(("name", "token"), [("secret", "s3cret"), ("ann", None), ("seven", None), ("both", "s3cret")])
def test_no_protected_profile_is_opened_without_hello(name: str, token: str | None) -> None:
    assert admitted(PROTECTED, None, token, entrance=Entrance(name), said_hello=False) is NOT_AUTHENTICATED
    assert admitted(PROTECTED, None, token, entrance=Entrance(name)) == name


def test_an_open_profile_is_opened_without_hello_beside_protected_ones() -> None:
    assert admitted(PROTECTED, None, said_hello=False) == "default"


def test_an_entrance_that_names_profiles_tells_of_no_others() -> None:
    entrance = Entrance("other", frozenset({"other"}))
    assert admitted(OPEN, None, entrance=entrance) == "other"
    assert admitted(OPEN, "other", entrance=entrance) == "other"
    assert admitted(OPEN, "default", entrance=entrance) is NOT_AUTHENTICATED
    assert admitted(OPEN, "none", entrance=entrance) is NOT_AUTHENTICATED
    assert admitted(OPEN, None, entrance=Entrance("other", frozenset({"default"}))) is NOT_AUTHENTICATED


def test_a_refusal_says_no_name_and_has_no_extras() -> None:
    assert NOT_AUTHENTICATED.code is Code.NOT_AUTHENTICATED
    assert NOT_AUTHENTICATED.extras == {}


NAMES = st.sampled_from([*PROTECTED.profiles, "none", ""])
ENTRANCES = st.builds(Entrance, profile=NAMES, profiles=st.none() | st.frozensets(NAMES, max_size=3))
TOKENS = st.none() | st.sampled_from(["s3cret", "", "S3cret"]) | st.text(max_size=5)


@given(st.data(), st.none() | NAMES, TOKENS, ENTRANCES)
def test_nobody_is_admitted_to_what_is_not_theirs(
    data: st.DataObject, name: str | None, token: str | None, entrance: Entrance
) -> None:
    catalog = data.draw(st.sampled_from([OPEN, PROTECTED]))
    visitor = data.draw(st.sampled_from([ANN, BEN]))
    said_hello = data.draw(st.booleans())
    found = admitted(catalog, name, token, entrance=entrance, visitor=visitor, said_hello=said_hello)
    if isinstance(found, Fault):
        is_hidden = catalog is PROTECTED or entrance.profiles is not None
        assert found is NOT_AUTHENTICATED if is_hidden else found.code is Code.UNKNOWN_PROFILE
        return
    profile = catalog.profiles[found]
    assert found == (entrance.profile if name is None else name)
    assert entrance.profiles is None or found in entrance.profiles
    assert found not in catalog.tokens or (token == "s3cret" and said_hello)
    assert not profile.is_bound or (said_hello and visitor.is_among(profile.uids, profile.gids))


@given(st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=8).map("§{}".format), NAMES)
@example("§" + "x" * 5000, "secret")
def test_no_fault_bears_a_token(token: str, name: str) -> None:
    found = admitted(PROTECTED, name, token, visitor=BEN)
    assert not isinstance(found, Fault) or token not in found.content() + repr(found)


@given(st.text(min_size=1, max_size=4096).filter(lambda token: len(token.encode()) <= 4096), st.text())
@example("ä" * 2048, "ä" * 2049)
@example("x" * 4096, "x" * 4097)
def test_only_the_token_itself_opens_its_profile(token: str, other: str) -> None:
    catalog = catalog_of(a=ProfileSpec(token=token))
    assert admitted(catalog, "a", token) == "a"
    assert admitted(catalog, "a", other) == ("a" if other == token else NOT_AUTHENTICATED)


# --- spec ---

ECHO = ToolSpec(inline="id", type="string -> string")
built = build_catalog(
    Config(
        tools={"a": ECHO, "b": ECHO},
        mcp={"docs": McpSpec(command="x"), "other": McpSpec(command="x")},
        agents={"default": ProfileSpec(tools=("a",), mcp=("docs",))},
    )
)
assert isinstance(built, Catalog)
OFFERING: Catalog = built
WHOLE = OFFERING.profiles["default"]


def narrowed(spec: object) -> Profile | Fault:
    return narrow_profile(WHOLE, Raw(msgspec.json.encode(spec)), OFFERING)


def test_a_spec_narrows_the_profile() -> None:
    part = narrowed({"tools": ["docs:search"], "jobs": False})
    assert isinstance(part, Profile)
    assert (part.tools, part.servers[0].only, part.jobs) == ((), ("search",), False)


def test_an_empty_spec_leaves_everything() -> None:
    assert narrowed({}) == WHOLE


def test_a_spec_of_nothing_leaves_nothing_but_the_jobs() -> None:
    part = narrowed({"tools": [], "mcp": []})
    assert isinstance(part, Profile)
    assert (part.tools, part.servers, part.jobs) == ((), (), True)


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        ({"tools": ["b"]}, "b"),
        ({"tools": ["nothing"]}, "nothing"),
        ({"mcp": ["other"]}, "other"),
        ({"mcp": ["nothing"]}, "nothing"),
        ({"tools": ["other:x"]}, "other:x"),
        ({"tools": ["x" * 500]}, "x" * 128),
    ],
)
def test_what_is_not_offered_is_not_allowed_whether_it_exists_or_not(spec: object, source: str) -> None:
    assert narrowed(spec) == Fault(Code.NOT_ALLOWED, "spec names what the profile does not offer", {"source": source})


@pytest.mark.parametrize(
    ("spec", "extras"),
    [
        (None, {}),
        ([], {}),
        ("tools", {}),
        (7, {}),
        ({"tool": []}, {"source": "tool"}),
        ({"x" * 500: []}, {"source": "x" * 128}),
        ({"tools": "a"}, {"source": "tools"}),
        ({"tools": None}, {"source": "tools"}),
        ({"tools": [1]}, {"source": "tools"}),
        ({"mcp": {"docs": True}}, {"source": "mcp"}),
        ({"jobs": 0}, {"source": "jobs"}),
        ({"jobs": None}, {"source": "jobs"}),
    ],
)
def test_a_spec_of_another_shape_is_an_invalid_request(spec: object, extras: dict[str, object]) -> None:
    fault = narrowed(spec)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.extras) == (Code.INVALID_REQUEST, extras)


def test_a_spec_names_a_thousand_at_most() -> None:
    assert isinstance(narrowed({"tools": ["a"] * (MAX_NAMES - 1), "mcp": ["docs"]}), Profile)
    fault = narrowed({"tools": ["a"] * MAX_NAMES, "mcp": ["docs"]})
    assert isinstance(fault, Fault)
    assert fault.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("pattern", ["*?" * 33, "*" + "a" * 1024])
def test_the_patterns_of_a_spec_are_bounded_together(pattern: str) -> None:
    # Making one of a thousand wildcards held the loop for a third of a second.
    half = pattern[: len(pattern) // 2]
    assert isinstance(narrowed({"allow": [half]}), Profile)
    fault = narrowed({"allow": [half, pattern[len(half) :] + "*"]})
    assert isinstance(fault, Fault)
    assert fault.code is Code.INVALID_REQUEST


NESTED = b"[" * 100_000 + b"]" * 100_000
BROKEN = {
    "nothing": b"",
    "no end": b"{",
    "no text": b'{"tools": ["\xff"]}',
    "no text in a key": b'{"\xff": 1}',
    "half a character": b'{"tools": ["\\ud800"]}',
    "nested names": b'{"tools": ' + NESTED + b"}",
    "nested jobs": b'{"jobs": ' + NESTED + b"}",
}


@pytest.mark.parametrize("case", BROKEN)
def test_bytes_that_are_no_json_are_an_invalid_request(case: str) -> None:
    fault = narrow_profile(WHOLE, Raw(BROKEN[case]), OFFERING)
    assert isinstance(fault, Fault)
    assert fault.code is Code.INVALID_REQUEST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["a", "docs", "docs:x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["tools", "mcp", "jobs", "x"]), inner, max_size=3)
    ),
)


@given(JSON)
def test_any_spec_gives_a_part_of_the_profile_or_a_fault(spec: object) -> None:
    part = narrowed(spec)
    if isinstance(part, Fault):
        assert part.code in {Code.INVALID_REQUEST, Code.NOT_ALLOWED}
    else:
        assert set(part.tools) <= {"a"}
        assert {use.server for use in part.servers} <= {"docs"}
