from itertools import permutations

import pytest

from tooldispatchd.config.server_names import ServerNames, is_binding


def called(*files: tuple[str, ...], **tables: object) -> dict[str, str]:
    names = ServerNames(tables)
    for file in files:
        names.add(file)
    return {name: names.binding_of(name) for file in files for name in file}


@pytest.mark.parametrize(
    ("name", "binding"),
    [
        ("GitHub.v2_x-1", "GitHub.v2_x-1"),
        ("My Server (new)", "My-Server-new"),
        ("@scope/name", "scope-name"),
        ("x" * 40, "x" * 32),
        ("我的服务器", "server-h4hrmszq"),
        ("", "server-4oymiquy"),
    ],
)
def test_a_name_is_its_own_or_the_nearest_that_a_binding_may_have(name: str, binding: str) -> None:
    assert called((name,)) == {name: binding}


def test_no_two_servers_are_called_the_same_in_whatever_order_they_come() -> None:
    names = ("a b", "a/b", "a-b", "天气", "文件", "x" * 33, "x" * 34, "A b")
    first = called(names)
    assert len(set(first.values())) == len(names)
    assert all(map(is_binding, first.values()))
    assert (first["a-b"], first["A b"]) == ("a-b", "A-b")
    for others in list(permutations(names, 4))[::97]:
        rest = tuple(name for name in names if name not in others)
        assert called(others, rest) == first


def test_a_table_of_the_configuration_keeps_its_name_unless_it_completes_the_server() -> None:
    assert called(("a b",), **{"a-b": {"command": "x"}})["a b"].startswith("a-b-")
    assert called(("a b",), **{"a-b": {"shared": True}}) == {"a b": "a-b"}
