from pathlib import Path

from tests.conftest import children
from tests.daemon.spawned import daemon_on, words_of


def libraries(pid: int) -> set[str]:
    """The shared libraries, extension modules among them, that a process has loaded."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {name for name in (line.split()[-1] for line in maps) if ".so" in name}


def test_a_forked_daemon_imports_nothing_before_it_is_ready(tmp_path: Path) -> None:
    """An extension module stands for all others: each daemon would take a fifth of a second to import them."""
    with daemon_on(tmp_path, "[tools.echo]\ntype = 'json -> json'\ninline = 'id'\n") as daemon:
        [preloaded] = [pid for pid in children() - {daemon.process.pid} if b"tests.daemon.preloaded" in words_of(pid)]
        assert libraries(daemon.process.pid) == libraries(preloaded)
