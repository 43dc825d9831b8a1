"""The secrets of agents and for servers, and the users that programs run as: read once a table is well formed.

A profile's token leaves the table here, whether it stands in it, in the environment or in a file: only its SHA-256 goes
on. What was read for servers goes to their bindings. No problem holds a secret, nor the name of a variable or a file,
since a token that was written after the wrong key would stand in its place; which of their names may be shown, the
report knows.
"""

import grp
import pwd
import re
import shlex
import stat
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final, cast
from urllib.parse import unquote

import msgspec

from tooldispatchd.catalog.auditspec import password_in
from tooldispatchd.catalog.problems import Path, Problem, dotted
from tooldispatchd.catalog.profiles import MAX_TOKEN_BYTES, digest_of, token_problem
from tooldispatchd.catalog.rest.declared import ApiCredentials, RestApi, RestTool, secrets_in
from tooldispatchd.catalog.restspecs import KEY_VALUES, PASSWORDS, REFRESH_TOKENS
from tooldispatchd.catalog.secrecy import Spec, is_secret, is_shown
from tooldispatchd.catalog.servers import (
    CLIENT_SECRETS,
    TOKENS,
    Binding,
    ServerCredentials,
    is_secret_option,
    may_be_secret,
)
from tooldispatchd.catalog.speckinds import KIB, MAX_HEADER_CHARS
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.exposure import why_replaceable
from tooldispatchd.config.key_patterns import Pattern, Table, entries, places
from tooldispatchd.config.listen_values import MAX_ACCOUNT
from tooldispatchd.config.regular_files import read_regular

# A PEM file with an RSA key of 16,384 bits has some 13 KiB, and may hold its certificates.
MAX_KEY_CHARS: Final = 64 * KIB
# It goes in a header or a form, beside others.
MAX_SECRET_CHARS: Final = 4 * KIB
# With its scheme a token is one header.
MAX_TOKEN_CHARS: Final = MAX_HEADER_CHARS - len("Bearer ")

# Where a server's table may stand.
SERVERS: Final[tuple[Pattern, ...]] = (("mcp", "*"), ("tools", "*", "mcp"), ("processes", "*", "mcp", "#"))
# And that of an API: both are reached over a network.
REACHED: Final[tuple[Pattern, ...]] = (*SERVERS, ("rest", "*"))
# The sections whose tables are profiles.
_PROFILES: Final[tuple[Pattern, ...]] = (("agents",), ("processes",))
# Where a table may name the user that a program runs as.
_PROGRAMS: Final[tuple[Pattern, ...]] = (
    *(("tools", "*"), ("toolbox", "*"), ("hooks", "*"), ("processes", "*"), ("agents", "*")),
    *SERVERS,
)
# What each of the others than tokens names, and how many characters that may have.
_OTHERS: Final = {
    **dict.fromkeys((*CLIENT_SECRETS, *PASSWORDS), ("secret", MAX_SECRET_CHARS)),
    **dict.fromkeys((*REFRESH_TOKENS, *KEY_VALUES), ("secret", MAX_TOKEN_CHARS)),
    "private_key_file": ("key", MAX_KEY_CHARS),
}
# Where an API's table may stand, or that of a search engine, which has a token.
_APIS: Final[tuple[Pattern, ...]] = (("rest", "*"), ("openapi", "*"), ("toolbox", "*", "search"))
# What an API may name, one of each group.
_OF_APIS: Final[tuple[tuple[Pattern, ...], ...]] = (
    tuple((key,) for key in TOKENS),
    tuple(("basic", key) for key in PASSWORDS),
    tuple(("api_key", key) for key in KEY_VALUES),
    tuple(("oauth", key) for key in CLIENT_SECRETS),
    tuple(("oauth", key) for key in REFRESH_TOKENS),
)
# Any header's value, since it may be one.
_API_KEY: Final = re.compile(r"[\x20-\x7e]+")
# RFC 6750, 2.1, allows less; some servers' keys have more signs.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
# RFC 7468, 2. The kind of the key is left to the library that signs with it.
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*-----END ", re.DOTALL)

# RFC 3986, 3.2.1. What a variable brings does not stand in the file.
_URL_PASSWORD: Final = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/?#@:]*:(?!\$\{)[^\s/?#@]+@", re.IGNORECASE)
# An option's value that names a file, is another option, or comes from a variable.
_NO_SECRET: Final = re.compile(r"[-~/]|\.\.?/|$|.*\$\{")


