"""Where a record of each call is kept, and for how long."""

from typing import Annotated

from msgspec import Meta

from tooldispatchd.catalog.secrecy import Spec
from tooldispatchd.catalog.speckinds import DURATION_S, Size

StoreText = Annotated[str, Meta(pattern=r"^(sqlite|jsonl):[^\x00]+$", max_length=4_096)]
KeepText = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,4}[hd]$")]


class AuditSpec(Spec, frozen=True, kw_only=True):
    """`[audit]`: a [record of each call](audit.md), for whoever has to know later what was called."""

    store: StoreText | None = None
    """Where the records are kept: `"sqlite:PATH"`, or `"jsonl:PATH"`, a line of JSON each. By default nothing is
    recorded."""
    keep: KeepText = "30d"
    """How long a record is kept: `"30d"`, `"12h"`."""
    max_bytes: Size = "1G"
    """How large the store may be; the oldest records go first. By default some two million calls without payloads."""
    payloads: bool = False
    """With `true` the beginnings of input and answer are recorded too, up to 16 KiB each, with known secrets masked. By
    default only their sizes, and the SHA-256 of the input."""

    @property
    def keep_s(self) -> float:
        """`keep` in seconds."""
        return int(self.keep[:-1]) * DURATION_S[self.keep[-1]]


def store_parts(store: str) -> tuple[str, str]:
    """The kind of a store, and its path."""
    kind, _, path = store.partition(":")
    return kind, path
