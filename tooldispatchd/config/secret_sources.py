"""What the texts of a configuration take from elsewhere, and mean as secrets: files, systemd's credentials, commands.

What was read is known from then on, so that it can be masked. No error holds what was read, or where from.
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from select import select
from time import monotonic
from typing import Final

from tooldispatchd.catalog.servers import may_be_secret
from tooldispatchd.catalog.speckinds import KIB
from tooldispatchd.config.credentials import SecretError, read_secret_file
from tooldispatchd.config.stamps import note_command

# A key, a token, or a certificate in PEM.
MAX_CHARS: Final = 64 * KIB
# Over what a vault in the same network takes; a person who is asked for a fingerprint has it too.
COMMAND_S: Final = 20.0
# What stands in the place of what a command would print where none is run: a header, a path and a URL can be it.
NOT_RUN: Final = "http://command.invalid/"
# systemd.exec(5), `LoadCredential=`: the name of a file.
_CREDENTIAL: Final = re.compile(r"(?!\.{1,2}$)[^/\x00-\x1f]{1,255}")


class SecretSources:
    """Reads what `${file:…}`, `${credential:…}` and `${command:…}` name. `known` are the secrets that were read.

    A command is run once, however often it is named; with `runs_commands` false never.
    """

    def __init__(self, environ: Mapping[str, str], directory: Path, *, runs_commands: bool = True) -> None:
        self.known: set[str] = set()
        self._environ = environ
        self._directory = directory
        self._runs_commands = runs_commands
        self._printed: dict[str, str] = {}

    def note_variable(self, name: str, value: str) -> None:
        """A text holds this variable: a secret, where it has the name of one."""
        if may_be_secret(name):
            self.known.add(value)

    def read(self, kind: str, what: str) -> str:
        """What a sign of that kind stands for. Raises `SecretError`."""
        read = {"file": self._file, "credential": self._credential, "command": self._command}[kind]
        value = read(what)
        self.known.add(value)
        return value

    def _file(self, path: str) -> str:
        return _short(read_secret_file(str(self._directory / path), MAX_CHARS, what="value")[0], "file")

    def _credential(self, name: str) -> str:
        directory = self._environ.get("CREDENTIALS_DIRECTORY", "")
        if not directory.startswith("/"):
            raise SecretError("there is no $CREDENTIALS_DIRECTORY", "LoadCredential= or SetCredential= of the unit")
        if _CREDENTIAL.fullmatch(name) is None:
            raise SecretError("no credential can have this name", "a name without a slash")
        return _short(read_secret_file(f"{directory}/{name}", MAX_CHARS, what="credential")[0], "credential")

    def _command(self, text: str) -> str:
        if not self._runs_commands:
            return NOT_RUN
        printed = self._printed.get(text)
        if printed is None:
            try:
                words = shlex.split(text)
            except ValueError:
                words = []
            if not words:
                raise SecretError("no command", "a program and its arguments, quoted as in a shell")
            note_command()
            printed = self._printed[text] = _printed_by(words, self._environ)
        return printed


def _short(text: str, what: str) -> str:
    if len(text) > MAX_CHARS:
        raise SecretError(f"the {what} holds more than {MAX_CHARS} bytes")
    return text


def _printed_by(words: list[str], environ: Mapping[str, str]) -> str:
    """What a program prints, less a newline at its end; killed with its group at its limit. Raises `SecretError`."""
    try:
        # It is the operator's, and asks for a secret: its vault's address and token stand in the daemon's environment.
        process = subprocess.Popen(  # noqa: S603  # the configuration's own words, without a shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SecretError(f"cannot run the command: {getattr(error, 'strerror', None) or 'a word has a NUL'}") from None
    with process:
        try:
            printed = _read_all(process)
        finally:
            # Also of one that has ended: what it has left in its group holds the pipe.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        raise SecretError(f"the command ended with code {process.returncode}: run it by itself to see why")
    try:
        return printed.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise SecretError("the command printed what is not UTF-8") from None


def _read_all(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    fd, until = process.stdout.fileno(), monotonic() + COMMAND_S
    printed = b""
    while True:
        if not select([fd], [], [], max(0.0, until - monotonic()))[0]:
            raise SecretError(f"the command was not done within {COMMAND_S:g} s")
        chunk = os.read(fd, MAX_CHARS)
        if not chunk:
            break
        printed += chunk
        if len(printed) > MAX_CHARS:
            raise SecretError(f"the command printed more than {MAX_CHARS} bytes")
    try:
        process.wait(max(0.0, until - monotonic()))
    except subprocess.TimeoutExpired:
        raise SecretError(f"the command was not done within {COMMAND_S:g} s") from None
    return printed
