"""What an answer is, by its bytes and its header, and its text; HTML as Markdown or as plain text.

html-to-markdown does it: one library without others, 20 ms and 8 MB to import, a second for 8 MB of HTML, and by itself
bounded for elements in elements without end. What no reader wants (navigation, banners, footers, hidden ones) is left
out by what the page itself calls so; guessing at "the article" loses tables and lists.
"""

import html
import re
from typing import Final, Literal

import msgspec
import webencodings
from html_to_markdown import ConversionOptions, convert

from tooldispatchd.toolbox.encodings import encoding_of

PageForm = Literal["markdown", "text", "raw"]
# Where browsers look for it (WHATWG, "Encoding sniffing").
_DECLARED_BYTES: Final = 1024
_DECLARED: Final = re.compile(rb"""(?:charset|encoding)\s*+=\s*+(?:["']\s*+)?([\w.:-]{1,40})""", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{1,1000})", re.IGNORECASE)
_HTML: Final = re.compile(rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_ASIDE: Final = (
    *("nav", "footer", "aside", "body > header", "dialog", "svg"),
    *("[role=navigation]", "[role=banner]", "[role=contentinfo]", "[aria-hidden=true]"),
)


class Page(msgspec.Struct, frozen=True):
    """A text and its title, if it has one."""

    text: str
    title: str = ""


def page_of(body: bytes, content_type: str, url: str, *, form: PageForm) -> Page | None:
    """The text of a body; None for what is binary."""
    media_type, _, parameters = content_type.partition(";")
    is_html = _is_html(body, media_type.strip().lower())
    text = _decoded(body, parameters, is_markup=is_html or "xml" in media_type)
    if text is None or not is_html:
        return None if text is None else Page(text)
    found = _TITLE.search(text)
    title = " ".join(html.unescape(found[1]).split())[:200] if found else ""
    return Page(text if form == "raw" else _readable(text, url, form), title)


def _is_html(body: bytes, media_type: str) -> bool:
    if media_type in {"text/html", "application/xhtml+xml"}:
        return True
    head = body[:_DECLARED_BYTES]
    return media_type in {"", "application/octet-stream"} and head.lstrip()[:1] == b"<" and bool(_HTML.search(head))


def _decoded(body: bytes, parameters: str, *, is_markup: bool) -> str | None:
    """As browsers do: a byte order mark, what the header says, what the page says, and else what it looks like."""
    said = _DECLARED.search(parameters.encode()) or (_DECLARED.search(body[:_DECLARED_BYTES]) if is_markup else None)
    # A closed list of labels, each with what sites mean by it: Python's own codecs would also run `unicode_escape`.
    label = webencodings.lookup(said[1].decode()) if said else None
    looks = encoding_of(body)
    if looks is None:
        return None
    # Pages that say UTF-16 in ASCII mean something else.
    if label is None or label.name.startswith("utf-16"):
        return body[len(looks.mark) :].decode(looks.name, "replace")
    text: str = webencodings.decode(body, label, "replace")[0]
    return text


def _readable(text: str, url: str, form: PageForm) -> str:
    for aside in (_ASIDE, ()):
        options = ConversionOptions(
            output_format="plain" if form == "text" else "markdown",
            exclude_selectors=list(aside),
            base_url=url,
            inline_data_media="alt_text_only",
            compact_tables=True,
            extract_metadata=False,
        )
        if found := (convert(text, options).content or "").strip():
            return found
    return ""
