"""What agents must show and what servers are shown, and who programs run as: read once a table is well formed.

A profile's token leaves the table here, whether it stands in it, in the environment or in a file: only its SHA-256 goes
on. What was read for servers goes to their bindings. No problem holds a secret, nor the name of a variable or a file,
since a token that was written after the wrong key would stand in its place; which of their names may be shown, the
report knows.
"""

import grp
import os
import pwd
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.profiles import MAX_TOKEN_BYTES, digest_of, token_problem
from tooldispatchd.catalog.secrecy import is_secret
from tooldispatchd.catalog.serverchecks import TOKENS, may_be_secret
from tooldispatchd.catalog.servers import Binding, ServerCredentials
from tooldispatchd.catalog.speckinds import KIB, MAX_HEADER_CHARS
from tooldispatchd.catalog.specs import Config, McpSpec, OAuthSpec
from tooldispatchd.config.key_patterns import Pattern, Table, entries, places

# The kernel's numbers have 32 bits, and the largest stands for "none".
MAX_OWNER: Final = 2**32 - 2
# A PEM file with an RSA key of 16,384 bits has some 13 KiB, and may hold its certificates.
MAX_KEY_CHARS: Final = 64 * KIB
# It goes in a header or a form, beside others.
MAX_SECRET_CHARS: Final = 4 * KIB
# With its scheme a token is one header.
MAX_TOKEN_CHARS: Final = MAX_HEADER_CHARS - len("Bearer ")

# Where a server's table may stand.
SERVERS: Final[tuple[Pattern, ...]] = (("mcp", "*"), ("tools", "*", "mcp"), ("processes", "*", "mcp", "#"))
# Where it may be said who a program runs as.
_PROGRAMS: Final[tuple[Pattern, ...]] = (("tools", "*"), ("processes", "*"), ("agents", "*"), *SERVERS)
_CLIENT_SECRETS: Final = ("client_secret_env", "client_secret_file")
# What each of the others than tokens names, and how many characters that may have.
_OTHERS: Final = {
    "client_secret_env": ("secret", MAX_SECRET_CHARS),
    "client_secret_file": ("secret", MAX_SECRET_CHARS),
    "private_key_file": ("key", MAX_KEY_CHARS),
}
_OWNERS_ALLOWED: Final = "a number or a name, or a list of them that is not empty"
# RFC 6750, 2.1, allows less; some servers' keys have more signs.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
# RFC 7468, 2; which kind of key it is, who signs with it will see.
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*-----END ", re.DOTALL)


class AccountError(Exception):
    """A user or a group that this host does not have."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no such {kind}: {name}")
        self.kind = kind
        self.name = name


class SecretError(Exception):
    """Why a secret cannot be had; it is caught where the place that names it is known."""

    def __init__(self, why: str, allowed: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.allowed = allowed


class SecretFile(msgspec.Struct, frozen=True):
    """What a file holds, with bytes that are no UTF-8 as lone surrogates, and its mode's twelve bits."""

    text: str
    mode: int

    @property
    def is_exposed(self) -> bool:
        """Whether users other than its owner and its group may use it."""
        return bool(self.mode & (stat.S_IROTH | stat.S_IWOTH))

    def __repr__(self) -> str:
        """Its mode alone."""
        return f"SecretFile(mode={self.mode:04o})"


class Credentials(msgspec.Struct, frozen=True):
    """What was read: `tokens` by profile, as SHA-256; `warnings` are whole sentences."""

    tokens: dict[str, bytes]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


class ServerSecrets(msgspec.Struct, frozen=True):
    """What was read for servers, by the key and the text that named it; `warnings` are whole sentences."""

    values: dict[tuple[str, str], str] = {}
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """How many there are."""
        return f"ServerSecrets({len(self.values)} values, problems={self.problems}, warnings={self.warnings})"


