"""Which keys of a server's table go together: everything that one table contradicts itself in. Pure.

No problem bears a value: what stands at the wrong key may be a secret.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.serverurls import URL_ALLOWED, is_readable_on_the_way, normal_url, scheme_of
from tooldispatchd.catalog.specs import McpSpec, OAuthSpec

# What starts a child, and means nothing where a server runs already.
COMMAND_ONLY: Final = ("args", "env", "cwd", *KEYS)
# What goes over the network, and means nothing to a child.
URL_ONLY: Final = (
    *("transport", "headers", "token", "token_env", "token_file", "auth", "oauth"),
    *("ca", "cert", "key", "hosts", "private"),
)
NO_WAY: Final = "a server has command or url, this one has neither"
TOKENS: Final = ("token", "token_env", "token_file")
# Fields that say how a message is framed, or that the protocol itself sets: two of one would be two truths.
OWNED_HEADERS: Final = frozenset(
    {
        *("host", "connection", "upgrade", "content-length", "content-type", "transfer-encoding", "accept"),
        *("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"),
    }
)
_OWNED_PREFIXES: Final = ("mcp-param-", "sec-websocket-")
_SECRET_NAME: Final = re.compile(r"auth|cookie|key|token|secret|password|credential", re.IGNORECASE)
_SOURCES: Final = '"token", "token_env" or "token_file"'
# Which keys of `oauth` a grant needs, and which only one grant has.
_NEEDED: Final = {
    "authorization_code": (),
    "client_credentials": ("client_id",),
    "private_key_jwt": ("client_id", "private_key_file"),
}
_ONLY_OF: Final = {
    "private_key_file": ("private_key_jwt",),
    "algorithm": ("private_key_jwt",),
    "client_metadata_url": ("authorization_code",),
    "redirect_port": ("authorization_code",),
    "client_secret_env": ("authorization_code", "client_credentials"),
    "client_secret_file": ("authorization_code", "client_credentials"),
}
_SECRETS: Final = ("client_secret_env", "client_secret_file")


def check_server(path: Path, spec: McpSpec) -> Iterator[Problem]:
    """Every way in which the keys of the table at `path` do not go together."""
    yield from _check_way(path, spec)
    if spec.url is not None:
        yield from _check_credentials(path, spec)
        yield from _check_headers((*path, "headers"), spec)
    for index, host in enumerate(spec.hosts):
        if ":" in host and not 0 < int(host.partition(":")[2]) < 1 << 16:
            yield Problem(
                (*path, "hosts", index), "no such port", allowed="HOST, or HOST:PORT with a port of 1 to 65535"
            )
    if spec.shared and spec.on_timeout == "dead":
        why = "a shared connection lives on when one agent's call takes too long"
        yield Problem((*path, "on_timeout"), why, value=spec.on_timeout, allowed='"cancel", or no shared')


def credential_warning(spec: McpSpec) -> str | None:
    """What is to be said of a server to whose URL a secret goes for everyone on the way to read, else None."""
    if not _sends_secret(spec) or not spec.enabled or spec.url is None or not is_readable_on_the_way(spec.url):
        return None
    scheme = scheme_of(spec.url)
    return f"its credentials go over {scheme}://, where others may read them; {scheme}s:// encrypts them"


def credential_kinds(spec: McpSpec) -> list[str]:
    """What kinds of things are shown to the server behind a URL that say who the daemon is; no header's name."""
    kinds = ["token"] if _stated(spec, TOKENS) else []
    kinds += ["headers"] if _has_secret_header(spec) else []
    kinds += [f"oauth {(spec.oauth or OAuthSpec()).grant}"] if spec.auth is not None else []
    return [*kinds, *(["client certificate"] if spec.cert is not None else [])]


def _sends_secret(spec: McpSpec) -> bool:
    """Whether a secret goes along with each request, as far as the names of headers tell."""
    return bool(_stated(spec, TOKENS)) or spec.auth is not None or _has_secret_header(spec)


def may_be_secret(name: str) -> bool:
    """Whether the name of a header or a variable is one under which secrets stand."""
    return _SECRET_NAME.search(name) is not None


def _has_secret_header(spec: McpSpec) -> bool:
    return any(map(may_be_secret, spec.headers))


