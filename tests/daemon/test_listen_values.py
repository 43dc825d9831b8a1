import pytest

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.daemon.listen_values import ALLOWED, check_listen


@pytest.mark.parametrize("value", ["stdio", "unix:/run/x.sock", "unix:x", "unix:a:b"])
def test_a_place_that_can_be_listened_on_has_no_problem(value: str) -> None:
    assert check_listen(value) is None


@pytest.mark.parametrize("value", ["", "STDIO", "stdio:", "unix", "unix:", "tcp:80", "UNIX:/x"])
def test_anything_else_is_a_problem(value: str) -> None:
    assert check_listen(value, ("daemon", "listen", 0)) == Problem(
        ("daemon", "listen", 0), "no such way to listen", value=value, allowed=ALLOWED
    )


def test_a_bare_path_is_a_socket_that_was_meant() -> None:
    problem = check_listen("/run/x")
    assert problem is not None
    assert problem.nearest == "unix:/run/x"


@pytest.mark.parametrize("value", ["systemd", "fd:3,4", "unix:@name", "unix:/run/x?mode=0600"])
def test_ways_that_come_later_are_not_yet_available(value: str) -> None:
    problem = check_listen(value)
    assert problem is not None
    assert problem.why.endswith("not yet available")


def test_a_path_is_counted_in_bytes() -> None:
    assert check_listen("unix:/" + "x" * 102) is None
    assert check_listen("unix:/" + "é" * 52) is not None
