"""The tool `search`: ask the search engine that the operator has chosen.

The engine's URL is the operator's, so it may be private. Redirects are not followed, since the key would go with them.
Of a failure only the status is told, as the rest may repeat the key.
"""

import html
from typing import Annotated, Final, Literal

import httpx2
import msgspec
from msgspec import Meta

from tooldispatchd.forked.python.context import ToolContext, ToolFailedError
from tooldispatchd.toolbox.web.downloading import bounded_body, client_for, proxy_for, reason, within_time

# Twenty results are 50 KB; SearXNG adds much that nobody asked for.
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_MAX_SNIPPET_CHARS: Final = 600
_URLS: Final = {"brave": "https://api.search.brave.com", "tavily": "https://api.tavily.com"}
_PATHS: Final = {"searxng": "/search", "brave": "/res/v1/web/search", "tavily": "/search"}
_QUOTA: Final = {402, 429, 432, 433}


class EngineOptions(msgspec.Struct, frozen=True):
    """Which engine, where it is (the URL in front of the path of its API), and the key for it."""

    engine: Literal["searxng", "brave", "tavily"]
    url: str = ""
    key: str = ""

    def __repr__(self) -> str:
        """Without the key, which is secret."""
        return f"EngineOptions(engine={self.engine!r})"


class Hit(msgspec.Struct, frozen=True):
    """One result. SearXNG and Tavily say `content`, Brave says `description`."""

    url: str
    title: str = ""
    content: str | None = None
    description: str | None = None


class Hits(msgspec.Struct, frozen=True):
    """The results; Brave has those of each kind within `web`, which lacks if there are none."""

    results: list[Hit] = []
    web: "Hits | None" = None


async def search(
    query: Annotated[str, Meta(min_length=1, max_length=400, description="what to look for")],
    ctx: ToolContext,
    limit: Annotated[int, Meta(ge=1, le=20, description="how many results at most")] = 5,
) -> str:
    """Search the web: titles, URLs and snippets. Fetch a URL to read more."""
    if "search" not in ctx.options:
        raise ctx.failed("cannot search: no search engine is configured")
    options = msgspec.convert(ctx.options["search"], EngineOptions)
    async with within_time(ctx, "search"):
        answer = await _answered(options, query, limit)
    try:
        found = msgspec.json.decode(answer, type=Hits)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ctx.failed(f"cannot search: the answer of {options.engine} is not what its API promises") from error
    hits = (found.web or found).results[:limit]
    told = "\n\n".join(f"{number}. {_told(hit)}" for number, hit in enumerate(hits, 1)) or "No results."
    return told.replace(options.key, "[key]") if options.key else told


def _told(hit: Hit) -> str:
    snippet = _line(hit.content or hit.description or "")
    return "\n   ".join(filter(None, (_line(hit.title) or "(no title)", _line(hit.url), snippet)))


def _line(text: str) -> str:
    line = " ".join(html.unescape(text).split())
    return line if len(line) <= _MAX_SNIPPET_CHARS else line[:_MAX_SNIPPET_CHARS] + "…"


def _request(client: httpx2.AsyncClient, options: EngineOptions, query: str, limit: int) -> httpx2.Request:
    url = (options.url or _URLS.get(options.engine, "")).rstrip("/")
    # Some give it whole, with the path of the API.
    url = url.removesuffix(_PATHS[options.engine]) + _PATHS[options.engine]
    bearer = {"Authorization": f"Bearer {options.key}"} if options.key else {}
    match options.engine:
        case "searxng":
            return client.build_request("GET", url, params={"q": query, "format": "json"}, headers=bearer)
        case "brave":
            params: dict[str, str | int] = {"q": query, "count": limit, "text_decorations": "false"}
            key = {"X-Subscription-Token": options.key}
            return client.build_request("GET", url, params=params, headers=key)
        case "tavily":
            wanted = {"query": query, "max_results": limit}
            return client.build_request("POST", url, json=wanted, headers=bearer)


async def _answered(options: EngineOptions, query: str, limit: int) -> bytes:
    if not (options.key.isascii() and options.key.isprintable()):
        raise ToolFailedError("cannot search: the configured key has characters that a header cannot hold")
    try:
        async with client_for(proxy_for(httpx2.URL(options.url or _URLS.get(options.engine, "")))) as client:
            response = await client.send(_request(client, options, query, limit), stream=True)
            if refusal := _refusal(response, options):
                raise ToolFailedError(f"cannot search: {refusal}")
            body, is_whole = await bounded_body(response, _MAX_ANSWER_BYTES)
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
        raise ToolFailedError(
            f"cannot search: the configured url of {options.engine} is no http or https URL"
        ) from error
    except httpx2.RequestError as error:
        raise ToolFailedError(f"cannot search: {options.engine}: {reason(error)}") from error
    if not is_whole:
        raise ToolFailedError(
            f"cannot search: the answer of {options.engine} is larger than {_MAX_ANSWER_BYTES:,} bytes"
        )
    return body


def _refusal(response: httpx2.Response, options: EngineOptions) -> str | None:
    """What is wrong with an answer, by its status alone."""
    engine, status = options.engine, response.status_code
    if status == 200:
        return None
    if status in _QUOTA:
        after = response.headers.get("retry-after", "")
        wait = f"; it says to wait {after} s" if after.isdecimal() and len(after) < 8 else ""
        return f"the limit of requests to {engine} is reached ({status}){wait}"
    if engine == "searxng" and status == 403:
        return "this SearXNG gives no JSON (403): its settings need `json` among the formats of `search`"
    # Brave says 422 for a key that it does not know.
    if status in {401, 403, 422}:
        return f"{engine} refused the configured key or the query ({status})"
    if 300 <= status < 400:
        return f"{engine} redirects ({status}), which is not followed; the configured url may be wrong"
    return f"{engine} answered with the status {status}"
