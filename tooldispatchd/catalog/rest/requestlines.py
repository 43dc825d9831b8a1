"""What was understood of requests and their APIs, in lines for a person; of a URL the origin alone, and no secret."""

from collections.abc import Iterator

from tooldispatchd.catalog.rest.apis import credential_kinds
from tooldispatchd.catalog.rest.declared import RestApi, RestTool


def lines_of_request(tool: RestTool) -> Iterator[str]:
    """How its answer is read."""
    spec = tool.spec
    if spec.pick is not None:
        yield f"answer: what stands at {spec.pick or 'its root'}"
    if spec.map is not None:
        yield f"answer: by the expression {' '.join(spec.map.split())}"
    if spec.paginate is not None:
        yield f"pages: by {spec.paginate.by}, at most {spec.paginate.max_pages}, as one list"
    if spec.stream is not None:
        yield f"stream: {spec.stream.format}, whose tokens are told as they come"


def lines_of_api(api: RestApi, default_call_s: float) -> Iterator[str]:
    """Where an API is, and how the daemon is known there."""
    spec = api.spec
    yield f"at: {api.origin}"
    yield f"credentials: {', '.join(credential_kinds(api)) or 'none'}"
    yield f"limits: {spec.call_s or default_call_s:g} s a call, {spec.max_bytes:,} bytes an answer"
    if spec.hosts:
        yield f"redirects: within its origin, and to {len(spec.hosts)} of its hosts"
