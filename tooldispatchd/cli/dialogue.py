"""How a client command reaches a daemon: a running one through its socket, or a private one for as long as it lasts.

A command is to answer within a tenth of a second, and half of that goes into importing msgspec. So it speaks with plain
JSON, one line after the other, and not with the client for agents (`client.blocking`).
"""

import argparse
import errno
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Final, TextIO

from tooldispatchd.cli.starting import StartNotice, is_drawable
from tooldispatchd.client.duplex import Duplex
from tooldispatchd.client.reach import CONNECT_S, PING, find_socket, reach
from tooldispatchd.client.silence import STOP_S, Doubt, Silence
from tooldispatchd.wire.lines import LineCutter

if TYPE_CHECKING:
    # Imported where it is used: with a socket nothing is started.
    import subprocess

SOCKETS: Final = """\
Without --socket and --config: $TOOLDISPATCHD_SOCKET, $RUNTIME_DIRECTORY/dispatch.sock,
$XDG_RUNTIME_DIR/tooldispatchd/dispatch.sock, /run/tooldispatchd/dispatch.sock.
"""
# Errors of `connect` where no daemon listens, and what then helps.
NOBODY: Final = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})
NOBODY_THERE: Final = """\
tooldispatchd serve starts one; --socket PATH or $TOOLDISPATCHD_SOCKET says where one is; and with --config FILE call, \
tools and run start one of their own"""
# A daemon says something within milliseconds of being asked; on a machine that swaps, within seconds.
TIMEOUT_S: Final = 30.0
# The largest answer that a daemon with its default limits gives, in JSON.
MAX_LINE_BYTES: Final = 2 * 64 * 1024 * 1024 + 1024
# After a refused `hello` a named agent may say another one, the channel's own agent could not.
AGENT: Final = "command"
# In bytes: more than any answer has.
_WHOLE: Final = 1 << 40
# The fields of a `fault` line that are not the fault's.
_ENVELOPE: Final = frozenset({"__port", "agent", "line", "id"})

Line = dict[str, object]
CHOICES: Final = ("auto", "always", "never")
_RESET: Final = "\033[0m"
# No token is longer; it must fit into a socket's buffer.
MAX_TOKEN_BYTES: Final = 65_536


class Paint:
    """Colours for one stream, where they are wanted: `--color`, NO_COLOR (no-color.org), and TERM that is not dumb."""

    def __init__(self, choice: str, stream: TextIO | None) -> None:
        wanted = is_drawable(stream) and not os.environ.get("NO_COLOR")
        self.is_on: Final = choice == "always" or (choice == "auto" and wanted)

    def strong(self, text: str) -> str:
        return self._coloured("1", text)

    def warning(self, text: str) -> str:
        return self._coloured("33", text)

    def error(self, text: str) -> str:
        return self._coloured("31", text)

    def _coloured(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}{_RESET}" if self.is_on and text else text


def printable(text: str) -> str:
    """A text of an agent or a server, without what would steer the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what all client commands take: which daemon, which profile, and colours."""
    add_daemon_arguments(
        parser, f"give up on a daemon that is silent for so long; how long a tool takes is no matter ({TIMEOUT_S:g})"
    )
    parser.add_argument(
        "--color", choices=CHOICES, default="auto", help="colours: on a terminal, unless NO_COLOR is set"
    )


