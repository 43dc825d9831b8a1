"""Examine HTTP APIs: their hosts answer. No operation is called, and no credential is shown to them.

Any status is an answer: what an API says to a stranger says nothing of what it says to the daemon.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import trio

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.rest.declared import RestApi
from tooldispatchd.config.api_documents import is_url
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.config.kept_documents import KeptDocuments
from tooldispatchd.doctor.advice import advice_for
from tooldispatchd.doctor.diagnosis import Diagnosis, Health
from tooldispatchd.doctor.examiner import Examiner, aside
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
        yield Examiner("api", name, partial(_reach, "api", name, reach, _tool_count(catalog, api)))
    for name, auth in catalog.config.http_auth.items():
        reach = Reach(url=auth.jwks or auth.issuer)
        yield Examiner("authorization server", name, partial(_reach, "authorization server", name, reach, ""))
    if catalog.config.traces.endpoint is not None:
        reach = Reach(url=catalog.config.traces.endpoint)
        yield Examiner("collector", "traces", partial(_reach, "collector", "traces", reach, ""))
    documents = loaded.written.get("openapi")
    for name, table in documents.items() if isinstance(documents, dict) else ():
        spec = table.get("spec") if isinstance(table, dict) else None
        yield Examiner("document", name, aside(partial(_examine_document, name, str(spec), environ)))


def _tool_count(catalog: Catalog, api: RestApi) -> str:
    count = sum(tool.rest is not None and tool.rest.api == api.name for tool in catalog.tools.values())
    return f", for {count} {'tool' if count == 1 else 'tools'}"


async def _reach(part: str, name: str, reach: Reach, more: str) -> Sequence[Diagnosis]:
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
            return [unreachable(part, name, reach.url, error.why)]
    took_ms = (trio.current_time() - began) * 1000
    is_ill = isinstance(status, int) and status >= 500
    said = f"it answers ({f'HTTP {status}' if isinstance(status, int) else status}){more}"
    facts: dict[str, object] = {"status": status}
    health = Health.WARNING if is_ill else Health.FINE
    return [Diagnosis(part=part, name=name, health=health, said=said, took_ms=took_ms, facts=facts)]


def unreachable(part: str, name: str, url: str, why: str) -> Diagnosis:
    """Tell that a host does not answer; one that stands for yours, as in an example, is a warning."""
    health, advice = Health.WRONG, advice_for(why)
    if EXAMPLE.match(urlsplit(url).hostname or ""):
        health, advice = Health.WARNING, "the name of its host is reserved for examples: say yours, or drop the table"
    return Diagnosis(part=part, name=name, health=health, said=why, advice=advice)


def _examine_document(name: str, spec: str, environ: Mapping[str, str]) -> Diagnosis:
    """The document of an API as it is kept: its hash and its age. Nothing is fetched."""
    if "${" in spec or not is_url(spec):
        return Diagnosis(part="document", name=name, said="a file, read at each start")
    kept = KeptDocuments(environ)
    document, path = kept.read(spec), kept.place_of(spec)
    if document is None or path is None:
        advice = f"tooldispatchd openapi {name} --update"
        return Diagnosis(part="document", name=name, health=Health.WRONG, said="not fetched yet", advice=advice)
    age_days = _age_days(path)
    is_old = age_days > OLD_DAYS
    return Diagnosis(
        part="document",
        name=name,
        health=Health.WARNING if is_old else Health.FINE,
        said=f"kept for {age_days:.0f} days",
        advice=f"tooldispatchd openapi {name} --update fetches it anew" if is_old else None,
        facts={"sha256": document.digest, "age_days": round(age_days, 1)},
    )


def _age_days(path: Path) -> float:
    try:
        return max(0.0, (time.time() - os.stat(path).st_mtime) / DAY_S)  # noqa: PTH116  # one call
    except OSError:
        return 0.0
