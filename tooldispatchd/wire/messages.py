"""The envelopes of the protocol as Structs, one for each port and direction (protocol/registry/ports.json).

What comes from an agent is decoded into these and nothing else; unknown fields are ignored. `input` stays `Raw`: only
the tool's own plan decodes it. What may be left out may be null: many encoders write what they do not have. What goes
to an agent leaves out fields at their default.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from tooldispatchd.wire.opening import OpeningLine

PROTOCOL: Final = 1
# A line may be nested as deep as this, each bracket that is open counting for one; deeper ones may be refused.
DEPTH: Final = 128
MAX_ID_BYTES: Final = 512
# A longer content stands in its line once.
MAX_VALUE_BYTES: Final = 64 * 1024
# Tags and tools that one session may have switched: as many as a server may have tools, and no more to remember.
MAX_SWITCHES: Final = 1024
# Less would not hold what is said of an answer that is longer.
MIN_OUTPUT_BYTES: Final = 1024

# As in the configuration, which knows nothing of the wire.
ORDER_PATTERN: Final = r"^(parallel|sequential|batched:[1-9][0-9]{0,5})$"

Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_BYTES)]
# As long as an id: a runtime may use one for the other.
AgentName = Annotated[str, Meta(min_length=1, max_length=MAX_ID_BYTES)]
Switches = Annotated[dict[str, bool], Meta(max_length=MAX_SWITCHES)]


class ContentKind(StrEnum):
    """What `content` is: JSON, a text as a model should read it, or the text of `blocks`, which stand beside it."""

    JSON = "json"
    TEXT = "text"
    BLOCKS = "blocks"


# --- from an agent -------------------------------------------------------------------------------------------------


class ShortReq(msgspec.Struct):
    """A `tool_req` in the short form, without `__port`; its answer carries no `__port` either."""

    id: Id
    name: str
    input: Raw | UnsetType = UNSET
    agent: AgentName | None = None
    deadline_ms: Annotated[float, Meta(gt=0)] | None = None
    background: bool | None = False
    traceparent: str | None = None
    content: ContentKind | None = None
    """The kind of content of this answer; left out, the session's."""
    turn: Annotated[str, Meta(max_length=MAX_ID_BYTES)] | int | float | None = None
    """Which turn of its model the call belongs to, in the runtime's own count."""
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    """How much of an answer its model has room for."""
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """The same in tokens; what is less holds."""

    @property
    def has_bound(self) -> bool:
        """Whether it says how much of an answer there is room for."""
        return self.max_bytes is not None or self.max_tokens is not None


class ToolReq(ShortReq, tag_field="__port", tag="tool_req"):
    """Call the tool `name` with `input`; answered by exactly one `tool_resp` with the same `id`."""

    msg: UnsetType | None = UNSET
    """Anything else makes it a `NestedReq`."""


class NestedReq(msgspec.Struct, tag_field="__port", tag="tool_req"):
    """A `tool_req` whose fields stand in `msg`; its answer is nested likewise.

    `agent` may stand in `msg` or beside it; `wire.decode` has put it into `msg`.
    """

    msg: ShortReq
    agent: AgentName | None = None


class Switched(msgspec.Struct):
    """Which tools are on and which are off, by their tags and by their names."""

    tags: Switches | None = None
    tools: Switches | None = None


class Hello(msgspec.Struct, tag_field="__port", tag="hello"):
    """Open a session under a profile; answered by `ready` or refused by `fault`.

    With `agent` it opens a named instance. `meta` asks for `meta` in answers (an agent may also put there what it wants
    to say of itself, which is taken and not used), `updates` for `tool_update` and `tools_changed`; `answers` lists
    what it can be asked: `approve`, `sampling`, `elicitation`.
    """

    agent: AgentName | None = None
    profile: str | None = None
    token: str | None = None
    spec: Raw | UnsetType = UNSET
    schemas: str | None = None
    meta: Raw | UnsetType = UNSET
    updates: bool | None = False
    answers: list[str] | None = []
    id: Id | None = None
    protocol: list[int] | None = None
    """The versions that the agent speaks; left out, the first."""
    capabilities: list[str] | None = None
    """What else the agent asks for, or understands; `value`, `servers` and `opening` change something."""
    content: ContentKind | None = None
    """The kind of content of its answers; left out, JSON, and what an MCP server said as it said it."""
    details: bool | None = False
    """Asks for what a tool says to the runtime, and not to the model."""
    events: bool | list[str] | None = None
    """Asks to be told what happens: all of it, or these kinds."""
    order: Annotated[str, Meta(pattern=ORDER_PATTERN)] | None = None
    """How its calls run where the profile does not say: `parallel`, `sequential` or `batched:N`."""
    workspace: str | None = None
    """The directory of the session's own."""
    select: Switched | None = None
    """What a `select` right after it would say."""
    max_output: Annotated[int, Meta(ge=MIN_OUTPUT_BYTES)] | None = None
    """How much of an answer it takes whole, where the daemon's configuration does not say."""