def add_daemon_arguments(parser: argparse.ArgumentParser, timeout_help: str) -> None:
    """Declare which daemon and which profile a command uses."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", help="the socket of a running daemon")
    where.add_argument("--config", metavar="FILE", help="start a private daemon with this configuration")
    parser.add_argument("--profile", metavar="NAME", help="the profile to open the session under (default)")
    parser.add_argument("--token-file", metavar="FILE", help="its token (else $TOOLDISPATCHD_TOKEN)")
    parser.add_argument("--timeout", type=seconds, default=TIMEOUT_S, metavar="SECONDS", help=timeout_help)


def seconds(text: str) -> float:
    """A time of the command line."""
    with suppress(ValueError):
        if 0 < (value := float(text)) < inf:
            return value
    raise argparse.ArgumentTypeError(f"{text} is no number of seconds over 0")


class CommandRefusedError(Exception):
    """The daemon refused by a `fault` line."""

    def __init__(self, line: Line) -> None:
        super().__init__(f"{line.get('error')}: {line.get('detail')}")
        self.line_id = line.get("id")
        self.fault = {name: value for name, value in line.items() if name not in _ENVELOPE}
        self.code = line.get("error")


class NoDaemonError(Exception):
    """The daemon cannot be reached, is silent, or has gone."""


class SilentDaemonError(NoDaemonError):
    """The daemon is there, and has not answered in time: it may yet."""


class Dialogue:
    """Lines to a daemon and from it, as the agent `AGENT`; a silent daemon is pinged before it counts as gone."""

    def __init__(self, duplex: Duplex, timeout_s: float, *, is_starting: bool) -> None:
        self._duplex = duplex
        self._timeout_s = timeout_s
        self._silence = Silence(timeout_s, is_starting=is_starting)
        self._silence.begin(time.monotonic())
        self._cutter = LineCutter(MAX_LINE_BYTES)
        self._heard: deque[Line] = deque()
        self._answer_by = inf
        self._asked = 0
        self._notice = StartNotice(sys.stderr)
        if is_starting:
            # The answer says that the daemon has started: `ready` may take as long as its servers do.
            self._duplex.write(PING)

    def say(self, port: str, fields: Mapping[str, object], json_input: str | None = None) -> None:
        """Send one line; fields that are None are left out. `json_input` is JSON already, and stays as it is."""
        line = {"__port": port, "agent": AGENT, **{name: said for name, said in fields.items() if said is not None}}
        text = json.dumps(line, separators=(",", ":"))
        if json_input is not None:
            # A line may have no newline; in JSON it is only ever white space.
            text = text[:-1] + ',"input":' + json_input.replace("\n", " ") + "}"
        self._duplex.write(text.encode() + b"\n")

    def administer(self, ask: str, fields: Mapping[str, object]) -> Line:
        """The value of an administrator's line; raises as `hear`. Fields that are None are left out.

        The answer itself must come in time: a daemon that reads its configuration for ever still answers pings.
        """
        self._asked += 1
        line: Line = {"__port": "admin_req", "id": str(self._asked), "ask": ask}
        line |= {name: said for name, said in fields.items() if said is not None}
        self._duplex.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        now = time.monotonic()
        self._silence.begin(now)
        self._answer_by = now + self._timeout_s
        try:
            value = self._answer_to(str(self._asked)).get("value")
        finally:
            self._answer_by = inf
        return value if isinstance(value, dict) else {}

    def _answer_to(self, line_id: str) -> Line:
        """The answer to that line; one that comes too late, to a line before it, is skipped."""
        while True:
            try:
                line = self.until("admin_resp")
            except CommandRefusedError as refused:
                if refused.line_id in {None, line_id}:
                    raise
            else:
                if line.get("id") == line_id:
                    return line

    def follow(self, ask: str, fields: Mapping[str, object]) -> Iterator[tuple[Line, int]]:
        """What an administrator's subscription tells, each with how many values were dropped before; raises as `hear`.

        It has no end of its own.
        """
        self.administer(ask, fields)
        while True:
            note = self.until("admin_note")
            value, dropped = note.get("value"), note.get("dropped")
            yield value if isinstance(value, dict) else {}, dropped if isinstance(dropped, int) else 0

    def hear(self) -> Line:
        """The next line. Raises `CommandRefusedError` for a fault, `NoDaemonError` where none comes."""
        while not self._heard:
            try:
                chunk = self._duplex.exchange(min(self._silence.due, self._answer_by, self._notice.due))
            except TimeoutError:
                now = time.monotonic()
                if now >= self._notice.due:
                    self._notice.draw(now)
                doubt = self._silence.doubt(now)
                if doubt is Doubt.GIVE_UP or now >= self._answer_by:
                    raise SilentDaemonError(self._silence.why) from None
                if doubt is Doubt.PING:
                    self._duplex.write(PING)
                continue
            except OSError as error:
                raise NoDaemonError(f"cannot read from the daemon: {error.strerror}") from error
            if chunk is None:
                why = self._duplex.write_error
                raise NoDaemonError(f"cannot write to the daemon: {why}" if why else "the daemon closed the channel")
            if chunk:
                self._silence.heard(time.monotonic())
                self._heard.extend(_read(line) for line in self._cutter.cut(chunk))
        line = self._heard.popleft()
        if line.get("__port") == "fault":
            raise CommandRefusedError(line)
        return line

    def open(self) -> Line:
        """The `ready` of a `hello` that was said; a terminal shows meanwhile which servers are still starting."""
        self._notice.begin(time.monotonic())
        try:
            while (line := self.hear()).get("__port") != "ready":
                servers = line.get("waiting")
                if isinstance(servers, list):
                    self._notice.servers = [printable(str(server)) for server in servers]
        finally:
            self._notice.end()
        return line

    def until(self, port: str) -> Line:
        """The next line of that port; others are skipped."""
        while (line := self.hear()).get("__port") != port:
            pass
        return line


def _read(line: object) -> Line:
    try:
        said = json.loads(line) if isinstance(line, (bytes, bytearray)) else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise NoDaemonError("the daemon sent a line that is not of the protocol")
    return said


def talk(arguments: argparse.Namespace, dialogue: Callable[[Dialogue, Line], int]) -> int:
    """Run `dialogue` on a channel, with the profile and token for its `hello`.

    Returns its exit code, or that of a failure, which is told on stderr.
    """
    try:
        token = read_token(arguments.token_file)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        tell(arguments, f"cannot read the token from {arguments.token_file}: {why}")
        return 2
    try:
        with (_running if arguments.config is None else _private)(arguments) as daemon:
            # A person, or the next program of a pipe, wants the whole of an answer.
            wanted = ["opening"] if sys.stderr is not None and sys.stderr.isatty() else None
            said: Line = {"profile": arguments.profile, "token": token, "max_output": _WHOLE, "capabilities": wanted}
            return dialogue(daemon, said)
    except CommandRefusedError as refused:
        tell(arguments, str(refused))
        return exit_code(refused)
    except NoDaemonError as error:
        tell(arguments, str(error))
        return 3
    except _DaemonEndedError as ended:
        return ended.code


def exit_code(refused: CommandRefusedError) -> int:
    """The exit code of a command that was refused (docs/command.md, "Exit codes")."""
    return {"not_authenticated": 3, "unknown_profile": 2}.get(str(refused.code), 1)


def tell(arguments: argparse.Namespace, what: str) -> None:
    """Print what went wrong on stderr."""
    shown = "\n".join(map(printable, what.split("\n")))
    print(f"{Paint(arguments.color, sys.stderr).error('tooldispatchd:')} {shown}", file=sys.stderr)


def again(arguments: argparse.Namespace, *words: str) -> str:
    """Write a command line with these words for the same daemon, configuration and profile as this command's."""
    import shlex

    given = {name: getattr(arguments, name) for name in ("config", "socket", "profile", "token_file")}
    kept = ((f"--{name.replace('_', '-')}", str(said)) for name, said in given.items() if said is not None)
    return shlex.join(["tooldispatchd", *words, *(word for pair in kept for word in pair)])


