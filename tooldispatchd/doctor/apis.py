"""Examine HTTP APIs: their hosts answer. No operation is called, and no credential is shown to them.

Any status is an answer: what an API says to a stranger says nothing of what it says to the daemon.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
import trio

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.rest.declared import RestApi
from tooldispatchd.config.api_documents import is_url
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.config.kept_documents import KeptDocuments
from tooldispatchd.doctor.advice import advice_for
from tooldispatchd.doctor.diagnosis import Diagnosis, Examiner, fine, warning, wrong
from tooldispatchd.http.reach import Reach

# After so long the document of an API that is developed is another one.
OLD_DAYS: Final = 90
DAY_S: Final = 86_400
MAX_HEAD_BYTES: Final = 64 * 1024
# Names that are reserved for examples (RFC 2606, RFC 6761), as `tooldispatchd init` writes them.
EXAMPLE: Final = re.compile(r"^([^.]+\.)*example(\.(com|net|org))?$")


def api_examiners(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Examiner]:
    """A check for each API, authorization server and collector of traces, and for each document that is kept."""
    catalog = loaded.catalog
    for name, api in catalog.apis.items():
        reach = Reach(url=f"{api.origin}/", ca=api.spec.ca, cert=api.spec.cert, key=api.spec.key)
        yield Examiner("api", name, partial(_reach, reach, _tool_count(catalog, api)))
    for name, auth in catalog.config.http_auth.items():
        yield Examiner("authorization server", name, partial(_reach, Reach(url=auth.jwks or auth.issuer)))
    if catalog.config.traces.endpoint is not None:
        yield Examiner("collector", "traces", partial(_reach, Reach(url=catalog.config.traces.endpoint)))
    documents = loaded.written.get("openapi")
    for name, table in documents.items() if isinstance(documents, dict) else ():
        spec = table.get("spec") if isinstance(table, dict) else None
        yield Examiner("document", name, partial(_examine_document, name, str(spec), environ))


def _tool_count(catalog: Catalog, api: RestApi) -> str:
    count = sum(tool.rest is not None and tool.rest.api == api.name for tool in catalog.tools.values())
    return f", for {count} {'tool' if count == 1 else 'tools'}"


async def _reach(reach: Reach, more: str = "") -> Diagnosis:
    """Ask for the head of what stands at the top of the host: DNS, TCP, TLS, proxy, and any answer."""
    from tooldispatchd.http.errors import UntrustedOriginError, WireError  # noqa: PLC0415  # where nobody is to be reached
    from tooldispatchd.http.wire import HttpWire  # noqa: PLC0415  # as above

    began = trio.current_time()
    try:
        async with HttpWire(reach, max_bytes=MAX_HEAD_BYTES, max_redirects=0) as wire, wire.exchange("HEAD") as reply:
            status: object = reply.status
    except WireError as error:
        # That it leads elsewhere is an answer, too.
        status = "a redirect" if isinstance(error, UntrustedOriginError) else error.extras.get("http_status")
        if status is None:
            return unreachable(reach.url, error.why)
    took_ms = (trio.current_time() - began) * 1000
    said = f"it answers ({f'HTTP {status}' if isinstance(status, int) else status}){more}"
    tell = warning if isinstance(status, int) and status >= 500 else fine
    return msgspec.structs.replace(tell(said, status=status), took_ms=took_ms)


def unreachable(url: str, why: str) -> Diagnosis:
    """Tell that a host does not answer; one that stands for yours, as in an example, is a warning."""
    if EXAMPLE.match(urlsplit(url).hostname or ""):
        return warning(why, "the name of its host is reserved for examples: say yours, or drop the table")
    return wrong(why, advice_for(why))


def _examine_document(name: str, spec: str, environ: Mapping[str, str]) -> Diagnosis:
    """The document of an API as it is kept: its hash and its age. Nothing is fetched."""
    if "${" in spec or not is_url(spec):
        return fine("a file, read at each start")
    kept = KeptDocuments(environ)
    document, path = kept.read(spec), kept.place_of(spec)
    if document is None or path is None:
        return wrong("not fetched yet", f"tooldispatchd openapi {name} --update")
    age_days = _age_days(path)
    said, facts = f"kept for {age_days:.0f} days", {"sha256": document.digest, "age_days": round(age_days, 1)}
    if age_days > OLD_DAYS:
        return warning(said, f"tooldispatchd openapi {name} --update fetches it anew", **facts)
    return fine(said, None, **facts)


def _age_days(path: Path) -> float:
    try:
        return max(0.0, (time.time() - os.stat(path).st_mtime) / DAY_S)  # noqa: PTH116  # one call
    except OSError:
        return 0.0
