"""How an extra is added to an installation, by what its installer wrote down."""

import json

import pytest

from tooldispatchd.installation import _command, needs

GIT = {"url": "https://ann:secret@git.example/x.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "tooldispatchd[oauth]"'),
        ({"url": "file:///a%20b/c", "dir_info": {"editable": True}}, 'pip install -e "/a b/c[oauth]"'),
        ({"url": "file:///a/b", "dir_info": {}}, 'pip install "/a/b[oauth]"'),
        (GIT, 'pip install "tooldispatchd[oauth] @ git+https://git.example/x.git@0a1b"'),
        (
            GIT | {"vcs_info": {"vcs": "git", "commit_id": "0a1b", "requested_revision": "v2"}, "subdirectory": "py"},
            'pip install "tooldispatchd[oauth] @ git+https://git.example/x.git@v2#subdirectory=py"',
        ),
        (
            {"url": "file:///a/tooldispatchd-1-py3-none-any.whl", "archive_info": {}},
            'pip install "tooldispatchd[oauth] @ file:///a/tooldispatchd-1-py3-none-any.whl"',
        ),
    ],
)
def test_an_extra_comes_from_where_the_package_came_from(origin: dict[str, object] | None, command: str) -> None:
    assert _command(None if origin is None else json.dumps(origin), "[oauth]") == command


def test_a_message_names_the_extra_and_this_installation() -> None:
    assert needs("oauth").startswith("needs tooldispatchd[oauth]: pip install ")
    assert needs("oauth").endswith('[oauth]"')
