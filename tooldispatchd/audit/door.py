"""Where the audit is reached: a store is opened to be written or read, and what it needs imported only then."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from secrets import token_hex
from typing import Protocol

from tooldispatchd.audit.record import AuditFilter, AuditStoreError, CallRecord, StoreNote
from tooldispatchd.audit.recorder import AuditLog, AuditStore, Recorder, open_recorder
from tooldispatchd.catalog.auditspec import AuditSpec, file_store
from tooldispatchd.catalog.confinement import size_of
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.installation import needs_postgres

__all__ = [
    "AuditFilter",
    "AuditReader",
    "AuditStoreError",
    "CallRecord",
    "StoreNote",
    "open_audit",
    "open_reader",
]


class AuditReader(Protocol):
    """Each method but `close` raises `AuditStoreError`.

    It `has_missed` some where these were removed before the last `news` could give them.
    """

    has_missed: bool

    def latest(self, wanted: AuditFilter, limit: int) -> list[CallRecord]:
        """The last so many that are wanted, the oldest first; with 0 all."""

    def all(self, wanted: AuditFilter) -> Iterator[CallRecord]:
        """All that are wanted, the oldest first."""

    def news(self, wanted: AuditFilter) -> list[CallRecord]:
        """Those that came since `latest`, or since the last time."""

    def notes(self, since: float) -> list[StoreNote]:
        """What happened to the audit itself since then."""

    def close(self) -> None: ...


def open_audit(spec: AuditSpec, log: AuditLog, *, masker: Masker) -> AbstractContextManager[Recorder]:
    """Open the recorder for a table that names a store. Raises `AuditStoreError`."""
    return open_recorder(_open_store(spec), log, run=token_hex(6), masker=masker, payloads=spec.payloads)


def _open_store(spec: AuditSpec) -> AuditStore:
    assert spec.store is not None
    kind, path = file_store(spec.store) or ("postgresql", spec.store)
    bounds = {"keep_s": spec.keep_s, "max_bytes": size_of(spec.max_bytes)}
    if kind == "sqlite":
        from tooldispatchd.audit.sqlitestore import SqliteStore  # noqa: PLC0415  # as the module says

        return SqliteStore(path, **bounds)  # type: ignore[arg-type]  # one of them is whole
    try:
        from tooldispatchd.audit.postgresstore import PostgresStore  # noqa: PLC0415  # as the module says
    except ImportError as error:
        raise AuditStoreError(needs_postgres()) from error
    return PostgresStore(spec.store, **bounds)  # type: ignore[arg-type]  # as above


def open_reader(store: str) -> AuditReader:
    """What reads a store. Raises `AuditStoreError`."""
    kind, path = file_store(store) or ("postgresql", store)
    if kind == "sqlite":
        from tooldispatchd.audit.sqlitestore import SqliteReader  # noqa: PLC0415  # as the module says

        return SqliteReader(path)
    try:
        from tooldispatchd.audit.postgresstore import PostgresReader  # noqa: PLC0415  # as the module says
    except ImportError as error:
        raise AuditStoreError(needs_postgres()) from error
    return PostgresReader(store)
