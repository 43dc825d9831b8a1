"""A negotiation from outside: its kinds, what servers say, and the step that is there."""

import msgspec
from msgspec import Raw

from tooldispatchd.providers.mcp.messages import Incoming
from tooldispatchd.providers.mcp.negotiation import Agreed, Negotiation, NegotiationFailure, Older, Respawn, Send
from tooldispatchd.providers.mcp.remembered import Era
from tooldispatchd.wire.faults import Code, Fault

DISCOVERED = Incoming(
    id=1, result=Raw(b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}')
)
INITIALIZED = Incoming(id=1, result=Raw(b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}'))
UNKNOWN = Incoming(id=1, error=Raw(b'{"code":-32601,"message":"Method not found"}'))


def stdio(protocol: str = "auto", remembered: Era | None = None) -> Negotiation:
    return Negotiation(protocol, remembered, capabilities={}, is_http=False, has_older_way=False)


def http(protocol: str = "auto", remembered: Era | None = None, *, has_older_way: bool = True) -> Negotiation:
    return Negotiation(protocol, remembered, capabilities={}, is_http=True, has_older_way=has_older_way)


def unsupported(*supported: str) -> Incoming:
    error = {"code": -32022, "message": "no", "data": {"supported": supported, "requested": "2026-07-28"}}
    return Incoming(id=1, error=Raw(msgspec.json.encode(error)))


def status(number: int, **extras: object) -> Fault:
    reason = f"it answered with HTTP {number}"
    return Fault(Code.TOOL_FAILED, f"the call failed: {reason}", {"reason": reason, "http_status": number, **extras})


def sent(negotiation: Negotiation) -> Send:
    step = negotiation.step
    assert isinstance(step, Send)
    return step


def relinked(negotiation: Negotiation) -> Respawn | Older:
    step = negotiation.step
    assert isinstance(step, Respawn | Older)
    return step


def agreed(negotiation: Negotiation) -> Agreed:
    step = negotiation.step
    assert isinstance(step, Agreed)
    return step


def failed(negotiation: Negotiation) -> NegotiationFailure:
    step = negotiation.step
    assert isinstance(step, NegotiationFailure)
    return step
