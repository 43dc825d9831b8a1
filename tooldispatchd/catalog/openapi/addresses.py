"""Where an API is: the first of its `servers`, with the defaults of its variables, against the document's own URL."""

import re
from typing import Final

from tooldispatchd.catalog.openapi.apidocument import Object, object_of, text_of

_ABSOLUTE: Final = re.compile(r"(?P<origin>https?://[^/?#]+)(?P<path>[^?#]*)", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")


def address_of(server: object, document_url: str | None) -> str | None:
    """The URL of a server, without a slash at its end; None where that is no URL of HTTP."""
    stated = object_of(server)
    variables = object_of(stated.get("variables"))
    url = _VARIABLE.sub(lambda found: _default(object_of(variables.get(found[1]))), text_of(stated.get("url")))
    if url.startswith("//"):
        # Its scheme is the document's; one that lies in a file has none.
        url = f"{(document_url or 'https:').partition('//')[0]}{url}"
    elif _ABSOLUTE.match(url) is None and document_url is not None:
        url = _joined(document_url, url)
    found = _ABSOLUTE.match(url)
    return None if found is None or "{" in url else (found["origin"] + _normal(found["path"])).rstrip("/")


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL; empty where it is none."""
    found = _ABSOLUTE.match(url)
    return "" if found is None else found["origin"].lower()


def _default(variable: Object) -> str:
    default = variable.get("default")
    if isinstance(default, int) and not isinstance(default, bool):
        # A port, in YAML without quotation marks.
        return str(default)
    # A brace is no part of a URL: one without a default is found by it.
    return default if isinstance(default, str) else "{"


def _joined(base: str, url: str) -> str:
    """A relative reference against the URL that it stands in (RFC 3986, 5.2.2, without query and fragment)."""
    found = _ABSOLUTE.match(base)
    if found is None:
        return url
    return found["origin"] + (url if url.startswith("/") else f"{found['path'].rpartition('/')[0]}/{url}")


def _normal(path: str) -> str:
    """A path without `.` and `..` (RFC 3986, 5.2.4)."""
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[max(1, len(steps) - 1) :]
        elif step != ".":
            steps.append(step)
    return "/".join(steps)
