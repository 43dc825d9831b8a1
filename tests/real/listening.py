"""Servers that listen, as children of the test: they say their ports, and end when their input does."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tests.daemon.spawned import PATIENCE_S, ROOT, until


class Ports(NamedTuple):
    """Where the misbehaving server is, and the other origin that it leads to."""

    own: int
    other: int

    def url(self, path: str = "/mcp") -> str:
        """The server at `path`."""
        return f"http://127.0.0.1:{self.own}{path}"


@contextmanager
def misbehaving() -> Iterator[Ports]:
    """The misbehaving HTTP server."""
    with says_ports([sys.executable, "-m", "tests.servers.misbehaving_http"]) as ports:
        yield Ports(*ports)


@contextmanager
def says_ports(words: Sequence[str]) -> Iterator[list[int]]:
    """A program that prints its ports once it listens; it ends with its input."""
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield [int(port) for port in process.stdout.readline().split()]
        finally:
            process.stdin.close()
            stop(process)


@contextmanager
def takes_port(words: Sequence[str], port: int = 0) -> Iterator[int]:
    """A program that listens on the port that the variable `PORT` names, a free one for 0; it ends at SIGTERM."""
    port = port or free_port()
    environment = os.environ | {"PORT": str(port)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: process.poll() is not None or is_taken(port))
            assert process.poll() is None, f"{words} ended"
            yield port
        finally:
            process.terminate()
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end, and make one where none comes."""
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def free_port() -> int:
    """A port that nobody listens on; somebody might in between, but nobody on this machine does so at random."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_taken(port: int) -> bool:
    """Whether somebody accepts there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
