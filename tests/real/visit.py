"""One agent's visit: a daemon as a user starts it, an agent on its socket, and nothing left when both have gone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.daemon.spawned import PATIENCE_S, Daemon, carriers, daemon_on, until
from tooldispatchd.client.blocking import Client, connect
from tooldispatchd.client.errors import FaultError
from tooldispatchd.wire.messages import Ready


class Visit:
    """An agent whose session is open."""

    def __init__(self, daemon: Daemon, client: Client, ready: Ready) -> None:
        self.daemon = daemon
        self.client = client
        self.ready = ready

    @property
    def tools(self) -> set[str]:
        """The names of the servers' tools; those for jobs are the daemon's own."""
        return {tool.name for tool in self.ready.tools if ":" in tool.name}

    def call(self, name: str, /, **arguments: object) -> str:
        """The content of an answer that is no error."""
        answer = self.client.call(name, arguments)
        assert not answer.is_error, answer.content
        return answer.content

    def error(self, name: str, /, **arguments: object) -> str:
        """The content of an answer with which the tool itself says that it failed."""
        answer = self.client.call(name, arguments)
        assert answer.is_error, answer.content
        return answer.content

    def fault(self, name: str, /, deadline_ms: float | None = None, **arguments: object) -> FaultError:
        """The fault that the daemon answers a call with."""
        try:
            answer = self.client.call(name, arguments, deadline_ms=deadline_ms)
        except FaultError as fault:
            return fault
        raise AssertionError(f"{name} was answered with {answer.content[:200]!r}")


@contextmanager
def visit(directory: Path, config: str) -> Iterator[Visit]:
    """An agent of the default profile; afterwards no process is left, first of its session, then of the daemon."""
    with daemon_on(directory, config) as daemon:
        with connect(str(daemon.path), timeout_s=PATIENCE_S) as client:
            yield Visit(daemon, client, client.hello(updates=True))
            run_ids = daemon.run_ids()
            client.bye()
            # The guardian is the one child that stays.
            assert len(daemon.family()) <= 1, "a server outlived its agent"
        daemon.process.terminate()
        assert daemon.process.wait(PATIENCE_S) == 0, daemon.log.read_text()
        until(lambda: not any(carriers(run_id) for run_id in run_ids))
    assert daemon.logged("incident") == 0, daemon.log.read_text()
