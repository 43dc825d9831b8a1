"""`tooldispatchd mcp`: the MCP server on stdin and stdout that a client starts, and its entry in the client's file."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

from tooldispatchd.cli.dialogue import TIMEOUT_S, add_daemon_arguments, read_token

if TYPE_CHECKING:
    # A server that is to answer within a tenth of a second writes no files.
    from tooldispatchd.mcpface.install import Installation

# As in mcpface/install.py, which is slow to import.
CLIENTS: Final = (
    *("claude-code", "claude-desktop", "cline", "codex", "continue", "copilot", "cursor"),
    *("gemini", "goose", "opencode", "vscode", "windsurf", "zed"),
)
EPILOG: Final = """\
The daemon: --socket or $TOOLDISPATCHD_SOCKET names a running one, --config starts a private one for this client.
Without them: the one at $RUNTIME_DIRECTORY/dispatch.sock, $XDG_RUNTIME_DIR/tooldispatchd/dispatch.sock or
/run/tooldispatchd/dispatch.sock, the first whose directory is told; where none listens, a private one with
$XDG_CONFIG_HOME/tooldispatchd/config.toml or /etc/tooldispatchd/config.toml, never with a file of the directory that
the client has open. A private daemon ends with its client.

At stdin's end what is open is answered, and then it ends, at the latest when the daemon is silent for --timeout; a
client that reads no more, or SIGTERM, cancels. Only MCP is written to stdout, all else to stderr.

--install writes the entry that has a client start this, with the options that are given beside it, into the
configuration of that client for all projects, or with --project for the one in the working directory. It shows the
change and asks before it writes. Comments in the file stay. docs/clients/files.md has the files of each client.

examples:
  tooldispatchd mcp --config tooldispatchd.toml --profile coder
  tooldispatchd mcp --install claude-code
  tooldispatchd mcp --install vscode --project --socket /run/tooldispatchd/dispatch.sock --yes
  tooldispatchd mcp --install zed --print

exit codes: 0 the client has left, or the entry is there; 1 the entry was not written; 2 usage; 3 there is no daemon, it
has ended or does not answer; 128 + n: signal n, 141 where the client reads no more
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Serve one MCP client on stdin and stdout, with the tools of a profile."
    parser.epilog = EPILOG
    add_daemon_arguments(
        parser,
        "give up on a socket that nobody accepts on for so long, and once the client has left on a daemon that is "
        f"silent for so long ({TIMEOUT_S:g})",
    )
    writes = parser.add_argument_group("instead of serving")
    writes.add_argument("--install", choices=CLIENTS, metavar="CLIENT", help=f"add the entry to {', '.join(CLIENTS)}")
    writes.add_argument("--project", action="store_true", help="in the working directory, not for all projects")
    writes.add_argument("--name", default="tooldispatchd", help="the name of the entry (tooldispatchd)")
    writes.add_argument("--print", action="store_true", help="only show what would change")
    writes.add_argument("--yes", action="store_true", help="write without asking")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client leaves, or write the entry; the exit code."""
    if arguments.install is not None:
        return _install(arguments)
    try:
        token = read_token(arguments.token_file)
    except (OSError, ValueError) as error:
        return _fail(f"cannot read the token from {arguments.token_file}: {getattr(error, 'strerror', None) or error}")

    import time

    from tooldispatchd.config.standing import standing_configurations
    from tooldispatchd.mcpface.face import Face
    from tooldispatchd.mcpface.relay import relay_stdio

    if sys.stdin is not None and sys.stdin.isatty():
        _fail("an MCP client is awaited on stdin; --install CLIENT has one start this")
    now = time.monotonic()
    face = Face(profile=arguments.profile, token=token, now=now, epoch=time.time() - now)
    try:
        return relay_stdio(
            face,
            os.environ,
            address=arguments.socket,
            config=arguments.config,
            standing=standing_configurations(os.environ),
            timeout_s=arguments.timeout,
        )
    except OSError as error:
        return _fail(f"cannot use stdin and stdout: {error.strerror or error}")


def _install(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from tooldispatchd.mcpface.install import InstallError, command, config_path, plan, write

    for file in (arguments.config, arguments.token_file):
        # A client would only say that it failed.
        if file is not None and not os.path.exists(file):  # noqa: PTH110  # what is said stays as it was given
            return _fail(f"there is no file {file}")
    try:
        path = config_path(arguments.install, os.environ, project=Path.cwd() if arguments.project else None)
        change = plan(arguments.install, path, arguments.name, command(_words(arguments), sys.argv[0]))
        if not change.is_needed:
            print(f"{path} has this entry already")
            return 0
        print(change.diff(), end="")
        if arguments.print:
            return 0
        if not arguments.yes and not _agrees(change):
            return _fail("nothing was written", code=1)
        write(change)
    except InstallError as error:
        return _fail(str(error), code=1)
    print(f"wrote {path}; restart the client, or have it read its servers anew")
    return 0


def _words(arguments: argparse.Namespace) -> list[str]:
    """The words behind `tooldispatchd`: the options that were given, for a client that starts anywhere."""
    words = ["mcp"]
    if arguments.socket is not None:
        words += ["--socket", _absolute(arguments.socket)]
    if arguments.config is not None:
        words += ["--config", os.path.abspath(arguments.config)]  # noqa: PTH100  # a link in it may be meant
    if arguments.profile is not None:
        words += ["--profile", arguments.profile]
    if arguments.token_file is not None:
        words += ["--token-file", os.path.abspath(arguments.token_file)]  # noqa: PTH100  # as above
    return words


def _absolute(address: str) -> str:
    """The address of a socket; an abstract one has no path."""
    path = address.removeprefix("unix:")
    return path if path.startswith("@") else os.path.abspath(path)  # noqa: PTH100  # a link in it may be meant


def _agrees(change: "Installation") -> bool:
    if not sys.stdin.isatty():
        _fail("nobody can be asked: stdin is no terminal; --yes writes without asking")
        return False
    return input(f"write this to {change.path}? [y/N] ").strip().lower() in {"y", "yes"}


def _fail(why: str, *, code: int = 2) -> int:
    print(f"tooldispatchd: {why}", file=sys.stderr)
    return code