def take_credentials(table: Table, environ: Mapping[str, str]) -> Credentials:
    """Read the tokens of every profile in `table`, and put numbers in the place of all users' and groups' names.

    `token` is taken out, in place.
    """
    tokens: dict[str, bytes] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    for place in places(table, ("agents", "*")):
        profile = cast("Table", place.value)
        named = [(str(key), str(profile[key])) for key in TOKENS if key in profile]
        profile.pop("token", None)
        path = (*place.path, named[-1][0] if named else "token")
        if len(named) > 1:
            problems.append(Problem(path, f'"{named[0][0]}" says already where the token is', value=None))
        elif named:
            try:
                token, mode = _read_token(*named[0], environ)
            except SecretError as error:
                # What was seen is shown by its kind only; the report knows these keys.
                problems.append(Problem(path, error.why, value=None, allowed=error.allowed))
            else:
                tokens[str(place.path[-1])] = digest_of(token)
                warnings += [] if mode is None else [f"{_dotted(path)}: {_exposed(mode)}"]
    problems += _look_up(table)
    return Credentials(tokens, tuple(problems), tuple(warnings))


def _read_token(key: str, value: str, environ: Mapping[str, str]) -> tuple[str, int | None]:
    """A profile's token, and the mode of its file where others may use that."""
    text, mode = _read(key, value, environ, MAX_TOKEN_BYTES)
    why = token_problem(text)
    if why is not None:
        raise SecretError(why, f"1 to {MAX_TOKEN_BYTES} bytes")
    return text, mode


def _look_up(table: Table) -> list[Problem]:
    """Put numbers in the place of users and groups, in place; a problem for each that there is not."""
    problems: list[Problem] = []
    for key, number_of in (("uid", _uid_of), ("gid", _gid_of)):
        for place in places(table, ("agents", "*", key)):
            place.put(list(_numbers(place.value, place.path, number_of, problems)))
    for key, number_of in (("user", _uid_of), ("group", _gid_of)):
        for place in (each for program in _PROGRAMS for each in places(table, (*program, key))):
            place.put(next(_numbers(place.value, place.path, number_of, problems), place.value))
    return problems


def _numbers(owners: object, path: Path, number_of: Callable[[object], int], problems: list[Problem]) -> Iterator[int]:
    if owners == []:
        problems.append(Problem(path, "admits nobody", value=owners, allowed=_OWNERS_ALLOWED))
    listed = cast("list[object]", owners) if isinstance(owners, list) else [owners]
    for index, owner in enumerate(listed):
        try:
            yield number_of(owner)
        except SecretError as error:
            place = (*path, index) if isinstance(owners, list) else path
            problems.append(Problem(place, error.why, value=owner, allowed=error.allowed))


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


def read_server_secrets(table: Table, environ: Mapping[str, str]) -> ServerSecrets:
    """Read every secret that a server's table in `table` names; its paths must be absolute already."""
    values: dict[tuple[str, str], str] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    for path, value in _named(table):
        key = str(path[-1])
        try:
            text, mode = _read(key, value, environ, MAX_KEY_CHARS)
            values[key, value] = _checked(key, text)
        except SecretError as error:
            problems.append(Problem(path, error.why, value=None, allowed=error.allowed))
            continue
        if mode is not None:
            warnings.append(f"{_dotted(path)}: {_exposed(mode)}")
    return ServerSecrets(values, tuple(problems), tuple(warnings))


def _named(table: Table) -> Iterator[tuple[Path, str]]:
    """Each place of a server that names a secret, and what stands there."""
    for place in (each for pattern in SERVERS for each in places(table, pattern)):
        server = cast("Table", place.value)
        for key in _readable(server) if isinstance(server, dict) else ():
            for named in places(server, key):
                yield (*place.path, *named.path), str(named.value)


def _readable(server: Table) -> Iterator[Pattern]:
    """The keys that are to be read: what contradicts itself is told of when the catalog is built, and that alone."""
    if "url" not in server:
        return
    if len(server.keys() & {*TOKENS, "auth"}) == 1:
        yield from ((key,) for key in TOKENS)
    oauth = server.get("oauth")
    if "auth" not in server or not isinstance(oauth, dict):
        return
    if oauth.get("grant") == "private_key_jwt":
        yield ("oauth", "private_key_file")
    elif len(oauth.keys() & set(_CLIENT_SECRETS)) == 1:
        yield from (("oauth", key) for key in _CLIENT_SECRETS)


