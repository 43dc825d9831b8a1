"""What is known of a call once it has ended, for whoever keeps account of calls. Pure."""

import msgspec
from msgspec import Raw


class SessionCaller(msgspec.Struct, frozen=True, gc=False):
    """Whose calls they are: one for each session.

    `agent` is its name on its channel, None for the channel's own; `uid` the user at the channel's other end, -1 for an
    MCP client over HTTP. `session` and `root` are numbers of the log; both are 0 where no session could be opened.
    """

    profile: str | None
    agent: str | None
    uid: int
    session: int = 0
    root: int = 0


class EndedCall(msgspec.Struct, frozen=True, gc=False):
    """One call. `at` is when it came, in Unix seconds; of `total_s` it waited for so long, and then ran.

    `input` is what its tool got, or what came where it got nothing, `content` the answer where payloads are kept.
    `code` is that of a fault; without one `is_error` says that the tool itself said that it failed.
    """

    caller: SessionCaller
    at: float
    id: str
    tool: str
    provider: str | None
    input: bytes | bytearray | None
    bytes_in: int
    bytes_out: int
    waited_s: float
    total_s: float
    is_error: bool
    code: str | None
    trace: str | None
    approval: str | None = None
    cache: str | None = None
    details: Raw | None = None
    content: str | None = None


class StoreFailure(msgspec.Struct, frozen=True):
    """A store of records that cannot be written, since when in Unix seconds, and why."""

    since: float
    why: str
