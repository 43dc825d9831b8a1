import subprocess
import sys

import pytest

from tests.daemon.spawned import PATIENCE_S
from tooldispatchd import client
from tooldispatchd.client import Call, ClientError, FaultError, Verdict, blocking, connect, inherit


def test_what_the_examples_import_is_there() -> None:
    assert connect is blocking.connect
    assert callable(inherit)
    assert Call("echo", 1).name == "echo"
    assert Verdict(allow=True).allow
    assert not issubclass(FaultError, ClientError)


@pytest.mark.parametrize("name", client.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(client, name).__name__ == name


def test_a_name_that_there_is_not_is_an_error_as_of_any_module() -> None:
    with pytest.raises(ImportError, match="conect"):
        exec("from tooldispatchd.client import conect")


def test_the_package_imports_neither_an_event_loop_nor_what_decodes() -> None:
    probe = "import sys, tooldispatchd.client; print({'trio', 'msgspec'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.stdout == b"set()\n"


def test_the_blocking_client_imports_no_event_loop() -> None:
    probe = "import sys; from tooldispatchd.client import connect; print({'trio', 'asyncio'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=PATIENCE_S, check=False)
    assert ended.stdout == b"set()\n"