def _check_way(path: Path, spec: McpSpec) -> Iterator[Problem]:
    """Exactly one of `command` and `url`, and what belongs to it."""
    ways = [way for way in ("command", "url") if getattr(spec, way) is not None]
    if len(ways) != 1:
        yield Problem(path, "a server has command or url, this one has both" if ways else NO_WAY)
    if spec.url is None:
        for key in _stated(spec, URL_ONLY):
            yield Problem((*path, key), f"only a server with url has {key}")
        return
    for key in _stated(spec, COMMAND_ONLY) if ways == ["url"] else ():
        yield Problem((*path, key), f"only a server with command has {key}")
    url = normal_url(spec.url)
    if url is None:
        yield Problem((*path, "url"), "this is no URL that can be used", allowed=URL_ALLOWED)
        return
    is_web = scheme_of(url) in {"http", "https"}
    if not is_web and spec.transport != "auto":
        yield Problem((*path, "transport"), "only an http:// or https:// URL has a choice", value=spec.transport)
    elif spec.transport == "sse" and spec.protocol == "2026-07-28":
        why = "this revision has no HTTP+SSE"
        yield Problem((*path, "protocol"), why, value=spec.protocol, allowed='an older one, or transport = "http"')
    if not is_web and spec.auth is not None:
        yield Problem((*path, "auth"), "only an http:// or https:// URL says where tokens are given out")


def _check_credentials(path: Path, spec: McpSpec) -> Iterator[Problem]:
    tokens = _stated(spec, TOKENS)
    for key in tokens[1:]:
        yield Problem((*path, key), f'"{tokens[0]}" says already where the token is', allowed=f"one of {_SOURCES}")
    if spec.auth is not None and tokens:
        yield Problem((*path, "auth"), f'"{tokens[0]}" says already where the token is', allowed=f"auth, or {_SOURCES}")
    if spec.key is not None and spec.cert is None:
        yield Problem((*path, "key"), "a key belongs to a cert, and this server has none")
    if spec.oauth is not None:
        if spec.auth is None:
            yield Problem((*path, "oauth"), "these are the particulars of auth", allowed='auth = "oauth" beside it')
        yield from _check_oauth((*path, "oauth"), spec.oauth)


def _check_oauth(path: Path, oauth: OAuthSpec) -> Iterator[Problem]:
    """What the grant needs and has not, and what it has and cannot use."""
    grant = oauth.grant
    needed = [f'"{key}"' for key in _NEEDED[grant] if getattr(oauth, key) is None]
    secrets = _stated(oauth, _SECRETS)
    if grant == "client_credentials" and not secrets:
        needed.append('one of "client_secret_env" and "client_secret_file"')
    if needed:
        yield Problem(path, f"grant {grant} needs {' and '.join(needed)}")
    for key, grants in _ONLY_OF.items():
        if grant not in grants and _stated(oauth, (key,)):
            yield Problem((*path, key), f"it means nothing with grant {grant}", allowed=f"with {' and '.join(grants)}")
    if len(secrets) > 1:
        yield Problem((*path, secrets[1]), f'"{secrets[0]}" says already where the secret is')
    if grant == "authorization_code" and secrets and oauth.client_id is None:
        yield Problem((*path, secrets[0]), "a secret belongs to a client_id, and there is none")
    url = oauth.client_metadata_url
    if url is not None and (normal_url(url) is None or not url.lower().startswith("https://")):
        yield Problem((*path, "client_metadata_url"), "this is no URL that can be used", allowed="an https:// URL")
    if url is not None and oauth.client_id is not None and grant == "authorization_code":
        yield Problem((*path, "client_metadata_url"), '"client_id" says already which client the daemon is')


def _check_headers(path: Path, spec: McpSpec) -> Iterator[Problem]:
    seen: set[str] = set()
    for name in spec.headers:
        low = name.lower()
        if low in OWNED_HEADERS or low.startswith(_OWNED_PREFIXES):
            yield Problem((*path, name), "the transport sets this header itself")
        if low == "authorization" and (spec.auth is not None or _stated(spec, TOKENS)):
            other = "auth" if spec.auth is not None else _stated(spec, TOKENS)[0]
            yield Problem((*path, name), f'"{other}" sets this header already')
        if low in seen:
            yield Problem((*path, name), "this header stands here twice: capitals make no difference")
        seen.add(low)


def _stated(spec: McpSpec | OAuthSpec, keys: tuple[str, ...]) -> list[str]:
    """Those of `keys` that say something else than their defaults."""
    defaults = {field.name: field for field in msgspec.structs.fields(spec)}
    return [key for key in keys if getattr(spec, key) != _default(defaults[key])]


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
