"""Where spans of calls are sent."""

from typing import Annotated, Final

from msgspec import Meta

from tooldispatchd.catalog.secrecy import Secret, Spec
from tooldispatchd.catalog.speckinds import HeaderName, HeaderValue

URL_PATTERN: Final = r"^https?://[^\s\x00\ufeff]+$"
CollectorUrl = Annotated[str, Meta(pattern=URL_PATTERN, max_length=2_048)]


class TracesSpec(Spec, frozen=True, kw_only=True):
    """`[traces]`: [spans of OpenTelemetry](operating.md#traces); needs `tooldispatchd[otel]`."""

    endpoint: Secret[CollectorUrl] | None = None
    """Where a collector takes OTLP over HTTP, such as `"http://127.0.0.1:4318"`. By default nothing is sent."""
    headers: dict[HeaderName, Secret[HeaderValue]] = {}
    """What each request to it bears besides, such as a key."""
