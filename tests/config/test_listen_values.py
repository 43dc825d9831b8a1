import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.config.listen_values import (
    ALLOWED,
    ListenAddress,
    ListenKind,
    SocketOwner,
    in_a_line,
    parse_place,
    parse_places,
    quote_path,
)


def problem_of(value: str) -> Problem:
    problem = parse_place(value)
    assert isinstance(problem, Problem)
    return problem


# --- places ---


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("stdio", ListenAddress("stdio", ListenKind.STDIO, fds=(0, 1))),
        ("systemd", ListenAddress("systemd", ListenKind.SYSTEMD)),
        ("fd:3,4", ListenAddress("fd:3,4", ListenKind.FD, fds=(3, 4))),
        ("fd:3,3", ListenAddress("fd:3,3", ListenKind.FD, fds=(3, 3))),
        ("unix:/run/x.sock", ListenAddress("unix:/run/x.sock", ListenKind.UNIX, "/run/x.sock")),
        ("unix:x", ListenAddress("unix:x", ListenKind.UNIX, "x")),
        ("unix:a:b", ListenAddress("unix:a:b", ListenKind.UNIX, "a:b")),
        ("unix:@name", ListenAddress("unix:@name", ListenKind.ABSTRACT, "name")),
        ("unix:./@name", ListenAddress("unix:./@name", ListenKind.UNIX, "./@name")),
        ("unix:/a%3Fb%25", ListenAddress("unix:/a%3Fb%25", ListenKind.UNIX, "/a?b%")),
        ("unix:/%FF", ListenAddress("unix:/%FF", ListenKind.UNIX, "/\udcff")),
    ],
)
def test_a_place_is_a_way_in_and_where_it_is(value: str, place: ListenAddress) -> None:
    assert parse_place(value) == place


@pytest.mark.parametrize("value", ["", "unix", "unix:", "tcp:80", "UNIX:/x", "unix:?mode=0600", "fd", "?profile=a"])
def test_anything_else_is_a_problem(value: str) -> None:
    assert parse_place(value) == Problem((), "no such way to listen", value=value, allowed=ALLOWED)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("/run/x", "unix:/run/x"),
        ("./x?mode=0600", "unix:./x?mode=0600"),
        ("@name", "unix:@name"),
        ("STDIO", "stdio"),
        ("stdio:", "stdio"),
        ("sytemd?profile=a", "systemd"),
    ],
)
def test_what_was_meant_is_guessed(value: str, meant: str) -> None:
    assert problem_of(value).nearest == meant


@pytest.mark.parametrize("value", ["fd:", "fd:3", "fd:3,", "fd:3,4,5", "fd:-1,4", "fd:a,b", "fd:3, 4", "fd:\uff13,4"])
def test_descriptors_are_two_numbers(value: str) -> None:
    assert problem_of(value).why == "no pair of descriptors"


def test_the_descriptor_of_the_log_is_no_channel() -> None:
    assert problem_of("fd:3,2").why == "descriptor 2 is for the log"


def test_a_path_is_counted_in_bytes() -> None:
    assert isinstance(parse_place("unix:/" + "x" * 102), ListenAddress)
    assert isinstance(parse_place("unix:/" + "%78" * 102), ListenAddress)
    assert problem_of("unix:/" + "é" * 52).why == "a socket's path has at most 103 bytes"


def test_an_abstract_name_has_the_room_of_the_kernels_address() -> None:
    assert isinstance(parse_place("unix:@" + "x" * 107), ListenAddress)
    assert problem_of("unix:@" + "x" * 108).why == "an abstract socket's name has at most 107 bytes"


@pytest.mark.parametrize("value", ["unix:/100%", "unix:/a%zz", "unix:@%2"])
def test_a_percent_sign_that_begins_no_escape_is_a_problem(value: str) -> None:
    assert problem_of(value).why == 'a "%" begins no escape'


@pytest.mark.parametrize("value", ["unix:@", "unix:/a%00b", "unix:@%00"])
def test_a_name_is_not_empty_and_has_no_nul(value: str) -> None:
    assert problem_of(value).why == "a socket's name has a character at least, and no NUL"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=25))
def test_a_path_that_is_quoted_is_read_as_it_was(path: str) -> None:
    place = parse_place(f"unix:/{quote_path(path)}?profile=a")
    assert isinstance(place, ListenAddress)
    assert (place.name, place.profile) == (f"/{path}", "a")


@given(st.text(max_size=40) | st.from_regex(r"(unix:@?/?x|fd:3,4|systemd|stdio)\?[a-z]{1,8}=[%0-9a-zA-Z,:]*"))
def test_any_text_is_a_place_or_a_problem(value: str) -> None:
    assert isinstance(parse_place(value), ListenAddress | Problem)


# --- options ---


