"""What an agent is told when something failed: a closed list of codes, each with its category.

A `Fault` is a value, never raised. It is serialised into `content` of a `tool_resp`, or its fields stand in a
`fault` line. The codes are those of the registry.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


# --- written from protocol/registry/faults.json by `make protocol` ---
class Category(StrEnum):
    """What can be done about a fault."""

    INVALID = "invalid"
    NOT_FOUND = "not_found"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"
    CONFIG = "config"


class Code(StrEnum):
    """Every fault code of the protocol; none is ever removed."""

    MALFORMED_LINE = "malformed_line"
    LINE_TOO_LONG = "line_too_long"
    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED_VERSION = "unsupported_version"
    DUPLICATE_ID = "duplicate_id"
    INVALID_INPUT = "invalid_input"
    INVALID_OUTPUT = "invalid_output"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_AGENT = "unknown_agent"
    UNKNOWN_PROFILE = "unknown_profile"
    UNKNOWN_JOB = "unknown_job"
    UNKNOWN_HANDLE = "unknown_handle"
    UNKNOWN_TARGET = "unknown_target"
    NOT_ALLOWED = "not_allowed"
    NOT_AUTHENTICATED = "not_authenticated"
    CALL_REFUSED = "call_refused"
    APPROVAL_REFUSED = "approval_refused"
    PROVIDER_NATIVE = "provider_native"
    BUDGET_EXCEEDED = "budget_exceeded"
    TIMEOUT = "timeout"
    CONNECTION_DEAD = "connection_dead"
    SERVER_UNAVAILABLE = "server_unavailable"
    QUEUE_FULL = "queue_full"
    RATE_LIMITED = "rate_limited"
    TOO_MANY = "too_many"
    DRAINING = "draining"
    CANCELLED = "cancelled"
    MISSING_TOOL = "missing_tool"
    TOOL_FAILED = "tool_failed"
    INTERNAL_ERROR = "internal_error"


CATEGORY: Final[dict[Code, Category]] = {
    Code.MALFORMED_LINE: Category.INVALID,
    Code.LINE_TOO_LONG: Category.INVALID,
    Code.INVALID_REQUEST: Category.INVALID,
    Code.UNSUPPORTED_VERSION: Category.INVALID,
    Code.DUPLICATE_ID: Category.INVALID,
    Code.INVALID_INPUT: Category.INVALID,
    Code.INVALID_OUTPUT: Category.INVALID,
    Code.UNKNOWN_TOOL: Category.NOT_FOUND,
    Code.UNKNOWN_AGENT: Category.NOT_FOUND,
    Code.UNKNOWN_PROFILE: Category.NOT_FOUND,
    Code.UNKNOWN_JOB: Category.NOT_FOUND,
    Code.UNKNOWN_HANDLE: Category.NOT_FOUND,
    Code.UNKNOWN_TARGET: Category.NOT_FOUND,
    Code.NOT_ALLOWED: Category.DENIED,
    Code.NOT_AUTHENTICATED: Category.DENIED,
    Code.CALL_REFUSED: Category.DENIED,
    Code.APPROVAL_REFUSED: Category.DENIED,
    Code.PROVIDER_NATIVE: Category.DENIED,
    Code.BUDGET_EXCEEDED: Category.DENIED,
    Code.TIMEOUT: Category.UNAVAILABLE,
    Code.CONNECTION_DEAD: Category.UNAVAILABLE,
    Code.SERVER_UNAVAILABLE: Category.UNAVAILABLE,
    Code.QUEUE_FULL: Category.UNAVAILABLE,
    Code.RATE_LIMITED: Category.UNAVAILABLE,
    Code.TOO_MANY: Category.UNAVAILABLE,
    Code.DRAINING: Category.UNAVAILABLE,
    Code.CANCELLED: Category.UNAVAILABLE,
    Code.MISSING_TOOL: Category.CONFIG,
    Code.TOOL_FAILED: Category.INTERNAL,
    Code.INTERNAL_ERROR: Category.INTERNAL,
}
# Codes after which the same call may succeed, if nothing of it has run.
LATER: Final = frozenset(
    {
        Code.SERVER_UNAVAILABLE,
        Code.QUEUE_FULL,
        Code.RATE_LIMITED,
        Code.TOO_MANY,
        Code.DRAINING,
    }
)
# --- end of what is written ---

# `error`, `category` and `detail` are always there and never overwritten; the others name where a `fault` line belongs.
RESERVED: Final = frozenset({"error", "category", "detail", "__port", "line", "id", "agent"})
# Extras that a reader needs beside the sentence, each on lines of its own.
_SHOWN: Final = ("answer", "stdout_tail", "stderr_tail")


class Fault(msgspec.Struct, frozen=True):
    """One failure as the agent is told it.

    `detail` is one readable sentence; `extras` holds the further fields that the registry lists for the code.
    An extra that bears a reserved name is left out.
    """

    code: Code
    detail: str
    extras: dict[str, object] = {}

    @property
    def category(self) -> Category:
        """The category of this fault's code."""
        return CATEGORY[self.code]

    def fields(self) -> dict[str, object]:
        """The fault as an object: `error`, `category`, `detail`, then the extras."""
        fields: dict[str, object] = {"error": self.code.value, "category": self.category.value, "detail": self.detail}
        fields.update((key, value) for key, value in self.extras.items() if key not in RESERVED)
        return fields

    def ran(self, *, may_have: bool) -> "Fault":
        """The fault of a call, with whether anything of its tool may have been begun: `ran` is `maybe`, else `no`.

        Where a provider has said it already, that stands: it may know better.
        """
        if "ran" in self.extras:
            return self
        return Fault(self.code, self.detail, {**self.extras, "ran": "maybe" if may_have else "no"})

    def content(self) -> str:
        """The fault as the `content` of a `tool_resp`: compact JSON."""
        return msgspec.json.encode(self.fields()).decode()

    def text(self) -> str:
        """Write the fault for a reader: code and sentence, then its handle, its answer and its tool's last output."""
        return text_of(self.fields())


def text_of(fault: Mapping[str, object]) -> str:
    """Write the fields of a fault for a reader, as `Fault.text`."""
    handle = fault.get("handle")
    told = [f"{fault.get('error')}: {fault.get('detail')}", *([f"handle: {handle}"] if handle else [])]
    return "\n".join([*told, *(str(fault[name]) for name in _SHOWN if fault.get(name))])
