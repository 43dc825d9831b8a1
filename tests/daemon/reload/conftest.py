"""The daemon that the tests of a module reload in turn."""

from collections.abc import Iterator

import pytest

from tests.daemon.reload.reloadable import Reloadable, serving


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloadable]:
    directory = tmp_path_factory.mktemp("reloaded")
    (directory / "whoami.py").write_text("import os\ndef who() -> int:\n    return os.getpid()\n")
    with serving(directory) as reloadable:
        yield reloadable