def test_every_option_of_a_socket_is_kept() -> None:
    value = "unix:/x?profile=a&profiles=b,c&mode=0600&owner=ann:agents&uid=1000,bob&gid=any"
    assert parse_place(value) == ListenAddress(
        value,
        ListenKind.UNIX,
        "/x",
        profile="a",
        profiles=("b", "c"),
        mode=0o600,
        owner=SocketOwner("ann", "agents"),
        uids=("1000", "bob"),
        gids=("any",),
    )


@pytest.mark.parametrize(("written", "mode"), [("0660", 0o660), ("600", 0o600), ("0777", 0o777), ("0", 0)])
def test_a_mode_is_octal(written: str, mode: int) -> None:
    place = parse_place(f"unix:/x?mode={written}")
    assert isinstance(place, ListenAddress)
    assert place.mode == mode


@pytest.mark.parametrize("mode", ["1777", "0680", "rw", "-1", "0o660", "00660"])
def test_another_mode_is_a_problem(mode: str) -> None:
    assert problem_of(f"unix:/x?mode={mode}").why == "mode is no octal number of at most 0777"


@pytest.mark.parametrize("owner", [":agents", "ann:", "ann:b:c:", "any", "99999999999", "4294967295"])
def test_an_owner_is_a_user_or_a_user_and_a_group(owner: str) -> None:
    assert problem_of(f"unix:/x?owner={owner}").why == "owner is no user, nor a user and a group"


@pytest.mark.parametrize("users", ["any,1", "4294967295", "9" * 5000])
def test_users_are_names_or_numbers_or_any_alone(users: str) -> None:
    assert problem_of(f"unix:/x?uid={users}").why == "uid is no list of names or numbers"


@pytest.mark.parametrize("option", ["uid=1,", "gid=,1", "profiles=a,,b"])
def test_a_list_has_no_empty_names(option: str) -> None:
    assert problem_of(f"unix:/x?{option}").why.endswith("has an empty name in its list")


@pytest.mark.parametrize("query", ["", "mode", "mode=", "=0600", "mode=0600&", "&mode=0600", "profile=%zz"])
def test_an_option_is_a_name_and_a_value(query: str) -> None:
    assert problem_of(f"unix:/x?{query}").why == 'an option is "NAME=VALUE", and "&" stands between two'


def test_an_option_stands_once() -> None:
    assert problem_of("unix:/x?mode=0600&mode=0660").why == "an option is given twice"


def test_an_unknown_option_names_the_nearest() -> None:
    problem = problem_of("unix:/x?mdoe=0600")
    assert (problem.why, problem.nearest) == ("unknown option of a place", "mode")
    assert problem.allowed == '"profile", "profiles", "mode", "owner", "uid", "gid"'


@pytest.mark.parametrize("value", ["unix:@x?mode=0600", "systemd?owner=root", "stdio?mode=0600", "fd:3,4?owner=a"])
def test_only_a_path_has_a_mode_and_an_owner(value: str) -> None:
    assert problem_of(value).why == "mode and owner are for a socket that has a path"


@pytest.mark.parametrize("value", ["stdio?uid=1", "fd:3,4?gid=any"])
def test_nobody_connects_to_inherited_descriptors(value: str) -> None:
    assert problem_of(value).why == "uid and gid are for a socket that others connect to"


# --- several, and what they name ---


@pytest.mark.parametrize("value", ["stdio?profile=devloper", "unix:/x?profiles=developer,devloper"])
def test_a_profile_that_does_not_exist_is_a_problem_with_the_nearest(value: str) -> None:
    _, problems = parse_places(["unix:/y", value], ["default", "developer"])
    assert problems == [Problem((1,), "unknown profile", value=value, nearest="developer")]


@pytest.mark.parametrize("value", ["stdio", "stdio?profile=developer"])
def test_a_place_that_names_known_profiles_alone_has_no_problem(value: str) -> None:
    assert parse_places([value], ["default", "developer"])[1] == []


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["stdio", "fd:3,1"], "another place has this descriptor"),
        (["fd:3,4", "unix:/x", "fd:4,5"], "another place has this descriptor"),
        (["stdio", "stdio"], "another place has this descriptor"),
        (["systemd", "systemd?profile=a"], "what systemd hands over belongs to one place"),
    ],
)
def test_two_places_share_nothing(texts: list[str], why: str) -> None:
    _, problems = parse_places(texts, ["a"])
    assert [(problem.why, problem.value) for problem in problems] == [(why, texts[-1])]


def test_all_that_is_wrong_is_said_at_once() -> None:
    places, problems = parse_places(["tcp:1", "unix:/x", "stdio?profile=b", "fd:2,3"], ["a"])
    assert [place.text for place in places] == ["unix:/x", "stdio?profile=b"]
    assert [problem.why for problem in problems] == [
        "no such way to listen",
        "unknown profile",
        "descriptor 2 is for the log",
    ]


def test_a_problem_is_said_in_a_line() -> None:
    assert in_a_line(problem_of("unix:@x?uids=1")) == (
        'unix:@x?uids=1: unknown option of a place; allowed: "profile", "profiles", "uid", "gid"; did you mean "uid"?'
    )
