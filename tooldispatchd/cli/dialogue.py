"""How a client command reaches a daemon: a running one through its socket, or a private one for as long as it lasts."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tooldispatchd.cli.shown_token import read_token
from tooldispatchd.client.address import find_socket
from tooldispatchd.client.blocking import Client, connect, inherit
from tooldispatchd.client.errors import ClientError, FaultError

SOCKETS: Final = """\
Without --socket and --config: $TOOLDISPATCHD_SOCKET, $RUNTIME_DIRECTORY/dispatch.sock,
$XDG_RUNTIME_DIR/tooldispatchd/dispatch.sock, /run/tooldispatchd/dispatch.sock.
"""
# A private daemon whose input has ended drains and stops its servers, each of which has a ladder of 4 s.
STOP_S: Final = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which daemon, and which profile."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", help="the socket of a running daemon")
    where.add_argument("--config", type=Path, metavar="FILE", help="start a private daemon with this configuration")
    parser.add_argument("--profile", metavar="NAME", help="the profile to open the session under (default)")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="its token (else $TOOLDISPATCHD_TOKEN)")


def talk(arguments: argparse.Namespace, dialogue: Callable[[Client], int]) -> int:
    """Run `dialogue` on a channel; its exit code, or the one that fits what went wrong, told on stderr."""
    try:
        arguments.token = read_token(arguments.token_file)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        print(f"tooldispatchd: cannot read the token from {arguments.token_file}: {why}", file=sys.stderr)
        return 2
    try:
        with _channel(arguments) as client:
            return dialogue(client)
    except FaultError as fault:
        print(f"tooldispatchd: {fault}", file=sys.stderr)
        return {"not_authenticated": 3, "unknown_profile": 2}.get(fault.code, 1)
    except ClientError as error:
        print(f"tooldispatchd: {error}", file=sys.stderr)
        return 3
    except _DaemonEndedError as ended:
        return ended.code


class _DaemonEndedError(Exception):
    """The private daemon could not start and has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the private daemon ended with {code}")
        self.code = code


@contextmanager
def _channel(arguments: argparse.Namespace) -> Iterator[Client]:
    if arguments.config is None:
        with connect(arguments.socket or find_socket(os.environ)) as client:
            yield client
        return
    words = [sys.executable, "-P", "-m", "tooldispatchd", "serve", "--listen", "stdio", "--log-level", "error"]
    daemon = subprocess.Popen(  # noqa: S603  # this interpreter and this package; the path is one argument
        [*words, "--config", str(arguments.config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        with inherit(*_ends(daemon)) as client:
            yield client
    except ClientError:
        code = _end(daemon)
        if code > 0:
            raise _DaemonEndedError(code) from None
        raise
    finally:
        _end(daemon)


def _ends(daemon: subprocess.Popen[bytes]) -> tuple[int, int]:
    """The two pipes of a private daemon, which are the client's from here on."""
    assert daemon.stdout is not None
    assert daemon.stdin is not None
    with daemon.stdout as answers, daemon.stdin as requests:
        return os.dup(answers.fileno()), os.dup(requests.fileno())


def _end(daemon: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a private daemon whose input has ended; its exit code."""
    try:
        return daemon.wait(STOP_S)
    except subprocess.TimeoutExpired:
        daemon.kill()  # its guardian ends what it started
        return daemon.wait()