class ToolsReq(msgspec.Struct, tag_field="__port", tag="tools"):
    """Ask for the list of tools; answered by `tools`."""

    agent: AgentName | None = None
    schemas: str | None = None
    id: Id | None = None
    tags: Switches | None = None
    """Switched for this list alone; so is `tools`."""
    tools: Switches | None = None


class Select(ToolsReq, tag_field="__port", tag="select"):
    """Switch tools on and off for the session; answered by `tools`, the list as it is then."""


class ToolCancel(msgspec.Struct, tag_field="__port", tag="tool_cancel"):
    """Cancel the call `id`; its own `tool_resp` says `cancelled`. An unknown id is ignored.

    In the place of an id `all` means every call and job of the agent, and `waiting` those that do not run yet.
    """

    id: str | None = None
    agent: AgentName | None = None
    all: bool | None = False
    waiting: bool | None = False

    def __post_init__(self) -> None:
        if (self.id is None) is not bool(self.all or self.waiting):
            raise ValueError("tool_cancel has an id, or else all or waiting")


class ToolBackground(msgspec.Struct, tag_field="__port", tag="tool_background"):
    """Make a job of the call `id`: its `tool_resp` names the job, or a `fault` line says why it cannot be one."""

    id: Id
    agent: AgentName | None = None


class Parse(msgspec.Struct, tag_field="__port", tag="parse"):
    """Find the calls in what a model wrote; answered by `parsed`."""

    text: str
    agent: AgentName | None = None
    id: Id | None = None


class Ping(msgspec.Struct, tag_field="__port", tag="ping"):
    """Answered by `pong` with the same `t`, also before `hello`."""

    t: Raw | UnsetType = UNSET
    id: Id | None = None


class AdminReq(msgspec.Struct, tag_field="__port", tag="admin_req"):
    """Ask the daemon about itself, or change it; answered by `admin_resp`. `ask` says what for, all else of what."""

    id: Id
    ask: str
    of: str | None = None
    session: int | None = None
    agent: AgentName | None = None
    tool: str | None = None
    server: str | None = None
    call: str | None = None
    job: str | None = None
    level: str | None = None
    apply: bool | None = False


class PongSaid(msgspec.Struct, tag_field="__port", tag="pong"):
    """An agent's answer to a ping; nothing waits for it."""


class ByeSaid(msgspec.Struct, tag_field="__port", tag="bye"):
    """End the session; answered by `bye` when its teardown is done."""

    agent: AgentName | None = None
    id: Id | None = None


class ApproveResp(msgspec.Struct, tag_field="__port", tag="approve_resp"):
    """The agent's verdict on the call of `approve_req` with the same `id`; an unknown id is ignored."""

    id: str
    allow: bool
    agent: AgentName | None = None
    reason: str | None = None
    remember: bool | Literal["tool"] | None = False


class AskResp(msgspec.Struct, tag_field="__port", tag="ask_resp"):
    """The agent's answer to `ask` with the same `id`: a `result`, or `refuse`, which wins; an unknown id is ignored."""

    id: str
    agent: AgentName | None = None
    result: Raw | UnsetType = UNSET
    refuse: bool | str | None = False


Request = ToolReq | ShortReq | NestedReq
Reply = ApproveResp | AskResp
Message = (
    ToolReq
    | ShortReq
    | NestedReq
    | Hello
    | ToolsReq
    | Select
    | Parse
    | ToolCancel
    | ToolBackground
    | Reply
    | AdminReq
    | Ping
    | PongSaid
    | ByeSaid
)


class QuotedText:
    """A long text as the JSON string that it is on the wire, `literal`; in UTF-8 it has `size` bytes, unescaped.

    Or a long list of parts, which is the same in JSON and otherwise.

    It goes to the agent as it is: decoding it, or copying it, would hold the dispatch thread.
    """

    __slots__ = ("literal", "size")

    def __init__(self, literal: bytes | bytearray, size: int) -> None:
        self.literal = literal
        self.size = size

    def __len__(self) -> int:
        return self.size


# --- to an agent ---------------------------------------------------------------------------------------------------