def open_for(daemon: Dialogue, name: str, hello: Line) -> Line | None:
    """Open a session for one tool, without the servers that it does not need; returns its `ready`.

    None where the profile does not name the tool. Then a session for the whole profile is being opened, since a server
    without a prefix may have the tool, and `ready` is still to come.
    """
    daemon.say("hello", {**hello, "spec": {"tools": [name]}})
    try:
        return daemon.open()
    except CommandRefusedError as refused:
        if refused.code != "not_allowed":
            raise
    daemon.say("hello", hello)
    return None


def listed(line: Line) -> list[Line]:
    """The tools of `ready` or `tools`."""
    tools = line.get("tools")
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def shown(ready: Line, name: str) -> Line | None:
    """The tool of that name in `ready`."""
    return next((tool for tool in listed(ready) if tool.get("name") == name), None)


class _DaemonEndedError(Exception):
    """The private daemon could not start and has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the private daemon ended with {code}")
        self.code = code


@contextmanager
def _running(arguments: argparse.Namespace) -> Iterator[Dialogue]:
    address = arguments.socket or find_socket(os.environ)
    try:
        fd = reach(address, within_s=min(arguments.timeout, CONNECT_S)).detach()
    except OSError as error:
        why = f"cannot reach the daemon at {address}: {error.strerror or error}"
        raise NoDaemonError(f"{why}\n{NOBODY_THERE}" if error.errno in NOBODY else why) from error
    duplex = Duplex(fd, fd)
    try:
        yield Dialogue(duplex, arguments.timeout, is_starting=False)
    finally:
        duplex.close()


@contextmanager
def _private(arguments: argparse.Namespace) -> Iterator[Dialogue]:
    import subprocess

    words = [sys.executable, "-P", "-m", "tooldispatchd", "serve", "--listen", "stdio", "--log-level", "error"]
    daemon = subprocess.Popen(  # noqa: S603  # this interpreter and this package; the path is one argument
        [*words, "--config", arguments.config], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert daemon.stdout is not None
    assert daemon.stdin is not None
    with daemon.stdout as answers, daemon.stdin as requests:
        duplex = Duplex(os.dup(answers.fileno()), os.dup(requests.fileno()))
    try:
        yield Dialogue(duplex, arguments.timeout, is_starting=True)
    except NoDaemonError:
        duplex.close()
        code = _end(daemon)
        if code > 0:
            raise _DaemonEndedError(code) from None
        raise
    finally:
        duplex.close()
        _end(daemon)


def _end(daemon: "subprocess.Popen[bytes]") -> int:
    """Wait for the end of a private daemon whose input has ended; its exit code."""
    import subprocess

    try:
        return daemon.wait(STOP_S)
    except subprocess.TimeoutExpired:
        daemon.kill()  # its guardian ends what it started
        return daemon.wait()


def read_token(path: str | os.PathLike[str] | None) -> str | None:
    """The token of a file, without the newline at its end, or of `$TOOLDISPATCHD_TOKEN`; None where there is none.

    Raises OSError or ValueError for a file that holds none.
    """
    if path is None:
        return os.environ.get("TOOLDISPATCHD_TOKEN") or None
    with open(path, "rb") as file:  # noqa: PTH123  # pathlib takes milliseconds to import, and `call` has not many
        said = file.read(MAX_TOKEN_BYTES + 1)
    if len(said) > MAX_TOKEN_BYTES:
        raise ValueError(f"it is longer than {MAX_TOKEN_BYTES} bytes")
    return said.decode().rstrip("\r\n")
