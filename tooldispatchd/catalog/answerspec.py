"""What is done with the answers of a server or an API that are late, or are not what was said of them."""

from typing import Final, Literal

from tooldispatchd.catalog.policyspec import PolicySpec
from tooldispatchd.catalog.speckinds import Seconds

OutputCheck = Literal["strict", "warn"]
# An hour: a build, a crawl or an index, each of which tells how far it is.
MAX_CALL_S: Final = 3_600.0


class ServerAnswersSpec(PolicySpec, frozen=True, kw_only=True):
    """The keys of `[mcp.NAME]` about the answers to its calls."""

    output_check: OutputCheck = "strict"
    """An answer that breaks the tool's own output schema: with `strict` the call has failed, and its fault
    (`invalid_output`) carries the answer; with `warn` it is the answer, with a warning in `meta` and in the log. A type
    that the configuration declares is always checked strictly."""
    reset_timeout_on_progress: bool = False
    """With `true` each `notifications/progress` of a call begins its `call_s` anew, up to `max_call_s` in all."""
    max_call_s: Seconds = MAX_CALL_S
    """How long a call may take in all, in seconds, where progress begins its limit anew."""
