"""Who may open a profile, read while a configuration is loaded: its token, and its users and groups by number.

A token leaves the table here, whether it stands in it, in the environment or in a file: only its SHA-256 goes on. No
problem bears a token, nor the name of a variable or a file, since a token that was written after the wrong key would
stand in its place.
"""

import grp
import pwd
from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.profiles import MAX_TOKEN_BYTES, digest_of, token_problem
from tooldispatchd.config.key_patterns import Table, places
from tooldispatchd.config.secret_files import SecretError, read_secret_file, read_variable
from tooldispatchd.config.server_credentials import SERVERS

# The kernel's numbers have 32 bits, and the largest stands for "none".
MAX_OWNER: Final = 2**32 - 2

_SOURCES: Final = ("token", "token_env", "token_file")
_OWNERS_ALLOWED: Final = "a number or a name, or a list of them that is not empty"
_SIZE_ALLOWED: Final = f"1 to {MAX_TOKEN_BYTES} bytes"


class AccountError(Exception):
    """A user or a group that this host does not have."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no such {kind}: {name}")
        self.kind = kind
        self.name = name


class Credentials(msgspec.Struct, frozen=True):
    """What was read: `tokens` by profile, as SHA-256; `warnings` are whole sentences."""

    tokens: dict[str, bytes]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def take_credentials(table: Table, environ: Mapping[str, str], *, wrong: frozenset[Path]) -> Credentials:
    """Read the tokens of every profile in `table`, and put numbers in the place of all users' and groups' names.

    `token` is taken out, in place. What stands at a place in `wrong` has been refused already, and is not looked at.
    """
    taken = _Taken(environ, wrong)
    for name, profile in _tables(table, "agents"):
        taken.take(name, profile)
    for pattern in (("tools", "*"), ("processes", "*"), ("agents", "*"), *SERVERS):
        for place in places(table, pattern):
            if isinstance(place.value, dict):
                taken.look_up(place.path, cast("Table", place.value))
    return Credentials(taken.tokens, tuple(taken.problems), tuple(taken.warnings))


def find_uid(name: str) -> int:
    """The number of a user, by name or number; raises `AccountError`."""
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise AccountError("user", name) from None


def find_gid(name: str) -> int:
    """The number of a group, by name or number; raises `AccountError`."""
    if name.isdecimal():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise AccountError("group", name) from None


def _tables(table: Table, section: str) -> Iterator[tuple[str, Table]]:
    found = table.get(section)
    for name, each in cast("Table", found).items() if isinstance(found, dict) else ():
        if isinstance(each, dict):
            yield name, cast("Table", each)


class _Taken:
    """Collects what the profiles hold."""

    def __init__(self, environ: Mapping[str, str], wrong: frozenset[Path]) -> None:
        self.tokens: dict[str, bytes] = {}
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self._environ = environ
        self._wrong = wrong

    def take(self, name: str, profile: Table) -> None:
        """Take one profile's token and look up its users and groups."""
        self._take_token(name, profile)
        for key, number_of in (("uid", _uid_of), ("gid", _gid_of)):
            path = ("agents", name, key)
            if key in profile and not self._is_wrong(path):
                profile[key] = list(self._numbers(profile[key], path, number_of))

    def look_up(self, table: Path, program: Table) -> None:
        """Put numbers in the place of who a program runs as."""
        for key, number_of in (("user", _uid_of), ("group", _gid_of)):
            path = (*table, key)
            if key in program and not self._is_wrong(path):
                program[key] = next(self._numbers(program[key], path, number_of), program[key])

    def _take_token(self, name: str, profile: Table) -> None:
        sources = [key for key in _SOURCES if key in profile]
        values = [profile[key] for key in sources]
        profile.pop("token", None)
        if not sources or any(self._is_wrong(("agents", name, key)) for key in sources):
            return
        path = ("agents", name, sources[-1])
        if len(sources) > 1:
            self.problems.append(Problem(path, f'"{sources[0]}" says already where the token is', value=None))
            return
        try:
            self.tokens[name] = digest_of(self._token(name, sources[0], values[0]))
        except SecretError as error:
            # What was seen is shown by its kind only; the report knows these keys.
            self.problems.append(Problem(path, error.why, value=None, allowed=error.allowed))

    def _token(self, name: str, source: str, value: object) -> str:
        if not isinstance(value, str):
            # The schema stops at a profile whose name is wrong, and what is in it comes here as it is.
            raise SecretError("wrong kind of value", "a string")
        if source == "token":
            if "${" in value:
                raise SecretError("a token is taken as it is written", '"token_env", for one in the environment')
            return _checked(value)
        if source == "token_env":
            return _checked(read_variable(value, self._environ))
        file = read_secret_file(value, MAX_TOKEN_BYTES, what="token")
        if file.is_exposed:
            self.warnings.append(f"agents.{name}.token_file: others may read or change the file (mode {file.mode:04o})")
        return _checked(file.text)

    def _numbers(self, owners: object, path: Path, number_of: Callable[[object], int]) -> Iterator[int]:
        if owners == []:
            self.problems.append(Problem(path, "admits nobody", value=owners, allowed=_OWNERS_ALLOWED))
        listed = cast("list[object]", owners) if isinstance(owners, list) else [owners]
        for index, owner in enumerate(listed):
            place = (*path, index) if isinstance(owners, list) else path
            try:
                yield number_of(owner)
            except SecretError as error:
                self.problems.append(Problem(place, error.why, value=owner, allowed=error.allowed))

    def _is_wrong(self, path: Path) -> bool:
        return any(place[: len(path)] == path for place in self._wrong)


def _checked(token: str) -> str:
    why = token_problem(token)
    if why is not None:
        raise SecretError(why, _SIZE_ALLOWED)
    return token


def _uid_of(owner: object) -> int:
    try:
        return find_uid(owner) if isinstance(owner, str) else _number(owner)
    except (AccountError, ValueError):
        raise SecretError("no such user") from None


def _gid_of(owner: object) -> int:
    try:
        return find_gid(owner) if isinstance(owner, str) else _number(owner)
    except (AccountError, ValueError):
        raise SecretError("no such group") from None


def _number(owner: object) -> int:
    # A fraction of nothing, as in 3.0, is a whole number to the schema.
    if not isinstance(owner, int) or not 0 <= owner <= MAX_OWNER:
        raise SecretError("not a number of a user or a group", f"a whole number, at least 0 and at most {MAX_OWNER}")
    return owner
