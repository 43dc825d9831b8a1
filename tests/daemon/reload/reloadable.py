"""A daemon whose configuration and code a test writes, and has it read anew."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.daemon.forking import fork_daemon
from tests.daemon.spawned import Daemon, ready, until

ECHO: Final = '[tools.echo]\ntype = "string -> string"\ninline = "id"\n'
WHO: Final = '[tools.who]\npython = "whoami:who"\nresident = true\n'


class Reloadable(Daemon):
    """A daemon on a configuration that a test writes."""

    def write(self, text: str, *places: Path | str) -> None:
        listen = [f"unix:{self.path}", *(f"unix:{place}" for place in places)]
        (self.path.parent / "config.toml").write_text(f"{text}\n[daemon]\nlisten = {json.dumps(listen)}\n")

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def reload(self, text: str, *places: Path | str) -> dict[str, Any]:
        """Have it read this; what the log says of it."""
        self.write(text, *places)
        return self.hang_up()

    def hang_up(self) -> dict[str, Any]:
        told = {"configuration reloaded", "configuration not reloaded"}
        before = sum(self.logged(event) for event in told)
        self.process.send_signal(signal.SIGHUP)
        until(lambda: sum(self.logged(event) for event in told) > before)
        return [line for line in self.lines() if line["event"] in told][-1]


@contextmanager
def serving(directory: Path, config: str | None = None) -> Iterator[Reloadable]:
    path, log = directory / "dispatch.sock", directory / "log"
    words = ["serve", "--config", str(directory / "config.toml")]
    made = Reloadable.__new__(Reloadable)
    made.path, made.log = path, log
    if config is None:
        made.write(ECHO)
    else:
        (directory / "config.toml").write_text(config)
    with log.open("ab") as stderr, fork_daemon(words, stderr.fileno()) as process:
        made.process = process
        with ready(made):
            yield made
