"""The APIs of a configuration: the tables of `[rest]`, and where a tool's `url` alone says one, the origin of that.

Two tools whose URLs have one origin and no table are at one API, so that they share its connections. What is wrong with
a table is told without a value: what stands at the wrong key may be a secret.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.pointers import unescape_fragment
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.rest.declared import ApiCredentials, Apis, RestApi
from tooldispatchd.catalog.rest.placeholders import BEGIN, parse_parts
from tooldispatchd.catalog.rest.requestchecks import header_problems
from tooldispatchd.catalog.rest.requests import origin_text, target_of
from tooldispatchd.catalog.rest.styles import encode_cookie
from tooldispatchd.catalog.restspecs import KEY_VALUES, PASSWORDS, REFRESH_TOKENS, RestApiSpec, RestSpec
from tooldispatchd.catalog.servers import (
    CLIENT_SECRETS,
    TOKENS,
    host_problems,
    is_readable_on_the_way,
    may_be_secret,
    normal_url,
    scheme_of,
)
from tooldispatchd.catalog.specs import Config

URL_ALLOWED: Final = "http(s)://, a host and no user, then a port and a path where there are any"
_KEY_PLACES: Final = ("header", "query", "cookie")


def find_apis(config: Config) -> Apis:
    """Every API of the configuration, and that of each tool with `rest`."""
    problems = [problem for name, spec in config.rest.items() for problem in _check_api(("rest", name), spec)]
    apis = {name: api for name, spec in config.rest.items() if (api := _api_of(name, spec)) is not None}
    of_tools: dict[str, str] = {}
    for name, tool in config.tools.items():
        if tool.rest is None:
            continue
        path: Path = ("tools", name, "rest")
        wrong = [*_check_place(path, tool.rest, config)]
        problems += wrong
        if wrong:
            continue
        origin = None if tool.rest.url is None else _origin_of(tool.rest.url)
        called = tool.rest.api or origin or ""
        if tool.rest.api is None and origin is not None and called not in apis:
            apis[called] = RestApi(called, origin, "", RestApiSpec(base_url=origin))
        api = apis.get(called)
        if api is None:
            continue  # what is wrong with its table has been told
        if origin is not None and origin != api.origin:
            why = f"[rest.{called}] is at another origin, and its credentials go to that alone"
            problems.append(Problem((*path, "url"), why, allowed='"path", for what is at its base_url'))
        of_tools[name] = called
    return Apis(apis, of_tools, tuple(_warnings(config, apis, of_tools)), tuple(problems))


def _api_of(name: str, spec: RestApiSpec) -> RestApi | None:
    url = normal_url(spec.base_url)
    if url is None:
        return None
    origin = origin_text(url)
    return RestApi(name, origin, url[len(origin) :].partition("?")[0].rstrip("/"), spec)


def _origin_of(url: str) -> str | None:
    """Scheme, host and port of a URL in the one way of writing them; None where they cannot be used."""
    written = origin_text(url)
    found = None if BEGIN in written else normal_url(f"{written}/")
    return None if found is None or scheme_of(found) not in {"http", "https"} else origin_text(found)


def _check_place(path: Path, spec: RestSpec, config: Config) -> Iterator[Problem]:
    """Whether a tool says where its request goes, once."""
    if spec.api is not None and spec.api not in config.rest:
        close = nearest(spec.api, config.rest)
        yield Problem((*path, "api"), "no such API in [rest]", value=spec.api, nearest=close)
    if spec.url is None and (spec.api is None or spec.path is None):
        yield Problem(path, "a request has url, or api and path; this one has neither")
    elif spec.url is not None and spec.path is not None:
        yield Problem((*path, "path"), '"url" says already where the request goes')
    elif spec.url is not None and BEGIN in origin_text(spec.url):
        why = "where a request goes is no parameter's to say: placeholders stand in the path and the query"
        yield Problem((*path, "url"), why)
    elif spec.url is not None and _origin_of(spec.url) is None:
        yield Problem((*path, "url"), "this is no URL that can be used", allowed=URL_ALLOWED)


def _check_api(path: Path, spec: RestApiSpec) -> Iterator[Problem]:
    """Every way in which the keys of the table at `path` do not go together."""
    url = normal_url(spec.base_url)
    if url is None or scheme_of(url) not in {"http", "https"}:
        yield Problem((*path, "base_url"), "this is no URL that can be used", allowed=URL_ALLOWED)
    elif "?" in spec.base_url or "#" in spec.base_url:
        yield Problem((*path, "base_url"), "a base has no query", allowed='"query", for entries of every request')
    ways = [*_stated(spec, TOKENS), *(key for key in ("basic", "auth") if getattr(spec, key) is not None)]
    for key in ways[1:]:
        yield Problem((*path, key), f'"{ways[0]}" says already how the daemon is known there')
    yield from header_problems((*path, "headers"), spec.headers)
    for name in spec.headers if ways else ():
        if name.lower() == "authorization":
            yield Problem((*path, "headers", name), f'"{ways[0]}" sets this header already')
    if spec.basic is not None:
        yield from _once((*path, "basic"), _stated(spec.basic, PASSWORDS), PASSWORDS, least=0)
        if ":" in spec.basic.user:
            yield Problem((*path, "basic", "user"), "no such name has a colon (RFC 7617, 2)")
    if spec.api_key is not None:
        yield from _once((*path, "api_key"), _stated(spec.api_key, _KEY_PLACES), _KEY_PLACES)
        yield from _once((*path, "api_key"), _stated(spec.api_key, KEY_VALUES), KEY_VALUES)
    yield from _check_oauth(path, spec)
    if spec.key is not None and spec.cert is None:
        yield Problem((*path, "key"), "a key belongs to a cert, and this API has none")
    yield from host_problems(path, spec.hosts)


def _check_oauth(path: Path, spec: RestApiSpec) -> Iterator[Problem]:
    oauth = spec.oauth
    if oauth is None:
        if spec.auth is not None:
            yield Problem((*path, "auth"), 'it needs the table "oauth", with token_url and client_id')
        return
    path = (*path, "oauth")
    if spec.auth is None:
        yield Problem(path, "these are the particulars of auth", allowed='auth = "oauth" beside it')
    url = normal_url(oauth.token_url)
    if url is None or scheme_of(url) not in {"http", "https"}:
        yield Problem((*path, "token_url"), "this is no URL that can be used", allowed=URL_ALLOWED)
    is_refresh = oauth.grant == "refresh_token"
    yield from _once(path, _stated(oauth, CLIENT_SECRETS), CLIENT_SECRETS, least=0 if is_refresh else 1)
    refreshes = _stated(oauth, REFRESH_TOKENS)
    if is_refresh:
        yield from _once(path, refreshes, REFRESH_TOKENS)
    elif refreshes:
        yield Problem((*path, refreshes[0]), f"it means nothing with grant {oauth.grant}")


def _once(path: Path, said: list[str], keys: tuple[str, ...], *, least: int = 1) -> Iterator[Problem]:
    """Whether one of the keys is said, and no more."""
    if len(said) < least:
        yield Problem(path, f"it needs one of {', '.join(keys)}")
    for key in said[1:]:
        yield Problem((*path, key), f'"{said[0]}" says it already', allowed=f"one of {', '.join(keys)}")


def _stated(spec: msgspec.Struct, keys: tuple[str, ...]) -> list[str]:
    return [key for key in keys if getattr(spec, key) is not None]


# --- what may be read on the way ---


def credential_kinds(api: RestApi) -> list[str]:
    """What kinds of things are shown to an API that identify the daemon; no name of a header or an entry."""
    spec = api.spec
    kinds = ["token"] if _stated(spec, TOKENS) else []
    kinds += ["basic"] if spec.basic is not None else []
    kinds += [f"key in the {place}" for place in _stated(spec.api_key, _KEY_PLACES)[:1]] if spec.api_key else []
    kinds += ["headers"] if any(map(may_be_secret, spec.headers)) else []
    kinds += ["query"] if any(map(may_be_secret, spec.query)) else []
    kinds += [f"oauth {spec.oauth.grant}"] if spec.oauth is not None else []
    return [*kinds, *(["client certificate"] if spec.cert is not None else [])]


def _warnings(config: Config, apis: dict[str, RestApi], of_tools: dict[str, str]) -> Iterator[str]:
    """A sentence for each secret that everyone on the way can read."""
    for name, api in apis.items():
        if credential_kinds(api) and is_readable_on_the_way(f"{api.origin}/"):
            yield f"rest.{name}: {_READABLE}"
        if api.spec.oauth is not None and is_readable_on_the_way(normal_url(api.spec.oauth.token_url) or ""):
            yield f"rest.{name}.oauth: {_READABLE}"
    for name, called in of_tools.items():
        spec = config.tools[name].rest
        named = [] if spec is None else [*spec.headers, *spec.query, *spec.cookies]
        if any(map(may_be_secret, named)) and is_readable_on_the_way(f"{apis[called].origin}/"):
            yield f"tools.{name}.rest: {_READABLE}"


_READABLE: Final = "its credentials go over http://, where others may read them; https:// encrypts them"


# --- what is to be masked: what stands under the name of a secret, as it goes out ---


def secrets_of_api(credentials: ApiCredentials) -> Iterator[str]:
    """Those of every request to an API."""
    for name, value in (*credentials.headers, *credentials.query):
        if may_be_secret(name):
            yield _behind_scheme(value)
    for _, value in credentials.cookies:
        yield from (value, encode_cookie(value))


def secrets_of_request(spec: RestSpec) -> Iterator[str]:
    """Those that its own texts hold, around the placeholders in them."""
    named = [*spec.headers.items(), *spec.query.items()]
    for entry in target_of(spec).partition("?")[2].split("&"):
        name, _, value = entry.partition("=")
        named += [(name, value), (name, unescape_fragment(value))]
    named += [(name, form) for name, text in spec.cookies.items() for form in (text, encode_cookie(text))]
    for name, text in named:
        if may_be_secret(name):
            yield from (part.strip() for part in parse_parts(_behind_scheme(text)) if isinstance(part, str))


def _behind_scheme(value: str) -> str:
    """What is secret of a header such as "Bearer …"."""
    scheme, _, rest = value.partition(" ")
    return rest or scheme
