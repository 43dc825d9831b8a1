"""What the daemon shows to servers behind URLs, read while a configuration is loaded.

First each secret that a table names is read, so that every problem has its place; once the catalog is built, each
binding gets its own. No problem bears a secret, as with those of profiles; which of their names may be shown, the
report knows.
"""

import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.servers import Binding, ServerCredentials, may_be_secret
from tooldispatchd.catalog.specs import KIB, MAX_HEADER_CHARS, McpSpec, OAuthSpec
from tooldispatchd.daemon.key_patterns import Pattern, Table, places
from tooldispatchd.daemon.secret_files import SecretError, read_secret_file, read_variable

# A PEM file with an RSA key of 16,384 bits has some 13 KiB, and may hold its certificates.
MAX_KEY_CHARS: Final = 64 * KIB
# It goes in a header or a form, beside others.
MAX_SECRET_CHARS: Final = 4 * KIB
# With its scheme a token is one header.
MAX_TOKEN_CHARS: Final = MAX_HEADER_CHARS - len("Bearer ")

# Where a server's table may stand.
SERVERS: Final[tuple[Pattern, ...]] = (("mcp", "*"), ("tools", "*", "mcp"), ("processes", "*", "mcp", "#"))
_TOKENS: Final = ("token", "token_env", "token_file")
_SECRETS: Final = ("client_secret_env", "client_secret_file")
# What each of the others than tokens names, and how many characters that may have.
_OTHERS: Final = {
    "client_secret_env": ("secret", MAX_SECRET_CHARS),
    "client_secret_file": ("secret", MAX_SECRET_CHARS),
    "private_key_file": ("key", MAX_KEY_CHARS),
}
# RFC 6750, 2.1, allows less; some servers' keys have more signs.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
# RFC 7468, 2; which kind of key it is, who signs with it will see.
_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*-----END ", re.DOTALL)

# A key and what stands there, which may name the same file for many servers.
_Named = tuple[str, str]


class ServerSecrets(msgspec.Struct, frozen=True):
    """What was read, by the key and the text that named it; `warnings` are whole sentences."""

    values: dict[_Named, str] = {}
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """How many there are."""
        return f"ServerSecrets({len(self.values)} values, problems={self.problems}, warnings={self.warnings})"


def read_server_secrets(table: Table, environ: Mapping[str, str], *, wrong: frozenset[Path]) -> ServerSecrets:
    """Read every secret that a server's table in `table` names; its paths must be absolute already.

    What stands at a place in `wrong` has been refused already, and is not looked at.
    """
    values: dict[_Named, str] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    for path, value in _named(table):
        if any(place[: len(path)] == path or path[: len(place)] == place for place in wrong):
            continue
        key = str(path[-1])
        try:
            text, mode = _read(key, value, environ)
            values[key, value] = _checked(key, text)
        except SecretError as error:
            problems.append(Problem(path, error.why, value=None, allowed=error.allowed))
            continue
        if mode is not None:
            warnings.append(f"{_dotted(path)}: others may read or change the file (mode {mode:04o})")
    return ServerSecrets(values, tuple(problems), tuple(warnings))


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


def _written(table: Table) -> Iterator[Path]:
    """Where secrets stand as text."""
    starts = (*SERVERS, ("tools", "*"), ("processes", "*"))
    named = [*((*start, "env", "*") for start in starts), *((*server, "headers", "*") for server in SERVERS)]
    for pattern in (("agents", "*", "token"), *((*server, "token") for server in SERVERS), *named):
        for place in places(table, pattern):
            is_secret = pattern[-1] == "token" or may_be_secret(str(place.path[-1]))
            if is_secret and isinstance(place.value, str) and place.value and "${" not in place.value:
                yield place.path


def with_credentials(servers: Mapping[str, Binding], secrets: ServerSecrets) -> dict[str, Binding]:
    """The bindings, each with what was read for it."""
    return {
        name: msgspec.structs.replace(binding, credentials=_credentials(binding.spec, secrets))
        for name, binding in servers.items()
    }


def _credentials(spec: McpSpec, secrets: ServerSecrets) -> ServerCredentials:
    token = _first(spec, _TOKENS, secrets)
    oauth = spec.oauth or OAuthSpec()
    return ServerCredentials(
        headers=(*spec.headers.items(), *([] if token is None else [("authorization", f"Bearer {token}")])),
        client_secret=_first(oauth, _SECRETS, secrets),
        private_key=_first(oauth, ("private_key_file",), secrets),
    )


def _first(spec: McpSpec | OAuthSpec, keys: tuple[str, ...], secrets: ServerSecrets) -> str | None:
    """The secret that one of `keys` names; at most one of them is there."""
    return next((secrets.values[key, text] for key in keys if (text := getattr(spec, key)) is not None), None)


def _named(table: Table) -> Iterator[tuple[Path, str]]:
    """Each place that names a secret, and what stands there; what is no text is the schema's to refuse."""
    for pattern in SERVERS:
        for server in places(table, pattern):
            for key in _readable(server.value):
                for place in places(cast("Table", server.value), key):
                    if isinstance(place.value, str):
                        yield (*server.path, *place.path), place.value


def _readable(server: object) -> Iterator[Pattern]:
    """The keys that are to be read: what contradicts itself is told of when the catalog is built, and that alone."""
    if not isinstance(server, dict) or "url" not in server:
        return
    if len(server.keys() & {*_TOKENS, "auth"}) == 1:
        yield from ((key,) for key in _TOKENS)
    oauth = server.get("oauth")
    if "auth" not in server or not isinstance(oauth, dict):
        return
    if oauth.get("grant") == "private_key_jwt":
        yield ("oauth", "private_key_file")
    elif len(oauth.keys() & set(_SECRETS)) == 1:
        yield from (("oauth", key) for key in _SECRETS)


def _read(key: str, value: str, environ: Mapping[str, str]) -> tuple[str, int | None]:
    """What a key names, and the mode of its file where others may use that."""
    if key == "token":
        if "${" in value:
            raise SecretError("a token is taken as it is written", '"token_env", for one in the environment')
        return value, None
    if key.endswith("_env"):
        return read_variable(value, environ), None
    file = read_secret_file(value, MAX_KEY_CHARS, what=_kind(key)[0])
    return file.text, file.mode if file.is_exposed else None


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


def _dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
