"""`tooldispatchd serve`: run the daemon."""

import argparse
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tooldispatchd.daemon.start import DaemonStart

EPILOG = """\
places:
  unix:PATH       a Unix socket; a dead daemon's is replaced, a live one's is an error
                    ?mode=0660  ?owner=USER[:GROUP]
  unix:@NAME      an abstract socket; admits the daemon's own user and root, unless uid or gid say whom
  systemd         the sockets of the unit; one that is named for a profile opens that profile alone
  fd:READ,WRITE   one channel on inherited descriptors
  stdio           one channel on stdin and stdout
  http://ADDRESS:PORT/PATH   MCP clients, Streamable HTTP   ?hosts=A,B  ?origins=A,B  ?auth=NAME
  https://ADDRESS:PORT/PATH  the same with TLS              ?cert=FILE  ?key=FILE
  http+unix:PATH             the same on a Unix socket      ?mode=0660  ?owner=USER[:GROUP]

options, after a "?", with "&" between them; in a path %3F is a question mark and %25 a percent sign:
  profile=NAME    the profile of who names none, and the only one that may be opened there
  profiles=A,B    those that may be opened there
  uid=A,B gid=A,B users, and groups whose members, may connect: names, numbers, or any

The end of the last channel of stdio and fd: is the daemon's, where it listens nowhere else.

Without --config: ./tooldispatchd.toml, $XDG_CONFIG_HOME/tooldispatchd/config.toml, /etc/tooldispatchd/config.toml.
Without --listen and daemon.listen: $TOOLDISPATCHD_SOCKET, $RUNTIME_DIRECTORY/dispatch.sock,
$XDG_RUNTIME_DIR/tooldispatchd/dispatch.sock, /run/tooldispatchd/dispatch.sock.

--take-over: where a daemon runs on the first Unix socket, the new one gets its sockets when all else is ready, and no
connection is refused. The old one serves the channels that it has for daemon.grace_s, then it drains. Where profiles
have admin = true, name one of them; its token is $TOOLDISPATCHD_TOKEN.

SIGTERM or SIGINT: running calls have daemon.grace_s, then exit 0. A second signal ends at once, exit 1.
SIGHUP: the configuration is read again; new sessions get it. With nohup it is ignored, and when the terminal is gone
that the daemon was started from it is as SIGTERM. SIGQUIT is as SIGTERM; SIGUSR1, SIGALRM and their like are ignored.
exit codes: 0 drained; 1 forced; 2 usage or configuration; 3 a place cannot be listened on, or too few descriptors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration (TOML)")
    parser.add_argument(
        "--listen",
        action="append",
        metavar="WHERE",
        help="a place to listen on, instead of the file's; may be repeated",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="for whoever writes tools: take each change of the configuration and of functions' code at once",
    )
    parser.add_argument(
        "--take-over",
        nargs="?",
        const="",
        metavar="PROFILE",
        help="take the places of the daemon that runs, and have it end",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="least level of what is logged",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped; the exit code."""
    try:
        _prepare_process()
    except OSError as error:
        print(f"tooldispatchd: cannot serve: {error.strerror}", file=sys.stderr)
        return 3

    # Imported here: the other commands need none of it.
    import trio

    from tooldispatchd.daemon.equipment import EquipmentError
    from tooldispatchd.daemon.places.listeners import ListenError
    from tooldispatchd.daemon.start import serve

    start = _start(arguments)
    if isinstance(start, int):
        return start
    try:
        return trio.run(serve, start)
    except* (ListenError, EquipmentError) as group:
        for failed in leaves(group):
            print(f"tooldispatchd: {failed}{_elsewhere(arguments, failed)}", file=sys.stderr)
    return 3


def _elsewhere(arguments: argparse.Namespace, failed: BaseException) -> str:
    """Name a place that the user may listen on, where the environment's own cannot be."""
    from tooldispatchd.client.reach import find_socket

    is_standing = not arguments.listen and find_socket(os.environ) in str(failed)
    return "; --listen unix:./dispatch.sock works here" if is_standing and os.access(".", os.W_OK) else ""


def _start(arguments: argparse.Namespace) -> "DaemonStart | int":
    """What the daemon is started with; the exit code where it cannot be, for a reason that was told."""
    from tooldispatchd.catalog.masker import Masker
    from tooldispatchd.client.reach import find_socket
    from tooldispatchd.config.configuration import ConfigError, find_configuration
    from tooldispatchd.config.listen_values import quote_path
    from tooldispatchd.daemon.logs import open_log
    from tooldispatchd.daemon.places.doors import check_descriptors
    from tooldispatchd.daemon.places.inheritance import divide
    from tooldispatchd.daemon.places.listeners import ListenError
    from tooldispatchd.daemon.reload.generations import CONFIGURATION
    from tooldispatchd.daemon.reload.source import ConfigurationSource
    from tooldispatchd.daemon.start import DaemonStart
    from tooldispatchd.daemon.systemd import Notifier, listen_fds, take_watchdog

    # Modules stay, and they leave little garbage: when the daemon is ready only what comes now is looked through.
    gc.freeze()
    try:
        path = arguments.config or find_configuration(os.environ)
        standing = f"unix:{quote_path(find_socket(os.environ))}"
        listen = arguments.listen or ()
        source = ConfigurationSource(path, listen=listen, standing=standing, for_author=arguments.watch)
        reading = source.read()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        left, handed = divide(listen_fds(os.environ))
        check_descriptors(reading.places, handed)
    except ListenError as error:
        print(f"tooldispatchd: {error}", file=sys.stderr)
        return 3
    watchdog_s, notifier = take_watchdog(os.environ), Notifier(os.environ)
    masker = Masker()
    masker.learn(CONFIGURATION, reading.catalog.masker.secrets)
    log = open_log(arguments.log_level, masker)
    for warning in reading.warnings:
        log.warning("configuration", detail=warning)
    if handed and not any(place.kind == "systemd" for place in reading.places):
        log.warning("sockets not used", names=[name for _, name in handed], detail='no place to listen is "systemd"')
    return DaemonStart(source, reading, handed, notifier, watchdog_s, log, masker, left, arguments.take_over)


def _prepare_process() -> None:
    """Standard descriptors, limits and ignored signals, before anything is opened or signalled. Raises OSError."""
    import signal

    from tooldispatchd.children.descriptors import occupy_standard, raise_limit, require_free
    from tooldispatchd.children.oomscore import shield_self
    from tooldispatchd.forked.signals import IGNORED

    shield_self()
    occupy_standard()
    raise_limit()
    require_free()
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # Until the daemon is ready: what its start makes stays, and to look through that for garbage takes a tenth of it.
    gc.disable()


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group, of whatever depth."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]