class AccountError(Exception):
    """A user or a group that this host does not have."""


class SecretError(Exception):
    """A secret cannot be read; caught where the place that names it is known."""

    def __init__(self, why: str, allowed: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.allowed = allowed


class Credentials(msgspec.Struct, frozen=True):
    """What was read: `tokens` by profile, as SHA-256; `secrets` of servers, by the key and the text that named each.

    `warnings` are whole sentences.
    """

    tokens: dict[str, bytes]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    secrets: dict[tuple[str, str], str] = {}

    def __repr__(self) -> str:
        counts = f"{len(self.tokens)} tokens, {len(self.secrets)} secrets"
        return f"Credentials({counts}, problems={self.problems}, warnings={self.warnings})"


def take_credentials(table: Table, environ: Mapping[str, str]) -> Credentials:
    """Read all that `table`, which is well formed and expanded, names as secrets, and look up its users and groups.

    In place, profiles' tokens are taken out, and numbers stand for users and groups.
    """
    tokens: dict[str, bytes] = {}
    secrets: dict[tuple[str, str], str] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    # All of them first: profiles' tokens leave the table.
    for path, value in [*_of_profiles(table, problems), *_of_servers(table), *_of_apis(table)]:
        key, is_of_agents = str(path[-1]), path[:1] + path[2:-1] in _PROFILES
        try:
            text, mode = _read(key, value, environ, MAX_TOKEN_BYTES if is_of_agents else MAX_KEY_CHARS)
            if is_of_agents:
                why = token_problem(text)
                if why is not None:
                    problems.append(Problem(path, why, value=None, allowed=f"1 to {MAX_TOKEN_BYTES} bytes"))
                    continue
                tokens[str(path[1])] = digest_of(text)
            else:
                secrets[key, value] = _checked(key, text)
        except SecretError as error:
            # What was seen is shown by its kind alone; the report knows these keys.
            problems.append(Problem(path, error.why, value=None, allowed=error.allowed))
            continue
        if mode is not None:
            warnings.append(f"{dotted(path)}: others may read or change the file (mode {mode:04o})")
    for key, kind in (("uid", "user"), ("gid", "group")):
        for place in (each for section in _PROFILES for each in places(table, (*section, "*", key))):
            place.put(list(_numbers(place.value, place.path, kind, problems)))
    for key in ("user", "group"):
        for place in (each for program in _PROGRAMS for each in places(table, (*program, key))):
            place.put(next(_numbers(place.value, place.path, key, problems), place.value))
    return Credentials(tokens, tuple(problems), tuple(warnings), secrets)


def _of_profiles(table: Table, problems: list[Problem]) -> Iterator[tuple[Path, str]]:
    """Where each profile names its token, and what stands there; `token` is taken out."""
    for place in (each for section in _PROFILES for each in places(table, (*section, "*"))):
        profile = cast("Table", place.value)
        named = [(key, str(profile[key])) for key in TOKENS if key in profile]
        profile.pop("token", None)
        if len(named) > 1:
            why = f'"{named[0][0]}" says already where the token is'
            problems.append(Problem((*place.path, named[-1][0]), why, value=None))
        elif named:
            yield (*place.path, named[0][0]), named[0][1]


def _numbers(owners: object, path: Path, kind: str, problems: list[Problem]) -> Iterator[int]:
    """The numbers of users or groups; a problem for each that there is not."""
    if owners == []:
        allowed = "a number or a name, or a list of them that is not empty"
        problems.append(Problem(path, "admits nobody", value=owners, allowed=allowed))
    for index, owner in enumerate(owners if isinstance(owners, list) else [owners]):
        place = (*path, index) if isinstance(owners, list) else path
        if isinstance(owner, str):
            try:
                yield find_uid(owner) if kind == "user" else find_gid(owner)
            except (AccountError, ValueError):
                problems.append(Problem(place, f"no such {kind}", value=owner))
        # A fraction of nothing, as in 3.0, is a whole number to the schema.
        elif isinstance(owner, int) and 0 <= owner <= MAX_ACCOUNT:
            yield owner
        else:
            allowed = f"a whole number, at least 0 and at most {MAX_ACCOUNT}"
            problems.append(Problem(place, "not a number of a user or a group", value=owner, allowed=allowed))


def find_uid(name: str) -> int:
    """The number of a user, by name or number; raises `AccountError`."""
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise AccountError(f"no such user: {name}") from None


def find_gid(name: str) -> int:
    """The number of a group, by name or number; raises `AccountError`."""
    if name.isdecimal():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise AccountError(f"no such group: {name}") from None


def _of_servers(table: Table) -> Iterator[tuple[Path, str]]:
    """Where each server names a secret, and what stands there.

    Of keys that contradict one another none is read: the catalog tells of them, and nothing else is told.
    """
    for place in (each for pattern in SERVERS for each in places(table, pattern)):
        server = cast("Table", place.value)
        if not isinstance(server, dict) or "url" not in server:
            continue
        keys: list[Pattern] = []
        if len(server.keys() & {*TOKENS, "auth"}) == 1:
            keys += [(key,) for key in TOKENS]
        oauth = server.get("oauth")
        if "auth" in server and isinstance(oauth, dict):
            if oauth.get("grant") == "private_key_jwt":
                keys.append(("oauth", "private_key_file"))
            elif len(oauth.keys() & set(CLIENT_SECRETS)) == 1:
                keys += [("oauth", key) for key in CLIENT_SECRETS]
        for key in keys:
            for named in places(server, key):
                yield (*place.path, *named.path), str(named.value)


def _of_apis(table: Table) -> Iterator[tuple[Path, str]]:
    """Likewise where each API and search engine names one; of two in the place of one the catalog tells."""
    for api in (each for pattern in _APIS for each in places(table, pattern)):
        for group in _OF_APIS:
            named = [place for key in group for place in places(api.value, key)]
            for place in named if len(named) == 1 else ():
                yield (*api.path, *place.path), str(place.value)


def _read(key: str, value: str, environ: Mapping[str, str], max_bytes: int) -> tuple[str, int | None]:
    """What a key names, and the mode of its file where others may use that."""
    if key.endswith("_env"):
        if value not in environ:
            raise SecretError("the environment has no such variable")
        return environ[value], None
    if not key.endswith("_file"):
        return value, None
    text, mode = read_secret_file(value, max_bytes, what=_kind(key)[0])
    return text, mode if mode & (stat.S_IROTH | stat.S_IWOTH) else None


def read_secret_file(path: str, max_bytes: int, *, what: str) -> tuple[str, int]:
    """What a file holds without the newline at its end, and its mode; `what` that is stands in a `SecretError`.

    Bytes that are not UTF-8 become lone surrogates. Of a file over `max_bytes` a little more than that is read, so that
    whoever looks at the text finds it too long.
    """
    try:
        content, mode = read_regular(FilePath(path), max_bytes)
        exposed = why_replaceable(path) if FilePath(path).is_file() else None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise SecretError(f"cannot read the {what}'s file: {why}") from None
    if exposed is not None:
        # Another one could be put there, and open a profile.
        raise SecretError(f"cannot use the {what}'s file: {exposed}")
    text = content.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
    return text, mode


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
    if key.startswith("value") and not _API_KEY.fullmatch(text):
        raise SecretError("the secret has what no header can have", "visible ASCII in one line")
    if what == "secret" and not text.isprintable():
        raise SecretError("the secret has more than one line, or is not UTF-8")
    if what == "key" and not _PEM.search(text):
        raise SecretError("the file holds no private key", "one in PEM, with -----BEGIN PRIVATE KEY-----")
    return text


def exposed_secrets(table: Table, file_of: Callable[[Path], FilePath], *, own: FilePath) -> list[str]:
    """A warning for each secret that stands in a file itself, as text, where others may read that.

    `table` is as it was written, and `file_of` says where; `own` is the configuration's file. Which headers, variables
    and options are secrets, their names tell, and of URLs their form.
    """
    said: list[str] = []
    for path in dict.fromkeys((*_written(table), *_within_texts(table))):
        file = file_of(path)
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            # It was deleted after it was read.
            continue
        if mode & stat.S_IROTH:
            what = "this file" if file == own else str(file)
            advice = f"chmod 600 {shlex.quote(str(file))}"
            said.append(f"{dotted(path)}: others may read {what} (mode {mode:04o}): {advice}")
    return said


def known_secrets(
    table: Table,
    credentials: Credentials,
    servers: Iterable[Binding],
    apis: Iterable[RestApi],
    requests: Iterable[RestTool],
) -> Iterator[str]:
    """What is to be masked of a table that is expanded: what was read, and what stands under the name of a secret.

    Not profiles' tokens: of these nothing but a digest is kept.
    """
    yield from credentials.secrets.values()
    if (password := password_in(str(cast("Table", table.get("audit", {})).get("store", "")))) is not None:
        # The database is told of it, and may tell of it, without the signs of URLs.
        yield from (password, unquote(password))
    for path in _written(table):
        holder: object = table
        for key in path:
            holder = cast("dict[str | int, object]", holder)[key]
        yield str(holder)
    for name, value in (pair for server in servers for pair in server.credentials.headers):
        if may_be_secret(name):
            # Behind a scheme, as in "Bearer …", stands what is secret.
            yield value.rpartition(" ")[2]
    for api in apis:
        yield from secrets_in(api)
    for request in requests:
        yield from secrets_in(request)


def _written(holder: object, path: Path = ()) -> Iterator[Path]:
    """Where secrets stand as text."""
    for key, value in entries(holder):
        if not isinstance(value, str):
            yield from _written(value, (*path, key))
        elif value and "${" not in value and _is_secret(str(key), (*path, key)):
            yield (*path, key)


def _within_texts(holder: object, path: Path = ()) -> Iterator[Path]:
    """Where one stands as a part of a text: the password of a URL, and the value of a program's option."""
    before = ""
    for key, value in entries(holder):
        place = (*path, key)
        if not isinstance(value, str):
            yield from _within_texts(value, place)
            continue
        option, equals, text = value.partition("=")
        if not equals:
            option, text = before, value
        is_option = isinstance(key, int) and is_secret_option(option) and not _NO_SECRET.match(text)
        if (is_option or _URL_PASSWORD.search(value)) and not is_shown(Config, place):
            yield place
        before = value


def _is_secret(key: str, path: Path) -> bool:
    # The place where tokens are given out is none, and looks like one to whoever goes by the name.
    return key != "token_url" and may_be_secret(key) and is_secret(Config, path)


def with_credentials(servers: Mapping[str, Binding], secrets: Mapping[tuple[str, str], str]) -> dict[str, Binding]:
    """The bindings, each with what was read for it."""
    bound: dict[str, Binding] = {}
    for name, binding in servers.items():
        spec = binding.spec
        token = _secret_of(spec, TOKENS, secrets)
        credentials = ServerCredentials(
            headers=(*spec.headers.items(), *([] if token is None else [("authorization", f"Bearer {token}")])),
            client_secret=_secret_of(spec.oauth, CLIENT_SECRETS, secrets),
            private_key=_secret_of(spec.oauth, ("private_key_file",), secrets),
        )
        bound[name] = msgspec.structs.replace(binding, credentials=credentials)
    return bound


def api_credentials(api: RestApi, secrets: Mapping[tuple[str, str], str]) -> ApiCredentials:
    """What the daemon shows to an API, of what was read."""
    spec = api.spec
    headers, query = list(spec.headers.items()), list(spec.query.items())
    token = _secret_of(spec, TOKENS, secrets)
    if token is not None:
        headers.append(("authorization", f"Bearer {token}"))
    if spec.basic is not None:
        password = _secret_of(spec.basic, PASSWORDS, secrets) or ""
        pair = b64encode(f"{spec.basic.user}:{password}".encode()).decode()
        headers.append(("authorization", f"Basic {pair}"))
    cookies: list[tuple[str, str]] = []
    value = _secret_of(spec.api_key, KEY_VALUES, secrets)
    if spec.api_key is not None and value is not None:
        for name, lines in (
            (spec.api_key.header, headers),
            (spec.api_key.query, query),
            (spec.api_key.cookie, cookies),
        ):
            if name is not None:
                lines.append((name, value))
    return ApiCredentials(
        headers=tuple(headers),
        query=tuple(query),
        cookies=tuple(cookies),
        client_secret=_secret_of(spec.oauth, CLIENT_SECRETS, secrets),
        refresh_token=_secret_of(spec.oauth, REFRESH_TOKENS, secrets),
    )


def _secret_of(spec: Spec | None, keys: tuple[str, ...], secrets: Mapping[tuple[str, str], str]) -> str | None:
    """What was read for a table's key, of these, of which it has one at most."""
    named = ((key, getattr(spec, key, None)) for key in keys)
    return next((secrets.get((key, text)) for key, text in named if text is not None), None)
