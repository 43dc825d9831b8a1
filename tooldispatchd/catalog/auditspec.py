"""Where a record of each call is kept, and for how long."""

import re
from typing import Annotated, Final

from msgspec import Meta

from tooldispatchd.catalog.secrecy import SecretStore, Spec
from tooldispatchd.catalog.speckinds import DURATION_S, Size

# Its form is that of `file_store` or `is_database`, once its variables are in place.
AuditStoreText = Annotated[str, Meta(min_length=1, max_length=4_096)]
KEEP_PATTERN: Final = r"^[1-9][0-9]{0,4}[hd]$"
KeepText = Annotated[str, Meta(pattern=KEEP_PATTERN)]


class AuditSpec(Spec, frozen=True, kw_only=True):
    """`[audit]`: a [record of each call](audit.md), for whoever has to know later what was called."""

    store: SecretStore[AuditStoreText] | None = None
    """Where the records are kept: `"sqlite:PATH"` or
    [`"postgresql://USER:PASSWORD@HOST/DATABASE"`](audit.md#postgresql). By default nothing is recorded."""
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


STORES: Final = '"sqlite:PATH" or "postgresql://USER:PASSWORD@HOST/DATABASE", with "%40" for "@"'
# As libpq reads them; and nowhere another `@`, with which a part of the password would be a host.
_URL: Final = re.compile(r"postgres(?:ql)?://(?:[^\s:@/?#]*(?::(?P<password>[^\s:@/?#]*))?@)?[^\s@#]*")
_FILE: Final = re.compile(r"(?P<kind>sqlite):(?P<path>[^\x00]+)")


def file_store(store: str) -> tuple[str, str] | None:
    """The kind of a store in a file, and its path; None of another store."""
    found = _FILE.fullmatch(store)
    return None if found is None else (found["kind"], found["path"])


def is_database(store: str) -> bool:
    """Whether it is the URL of a database, in which each sign stands as in URLs."""
    return _URL.fullmatch(store) is not None


def password_in(store: str) -> str | None:
    """The password in the URL of a database, as it stands there."""
    found = _URL.fullmatch(store)
    return None if found is None else found["password"]