class CallMeta(msgspec.Struct, frozen=True):
    """What a call took, for agents that asked with `meta` in `hello`; sizes are of the input and of `content`.

    `latency_ms` is from the request to its answer, of which it waited `queued_ms`. `provider` is a server's name, else
    the `kind`. A `cached` answer is another call's, made `age_ms` before. `child` is the session of the agent that the
    call started, of a chain the last one's. `dropped` are JSON pointers to nulls of the input that were taken as left
    out; `warnings` say what is wrong with an answer that is given all the same.
    """

    latency_ms: float
    queued_ms: float
    kind: str
    provider: str
    bytes_in: int
    bytes_out: int
    cached: bool = False
    age_ms: int | UnsetType = UNSET
    child: int | UnsetType = UNSET
    dropped: list[str] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class Beside(msgspec.Struct, frozen=True):
    """What an agent asked for beside an answer's content; `job` is the id of the job that the call became."""

    meta: CallMeta | None = None
    value: Raw | UnsetType = UNSET
    kind: ContentKind | None = None
    blocks: Raw | QuotedText | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    job: str | None = None


NOTHING_BESIDE: Final = Beside()


class ShortResp(msgspec.Struct, omit_defaults=True):
    """The answer to a request in the short form; the fields from `meta` on are those of `Beside`."""

    id: str
    content: str
    is_error: bool
    fault: bool = False
    agent: str | None = None
    meta: CallMeta | None = None
    value: Raw | UnsetType = UNSET
    kind: ContentKind | None = None
    blocks: Raw | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    job: str | None = None


class ToolResp(ShortResp, tag_field="__port", tag="tool_resp", omit_defaults=True):
    """The answer to a request: `content` is always a string; `fault` is true exactly when the daemon wrote it."""


class NestedResp(msgspec.Struct, tag_field="__port", tag="tool_resp"):
    """The answer to a nested request."""

    msg: ShortResp


class ToolView(msgspec.Struct, omit_defaults=True):
    """One tool as a model is shown it, in the plain form of schemas."""

    name: str
    description: str
    input_schema: Raw
    title: str | None = None
    tags: tuple[str, ...] = ()
    """Words by which it is chosen."""
    unenforced: tuple[str, ...] = ()
    """Bounds that were asked for its program and that the daemon's machine cannot enforce."""


class PassingServer(msgspec.Struct, frozen=True):
    """A server that an agent may speak with beyond its tools, and what the server says that it offers besides them."""

    server: str
    prefix: str
    capabilities: dict[str, dict[str, object]]


class Ready(msgspec.Struct, tag_field="__port", tag="ready", omit_defaults=True):
    """The session is open, with these tools; `warnings` name what did not come up.

    `capabilities` are those that the daemon knows, each with whether this session has it; `limits` are the bounds that
    an agent may want to know: `line` and `content` in bytes, `in_flight`, and `depth`.
    """

    profile: str
    protocol: int
    tools: list[ToolView]
    warnings: list[str]
    capabilities: dict[str, bool] = {}
    limits: dict[str, int] = {}
    agent: str | None = None
    instructions: str | None = None
    id: str | None = None
    prompt: str | None = None
    """What to put into a model's prompt, in the form `text`."""
    servers: list[PassingServer] = []
    edition: str | None = None


class ReadyLine(msgspec.Struct, tag_field="__port", tag="ready", omit_defaults=True):
    """`Ready` as it is written: each tool is JSON already, in the form of schemas that the agent asked for."""

    profile: str
    protocol: int
    tools: list[Raw]
    warnings: list[str]
    capabilities: Raw | UnsetType = UNSET
    limits: Raw | UnsetType = UNSET
    agent: str | None = None
    instructions: str | None = None
    id: str | None = None
    prompt: str | None = None
    servers: list[Raw] | UnsetType = UNSET
    edition: str | None = None


class Tools(msgspec.Struct, tag_field="__port", tag="tools", omit_defaults=True):
    """The list of tools, as an answer to `tools`."""

    tools: list[ToolView]
    agent: str | None = None
    id: str | None = None
    prompt: str | None = None


class ToolsLine(msgspec.Struct, tag_field="__port", tag="tools", omit_defaults=True):
    """`Tools` as it is written, in whichever form of schemas."""

    tools: list[Raw]
    agent: str | None = None
    id: str | None = None
    prompt: str | None = None


class ToolsChanged(msgspec.Struct, tag_field="__port", tag="tools_changed", omit_defaults=True):
    """The tools of an agent that asked for updates are these from now on."""

    tools: list[ToolView]
    agent: str | None = None
    prompt: str | None = None


class ToolsChangedLine(msgspec.Struct, tag_field="__port", tag="tools_changed", omit_defaults=True):
    """`ToolsChanged` as it is written, in whichever form of schemas."""

    tools: list[Raw]
    agent: str | None = None
    prompt: str | None = None


