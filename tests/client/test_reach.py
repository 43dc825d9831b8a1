import pytest

from tooldispatchd.client.reach import SYSTEM_SOCKET, find_socket, given_channel, socket_name


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"TOOLDISPATCHD_SOCKET": "unix:/a/b", "RUNTIME_DIRECTORY": "/r"}, "/a/b"),
        ({"TOOLDISPATCHD_SOCKET": "@name"}, "@name"),
        ({"RUNTIME_DIRECTORY": "/r:/s", "XDG_RUNTIME_DIR": "/x"}, "/r/dispatch.sock"),
        ({"XDG_RUNTIME_DIR": "/x"}, "/x/tooldispatchd/dispatch.sock"),
        ({"TOOLDISPATCHD_SOCKET": ""}, SYSTEM_SOCKET),
    ],
)
def test_the_environment_says_where_the_socket_is(environ: dict[str, str], path: str) -> None:
    assert find_socket(environ) == path


@pytest.mark.parametrize(
    ("address", "name"), [("/a/b", "/a/b"), ("unix:/a", "/a"), ("@n", "\0n"), ("unix:@n", "\0n"), ("a@b", "a@b")]
)
def test_an_abstract_name_has_a_nul_before_it(address: str, name: str) -> None:
    assert socket_name(address) == name


@pytest.mark.parametrize(
    ("said", "channel"), [("4,5", (5, 4)), ("stdio", None), ("", None), ("4", None), ("a,b", None)]
)
def test_a_channel_of_its_own_is_where_it_was_told(said: str, channel: tuple[int, int] | None) -> None:
    assert given_channel({"TOOLDISPATCHD_CHANNEL": said}) == channel
    assert given_channel({}) is None
