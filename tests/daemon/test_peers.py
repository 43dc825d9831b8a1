import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.config.credentials import AccountError, find_gid, find_uid
from tooldispatchd.config.listen_values import ListenAddress, parse_place
from tooldispatchd.daemon.places.doors import entrance_of, own_visitor, peer_of, visitor_of

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
STRANGER = 65_534
COMMAND = Path("/proc/self/comm").read_text().strip()


@contextmanager
def being(uid: int, gid: int, groups: list[int]) -> Iterator[None]:
    """This process as another user, so far as the kernel tells a peer."""
    before = os.getgroups(), os.getegid()
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[1])
        os.setgroups(before[0])


def entrance(text: str, *, is_abstract: bool = False) -> Entrance:
    place = parse_place(text)
    assert isinstance(place, ListenAddress)
    return entrance_of(place, is_abstract=is_abstract)


def accepted(groups: list[int]) -> Visitor:
    """A stranger with these groups, as who listens sees them."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connecting:
        listening.bind(f"\0tooldispatchd-test-peers-{os.getpid()}")
        listening.listen()
        with being(STRANGER, 4242, groups):
            connecting.connect(listening.getsockname())
        with listening.accept()[0] as connection:
            return peer_of(connection)


# --- visitors ---


def test_who_connects_is_known_by_user_group_and_process(nothing_left: None) -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connecting:
        listening.bind(f"\0tooldispatchd-test-peers-{os.getpid()}")
        listening.listen()
        connecting.connect(listening.getsockname())
        with listening.accept()[0] as connection:
            visitor = peer_of(connection)
    assert visitor == Visitor(os.geteuid(), os.getegid(), os.getpid(), tuple(os.getgroups()), command=COMMAND)


@AS_ROOT
def test_a_stranger_is_known_with_all_groups() -> None:
    assert accepted([7, 8, 9]) == Visitor(STRANGER, 4242, os.getpid(), (7, 8, 9), command=COMMAND)
    assert accepted([]) == Visitor(STRANGER, 4242, os.getpid(), (), command=COMMAND)


@AS_ROOT
def test_of_who_is_in_more_groups_than_can_be_asked_for_none_is_known() -> None:
    assert len(accepted(list(range(1000, 1256))).groups) == 256
    assert accepted(list(range(1000, 1257))) == Visitor(STRANGER, 4242, os.getpid(), (), command=COMMAND)


@AS_ROOT
def test_a_socket_that_is_passed_on_keeps_who_opened_it() -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connecting:
        listening.bind(f"\0tooldispatchd-test-peers-{os.getpid()}")
        listening.listen()
        connecting.connect(listening.getsockname())
        with listening.accept()[0] as connection, being(STRANGER, 4242, []):
            connecting.send(b"as somebody else")
            assert peer_of(connection).uid == 0


def test_behind_a_pipe_stands_the_daemons_own_user(nothing_left: None) -> None:
    reading, writing = os.pipe()
    assert visitor_of(reading) == own_visitor() == Visitor(os.geteuid(), os.getegid(), None, tuple(os.getgroups()))
    os.close(reading)
    os.close(writing)


@AS_ROOT
def test_behind_an_inherited_socket_stands_who_made_it(nothing_left: None) -> None:
    with being(STRANGER, 4242, [7]):
        ours, theirs = socket.socketpair()
    with ours, theirs:
        assert visitor_of(theirs.fileno()) == Visitor(STRANGER, 4242, os.getpid(), (7,), command=COMMAND)


def test_behind_a_socket_of_another_kind_stands_the_daemons_own_user(nothing_left: None) -> None:
    with socket.socket(socket.AF_INET) as other:
        assert visitor_of(other.fileno()) == own_visitor()


# --- entrances ---


def test_a_path_admits_everyone_whom_its_mode_lets_in() -> None:
    assert entrance("unix:/x") == Entrance(profile="default", profiles=None, uids=None, gids=None)


def test_an_abstract_socket_admits_its_own_user_and_root() -> None:
    assert entrance("unix:@x", is_abstract=True).uids == frozenset((os.geteuid(), 0))


@pytest.mark.parametrize("query", ["uid=any", "gid=any", "uid=any&gid=5", "uid=5&gid=any"])
def test_any_means_everyone(query: str) -> None:
    made = entrance(f"unix:@x?{query}", is_abstract=True)
    assert (made.uids, made.gids) == (None, None)


def test_users_and_groups_are_found_by_name_and_number() -> None:
    made = entrance("unix:@x?uid=root,1000&gid=0,7", is_abstract=True)
    assert (made.uids, made.gids) == (frozenset((0, 1000)), frozenset((0, 7)))


def test_who_names_groups_admits_no_user_besides() -> None:
    made = entrance("unix:@x?gid=7", is_abstract=True)
    assert (made.uids, made.gids) == (None, frozenset((7,)))
    assert not made.admits(Visitor(0, 0))
    assert made.admits(Visitor(STRANGER, 1, None, (3, 7)))


@pytest.mark.parametrize(
    ("query", "profile", "profiles"),
    [
        ("profile=a", "a", {"a"}),
        ("profiles=a,b", "default", {"a", "b"}),
        ("profile=a&profiles=b", "a", {"a", "b"}),
    ],
)
def test_a_place_opens_the_profiles_that_it_names(query: str, profile: str, profiles: set[str]) -> None:
    made = entrance(f"stdio?{query}")
    assert (made.profile, made.profiles) == (profile, frozenset(profiles))


def test_an_unknown_user_or_group_is_an_error() -> None:
    with pytest.raises(AccountError, match="no such user: nobody-at-all"):
        find_uid("nobody-at-all")
    with pytest.raises(AccountError, match="no such group: nobody-at-all"):
        find_gid("nobody-at-all")


def test_a_number_needs_no_name() -> None:
    assert (find_uid("54321"), find_gid("54321")) == (54321, 54321)