class ToolUpdate(msgspec.Struct, tag_field="__port", tag="tool_update", omit_defaults=True):
    """How far the call `id` is, for agents that asked for updates; may be left out, never comes after the answer."""

    id: str
    agent: str | None = None
    progress: float | None = None
    total: float | None = None
    message: str | None = None
    content: str | None = None


class EventKind(StrEnum):
    """What an event tells of."""

    TOOL_STARTED = "tool_started"
    TOOL_FINISHED = "tool_finished"
    JOB_DONE = "job_done"
    CHILD_STARTED = "child_started"
    CHILD_FINISHED = "child_finished"
    SERVER_UP = "server_up"
    SERVER_DEAD = "server_dead"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"


class EventLine(msgspec.Struct, tag_field="__port", tag="event", omit_defaults=True, kw_only=True):
    """Something happened `at` that time (Unix seconds), for agents that asked for this kind; each has its own fields.

    `dropped` events were not told before this one, because the agent did not read.
    """

    kind: str
    at: float
    agent: str | None = None
    id: str | None = None
    job: str | None = None
    tool: str | None = None
    provider: str | None = None
    queued_ms: float | None = None
    is_error: bool | None = None
    code: str | None = None
    took_ms: float | None = None
    bytes: int | None = None
    server: str | None = None
    reason: str | None = None
    child: int | None = None
    root: int | None = None
    parent: int | None = None
    depth: int | None = None
    dropped: int | None = None


class Parsed(msgspec.Struct, tag_field="__port", tag="parsed", omit_defaults=True):
    """The answer to `parse`: each of `calls` has a `name` and an `input`; `malformed` tells what is to be mended."""

    calls: list[Raw]
    malformed: list[Raw] = []
    agent: str | None = None
    id: str | None = None


class Caller(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose call it is that another agent is asked about."""

    profile: str
    agent: str | None = None


class ApproveReq(msgspec.Struct, tag_field="__port", tag="approve_req", omit_defaults=True):
    """May this call run? Answered by `approve_resp` with the same `id`, which is the daemon's own."""

    id: str
    name: str
    input: Raw
    reason: str
    agent: str | None = None
    sha256: str | None = None
    """Of `input` as it stands here, in hex."""
    call: str | None = None
    """The agent's own call, by its id or its job's."""
    caller: Caller | None = None
    """Whose call it is, where it is none of the agent that is asked."""


class Ask(msgspec.Struct, tag_field="__port", tag="ask", omit_defaults=True):
    """What a server asks of the agent's model or person; answered by `ask_resp` with the same `id`, our own."""

    id: str
    kind: str
    server: str
    params: Raw
    agent: str | None = None
    call: str | None = None
    """The agent's call that it belongs to, by its id or its job's."""
    key: str | None = None
    """The server's own key of it, where a server asks for several things at once."""
    more: bool = False
    """Whether the next of these things follows in the next line."""


class ServerNote(msgspec.Struct, tag_field="__port", tag="server_note", omit_defaults=True):
    """What a server says unasked: a notification of its protocol, for an agent that asked for `servers`."""

    server: str
    method: str
    params: Raw
    agent: str | None = None


class AdminResp(msgspec.Struct, tag_field="__port", tag="admin_resp"):
    """The answer to what an administrator asked."""

    id: str
    value: Raw


class AdminNote(msgspec.Struct, tag_field="__port", tag="admin_note", omit_defaults=True):
    """One more value for the subscription `id`; `dropped` were not told before it, because nobody read."""

    id: str
    value: Raw
    dropped: int | None = None


class Pong(msgspec.Struct, tag_field="__port", tag="pong", omit_defaults=True):
    """The answer to a ping."""

    t: Raw | UnsetType = UNSET
    id: str | None = None


class Bye(msgspec.Struct, tag_field="__port", tag="bye", omit_defaults=True):
    """The session's teardown is done."""

    agent: str | None = None
    id: str | None = None


class FaultLine(msgspec.Struct, tag_field="__port", tag="fault", omit_defaults=True):
    """The fields that a `fault` line may have; a fault's own extras are added beside them.

    `line` is there always, but an older daemon may leave it out. It is 0 where there was no line.
    """

    error: str
    category: str
    detail: str
    line: int | None = None
    id: str | None = None
    agent: str | None = None


Outgoing = (
    ToolResp
    | ShortResp
    | NestedResp
    | ReadyLine
    | OpeningLine
    | ToolsLine
    | ToolsChangedLine
    | Parsed
    | ToolUpdate
    | EventLine
    | ApproveReq
    | Ask
    | ServerNote
    | AdminResp
    | AdminNote
    | Pong
    | Bye
    | dict[str, object]
)
