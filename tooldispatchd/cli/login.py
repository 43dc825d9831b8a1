"""`tooldispatchd login`: a person's consent to what the daemon does at a server, once."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tooldispatchd.catalog.servers import Binding

EPILOG = """\
The server is one of the configuration with auth = "oauth". The browser comes back to a port of 127.0.0.1: where it
runs on another machine, set oauth.redirect_port and forward that port (ssh -L PORT:127.0.0.1:PORT).

An authorization server on another host than the server's is asked about at the terminal, and a yes is kept with the
tokens; without a terminal it must be listed in the table's `hosts`. The client that was registered is kept too, and
the port that it is sent back to, until --forget.

Tokens are kept in $STATE_DIRECTORY/oauth, else $XDG_STATE_HOME/tooldispatchd/oauth, else
~/.local/state/tooldispatchd/oauth, for the user who runs this. For a service, log in as its user; a daemon that runs
already takes them up when it next needs them:
  sudo -u tooldispatchd env STATE_DIRECTORY=/var/lib/tooldispatchd tooldispatchd login SERVER --no-browser
With the credential tooldispatchd-token-key (systemd, LoadCredential=) they are encrypted from their next change on;
without it a login cannot replace encrypted ones: --forget them first.

exit codes: 0 done; 1 it failed, or was refused; 2 usage or configuration; 130 given up (Ctrl-C)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("server", metavar="SERVER", help="the server, by its name in the configuration")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration; by default the one of serve")
    parser.add_argument("--no-browser", action="store_true", help="only print the address, open no browser")
    parser.add_argument("--forget", action="store_true", help="log out: remove the tokens instead")


def run(arguments: argparse.Namespace) -> int:
    """Log in, or out; the exit code."""
    from tooldispatchd.config.configuration import ConfigError, find_configuration, load_catalog

    try:
        catalog = load_catalog(arguments.config or find_configuration(os.environ), os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    name = arguments.server
    why = _why_not(name, catalog.servers)
    if why is not None:
        _say(why)
        return 2
    code = 1
    try:
        code = _act(catalog.servers[name], arguments)
    # trio raises it in a group, once every task has ended; the question at the terminal raises it alone.
    except* KeyboardInterrupt:
        _say(f"gave up the login at {name}")
        code = 130
    return code


def _why_not(name: str, servers: Mapping[str, Binding]) -> str | None:
    """Why there is no login at the server `name`; None where there is one."""
    from tooldispatchd.catalog.names import nearest

    if name not in servers:
        close = nearest(name, servers)
        return f"no server {name} in the configuration" + (f"; did you mean {close}?" if close else "")
    spec = servers[name].spec
    if spec.auth != "oauth":
        return f'server {name} needs no login: it has no auth = "oauth"'
    if spec.oauth is not None and spec.oauth.grant != "authorization_code":
        return f"server {name} needs no login: with oauth.grant = {spec.oauth.grant} the daemon gets tokens by itself"
    return None


def _act(binding: Binding, arguments: argparse.Namespace) -> int:
    """Log in or out, and tell how it ended; the exit code."""
    import trio

    from tooldispatchd.agent.tools.accounts import LoginError, log_out

    name = binding.name
    try:
        if arguments.forget:
            there = trio.run(log_out, binding, os.environ, restrict_keyboard_interrupt_to_checkpoints=True)
            print(f"forgot the tokens of {name}" if there else f"there were no tokens of {name}")
        else:
            path = _log_in(binding, _show if arguments.no_browser else _open)
            print(f"logged in at {name}; the tokens are in {path}")
    except LoginError as error:
        _say(f"cannot log {'out of' if arguments.forget else 'in at'} {name}: {error.why}")
        if error.lines:
            shown = "\n".join(f"    {line}" for line in error.lines)
            print(f"If you trust it, put into the table of {name}:\n\n{shown}\n", file=sys.stderr)
        return 1
    return 0


def _log_in(binding: Binding, show: Callable[[str], None]) -> Path:
    """Log in, and ask at the terminal whether to trust each new origin; the file with the tokens."""
    import trio

    from tooldispatchd.agent.tools.accounts import LoginError, log_in

    trusted: tuple[str, ...] = ()
    while True:
        try:
            # Otherwise Python complains of a task that an interrupt kept from starting.
            return trio.run(log_in, binding, os.environ, show, trusted, restrict_keyboard_interrupt_to_checkpoints=True)
        except LoginError as error:
            if error.untrusted is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            print(f"{error.why}. Trust it? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
                raise
            trusted += (error.untrusted,)


def _show(url: str) -> None:
    print(f"Open this page to log in:\n\n    {url}\n", flush=True)


def _open(url: str) -> None:
    """Show the address, and open it where there is a screen: a browser of text would take the terminal away."""
    _show(url)
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        # Some browsers block until they end: another process waits for them.
        # -P: a webbrowser.py of the working directory is not Python's.
        words = [sys.executable, "-P", "-m", "webbrowser", url]
        browser = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603  # no shell
        _opened.append(browser)


# Kept until this process ends: the interpreter warns of a child that is dropped without a wait.
_opened: list[subprocess.Popen[bytes]] = []


def _say(text: str) -> None:
    print(f"tooldispatchd: {text}", file=sys.stderr)
