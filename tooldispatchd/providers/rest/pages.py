"""Further pages of an answer: where the next one is, and what is on each, joined as one list."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

import msgspec

from tooldispatchd.catalog.pointers import at, unescape_fragment
from tooldispatchd.catalog.rest.declared import BuiltRequest
from tooldispatchd.catalog.rest.styles import encode
from tooldispatchd.catalog.restspecs import RestPagesSpec
from tooldispatchd.http.errors import WireError
from tooldispatchd.providers.rest.replies import Body, json_in

# RFC 8288, 3: a parameter of a link, in which a comma may stand in quotes. Matched where the one before it ends, and
# never looked for: each sign is seen a few times at most, whatever stands there.
_PARAMETER: Final = re.compile(r'\s*;\s*([^\s=;,]+)(?:\s*=\s*(?:"([^"]*)"|([^\s;,"]*)))?')
# Of a header of links: APIs send some hundreds.
_MAX_LINK_CHARS: Final = 8 * 1024
# A cursor is an id or a signed state.
_MAX_CURSOR_CHARS: Final = 4_096

_encode: Final = msgspec.json.Encoder().encode


class PageJob(msgspec.Struct, frozen=True):
    """How a page is read: its encoding, where its items stand, and where the next cursor does."""

    charset: str | None
    pick: str | None
    cursor: str | None


class ReadPage(msgspec.Struct, frozen=True):
    """What is on a page: how many items, and the next cursor; `items` are their JSON with commas. Or why it is none."""

    count: int = 0
    cursor: str | None = None
    items: bytes = b""
    why: str | None = None


def page_in(body: Body, job: PageJob) -> ReadPage:
    """What is on a page."""
    try:
        whole = json_in(body, job.charset)
        items = whole if job.pick is None else at(whole, job.pick)
        if not isinstance(items, list):
            where = "a page of its answer" if job.pick is None else f"what stands at {job.pick} of a page of its answer"
            return ReadPage(why=f"{where} is no list")
        found = None if job.cursor is None else at(whole, job.cursor)
        is_cursor = isinstance(found, str | int) and not isinstance(found, bool)
        cursor = str(found) if is_cursor and found != "" else None
        if cursor is not None and len(cursor) > _MAX_CURSOR_CHARS:
            return ReadPage(why=f"its cursor has more than {_MAX_CURSOR_CHARS} characters")
        return ReadPage(len(items), cursor, _encode(items)[1:-1])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ReadPage(why="a page of its answer is not JSON")
    except RecursionError:
        return ReadPage(why="a page of its answer is nested too deep")


def read_page(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """`page_in`, in a checker."""
    page = page_in(payload, msgspec.msgpack.decode(arguments, type=PageJob))
    return msgspec.msgpack.encode(msgspec.structs.replace(page, items=b"")), page.items


class Pages:
    """Where the pages of one call are."""

    def __init__(self, spec: RestPagesSpec, request: BuiltRequest) -> None:
        self.spec = spec
        self.taken = 0
        self._request = request
        self._cursor: str | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more may be asked for."""
        return self.taken >= self.spec.max_pages

    def request(self) -> BuiltRequest:
        """The request of the next page."""
        spec = self.spec
        if spec.by == "page":
            return self._with_entry(spec.query or "page", str(spec.first + self.taken))
        if self._cursor is not None:
            return self._with_entry(spec.query or "cursor", self._cursor)
        if spec.by == "link" and self.taken:
            # A link is a place to get, whatever was sent first.
            headers = [line for line in self._request.headers if not line[0].lower().startswith("content-")]
            return msgspec.structs.replace(self._request, headers=tuple(headers), body=b"", media_type=None)
        return self._request

    def has_more(self, page: ReadPage, headers: Mapping[str, str], url: str) -> tuple[bool, str | None]:
        """Whether there is another page after this one, which was at `url`; and its URL where a link says it.

        Raises `WireError` where that leads nowhere.
        """
        self.taken += 1
        if self.spec.by == "link":
            target = next_link(headers.get("link", ""))
            try:
                return target is not None, None if target is None else urljoin(url, target)
            except ValueError:
                raise WireError("the link to its next page is not a URL", was_sent=True) from None
        if self.spec.by == "page":
            return page.count > 0, None
        # One that says the same again would do so for ever.
        is_next = page.cursor is not None and page.cursor != self._cursor
        self._cursor = page.cursor
        return is_next, None

    def _with_entry(self, name: str, value: str) -> BuiltRequest:
        """The request with this entry in its query, in the place of those of the same name."""
        entries: list[str] = []
        place: int | None = None
        for entry in filter(None, self._request.query.split("&")):
            if unescape_fragment(entry.partition("=")[0]) != name:
                entries.append(entry)
            elif place is None:
                place = len(entries)
        entries.insert(len(entries) if place is None else place, f"{encode(name)}={encode(value)}")
        return msgspec.structs.replace(self._request, query="&".join(entries))


def next_link(header: str) -> str | None:
    """The target of the link with `rel="next"` (RFC 8288), if there is one."""
    header = header[:_MAX_LINK_CHARS]
    begin = header.find("<")
    while begin >= 0 and (end := header.find(">", begin)) >= 0:
        target, place, relations = header[begin + 1 : end], end + 1, None
        while (found := _PARAMETER.match(header, place)) is not None:
            if relations is None and found[1].lower() == "rel":
                relations = (found[2] or found[3] or "").lower().split()
            place = found.end()
        if "next" in (relations or ()):
            return target
        begin = header.find("<", place)
    return None
