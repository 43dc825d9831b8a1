"""`tooldispatchd serve`: run the daemon."""

import argparse
import os
import sys
from pathlib import Path

EPILOG = """\
places:
  unix:PATH   a Unix socket, mode 0660; a dead daemon's is replaced, a live one's is an error
  stdio       one channel on stdin and stdout; the daemon ends at its end

Without --config: ./tooldispatchd.toml, $XDG_CONFIG_HOME/tooldispatchd/config.toml, /etc/tooldispatchd/config.toml.
Without --listen and daemon.listen: $TOOLDISPATCHD_SOCKET, $RUNTIME_DIRECTORY/dispatch.sock,
$XDG_RUNTIME_DIR/tooldispatchd/dispatch.sock, /run/tooldispatchd/dispatch.sock.

SIGTERM or SIGINT: running calls have daemon.grace_s, then exit 0. A second signal ends at once, exit 1.
exit codes: 0 drained; 1 forced; 2 usage or configuration; 3 a place cannot be listened on
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
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="least level of what is logged",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped; the exit code."""
    # Imported here: the other commands need none of it.
    import trio

    from tooldispatchd.client.address import find_socket
    from tooldispatchd.daemon.configuration import ConfigError, find_configuration, load_catalog
    from tooldispatchd.daemon.daemon import serve
    from tooldispatchd.daemon.listen_values import check_listen
    from tooldispatchd.daemon.listeners import ListenError, check_stdio
    from tooldispatchd.daemon.logs import open_log

    try:
        catalog = load_catalog(arguments.config or find_configuration(os.environ), os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    places = arguments.listen or list(catalog.config.daemon.listen) or [f"unix:{find_socket(os.environ)}"]
    problems = [problem for problem in map(check_listen, places) if problem is not None]
    if problems:
        print(
            *(f"tooldispatchd: --listen {problem.value}: {problem.why}" for problem in problems),
            sep="\n",
            file=sys.stderr,
        )
        return 2
    try:
        if "stdio" in places:
            check_stdio()
    except ListenError as error:
        print(f"tooldispatchd: {error}", file=sys.stderr)
        return 3
    log = open_log(arguments.log_level)
    for warning in catalog.warnings:
        log.warning("configuration", detail=warning)
    logs_calls = arguments.log_level == "debug"

    async def main() -> int:
        return await serve(catalog, places, log=log, logs_calls=logs_calls)

    try:
        return trio.run(main)
    except* ListenError as group:
        for failed in leaves(group):
            print(f"tooldispatchd: {failed}", file=sys.stderr)
    return 3


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group, of whatever depth."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]