def _read(key: str, value: str, environ: Mapping[str, str], max_bytes: int) -> tuple[str, int | None]:
    """What a key names, and the mode of its file where others may use that."""
    if key == "token":
        if "${" in value:
            raise SecretError("a token is taken as it is written", '"token_env", for one in the environment')
        return value, None
    if key.endswith("_env"):
        return read_variable(value, environ), None
    file = read_secret_file(value, max_bytes, what=_kind(key)[0])
    return file.text, file.mode if file.is_exposed else None


def read_variable(name: str, environ: Mapping[str, str]) -> str:
    """What a variable holds; raises `SecretError`."""
    if name not in environ:
        raise SecretError("the environment has no such variable")
    return environ[name]


def read_secret_file(path: str, max_bytes: int, *, what: str) -> SecretFile:
    """What a file holds without the newline at its end; `what` it is the file of stands in a `SecretError`.

    Of a file over `max_bytes` a little more than that is read, so that who looks at the text finds it too long.
    """
    try:
        # A pipe or a terminal would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            mode = os.fstat(descriptor).st_mode
            # One more than a newline at the end may add.
            content = os.read(descriptor, max_bytes + 3) if stat.S_ISREG(mode) else None
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise SecretError(f"cannot read the {what}'s file: {why}") from None
    if content is None:
        raise SecretError(f"cannot read the {what}'s file: it is not a regular file")
    text = content.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
    return SecretFile(text, stat.S_IMODE(mode))


def _kind(key: str) -> tuple[str, int]:
    """What a key names, and the most characters of it."""
    return _OTHERS.get(key, ("token", MAX_TOKEN_CHARS))


def _checked(key: str, text: str) -> str:
    what, limit = _kind(key)
    if not text:
        raise SecretError(f"the {what} is empty")
    if len(text) > limit:
        raise SecretError(f"the {what} has more than {limit} characters")
    if what == "token" and not _TOKEN.fullmatch(text):
        raise SecretError("the token has what no header can have", "visible ASCII, no space")
    if what == "secret" and not text.isprintable():
        raise SecretError("the secret has more than one line, or is not UTF-8")
    if what == "key" and not _PEM.search(text):
        raise SecretError("the file holds no private key", "one in PEM, with -----BEGIN PRIVATE KEY-----")
    return text


def exposed_secrets(table: Table, file_of: Callable[[Path], FilePath]) -> list[str]:
    """A warning for each secret that stands in a file itself, as text, where others may read that.

    `table` is as it was written, and `file_of` says where. Which headers and variables are secrets, their names tell.
    """
    said: list[str] = []
    for path in _written(table):
        try:
            mode = stat.S_IMODE(file_of(path).stat().st_mode)
        except OSError:
            # It has been read, and is gone.
            continue
        if mode & stat.S_IROTH:
            said.append(f"{_dotted(path)}: others may read this file (mode {mode:04o})")
    return said


def _written(holder: object, path: Path = ()) -> Iterator[Path]:
    """Where secrets stand as text."""
    for key, value in entries(holder):
        if not isinstance(value, str):
            yield from _written(value, (*path, key))
        elif value and "${" not in value and may_be_secret(str(key)) and is_secret(Config, (*path, key)):
            yield (*path, key)


def with_credentials(servers: Mapping[str, Binding], secrets: ServerSecrets) -> dict[str, Binding]:
    """The bindings, each with what was read for it."""
    return {
        name: msgspec.structs.replace(binding, credentials=_credentials(binding.spec, secrets))
        for name, binding in servers.items()
    }


def _credentials(spec: McpSpec, secrets: ServerSecrets) -> ServerCredentials:
    token = _first(spec, TOKENS, secrets)
    oauth = spec.oauth or OAuthSpec()
    return ServerCredentials(
        headers=(*spec.headers.items(), *([] if token is None else [("authorization", f"Bearer {token}")])),
        client_secret=_first(oauth, _CLIENT_SECRETS, secrets),
        private_key=_first(oauth, ("private_key_file",), secrets),
    )


def _first(spec: McpSpec | OAuthSpec, keys: tuple[str, ...], secrets: ServerSecrets) -> str | None:
    """The secret that one of `keys` names; at most one of them is there."""
    return next((secrets.values[key, text] for key in keys if (text := getattr(spec, key)) is not None), None)


def _exposed(mode: int) -> str:
    return f"others may read or change the file (mode {mode:04o})"


def _dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
