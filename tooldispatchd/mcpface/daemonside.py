"""The daemon's side of the face: one session on our own wire.

It is a named agent's, since that may say `hello` again after it was refused.

    NEW ── hello ──▶ OPENING ── ready ──▶ OPEN ── bye, to open it anew ──▶ OPENING
                        └────── fault ──▶ REFUSED ── hello ──▶ OPENING        any ── end of the channel ──▶ LOST

Each call has a continuation, which runs exactly once: with the answer, or with one that this side writes itself
where the channel is lost. What is asked for before the session is open waits for it; the daemon bounds how long.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.jsonrpc import UNAVAILABLE, UNREADABLE, members

AGENT: Final = "mcp"
# In bytes: more than any answer has.
_WHOLE: Final = 1 << 40
_read_extensions: Final = msgspec.json.Decoder(dict[str, dict[str, object]]).decode


class PassedServer(msgspec.Struct, frozen=True):
    """A server of the session whose resources and prompts may be used (extension `servers`)."""

    server: str
    prefix: str
    capabilities: dict[str, Raw]

    @property
    def extensions(self) -> dict[str, dict[str, object]]:
        """What it says of each extension that it has; empty where that cannot be read."""
        try:
            return _read_extensions(self.capabilities.get("extensions", b"{}"))
        except UNREADABLE:
            return {}


class DaemonLine(msgspec.Struct):
    """The fields of every line of the daemon that the face reads, and of a job, in one Struct."""

    port: str = msgspec.field(name="__port", default="")
    id: str | None = None
    agent: str | None = None
    # tool_resp, and a job that is done
    content: str | None = None
    is_error: bool = False
    fault: bool = False
    blocks: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    # tool_update, and a job that runs
    progress: float | None = None
    total: float | None = None
    message: str | None = None
    # also of a call that has become one
    job: str | None = None
    state: str | None = None
    # ready, tools_changed
    tools: list[Raw] = []
    instructions: str | None = None
    warnings: list[str] = []
    capabilities: dict[str, object] = {}
    limits: dict[str, object] = {}
    servers: list[PassedServer] = []
    complete: bool = False
    # fault
    detail: str | None = None
    # ask, approve_req, server_note
    kind: str | None = None
    method: str | None = None
    params: Raw | UnsetType = UNSET
    call: str | None = None
    key: str | None = None
    more: bool = False
    name: str | None = None
    input: Raw = Raw(b"null")
    reason: str | None = None
    sha256: str | None = None
    caller: dict[str, str] | None = None


class ToldFault(msgspec.Struct):
    """What is read of a fault; its JSON is passed on as it is."""

    error: str
    detail: str
    ran: str | None = None
    rpc_code: object = None
    rpc_data: Raw | UnsetType = UNSET


Continuation = Callable[[DaemonLine], None]

read_line: Final = msgspec.json.Decoder(DaemonLine).decode
_read_fault: Final = msgspec.json.Decoder(ToldFault).decode
# The fields of a `fault` line that are not the fault's.
_ENVELOPE: Final = ("__port", "agent", "line", "id")
_NULL: Final = Raw(b"null")


def fault_of(line: DaemonLine) -> ToldFault | None:
    """The fault that an answer is; None where the tool itself failed."""
    if not line.fault or line.content is None:
        return None
    try:
        return _read_fault(line.content)
    except UNREADABLE:
        return ToldFault("internal_error", line.content)


class Phase(Enum):
    """Where the session is."""

    NEW = auto()
    OPENING = auto()
    OPEN = auto()
    REFUSED = auto()
    LOST = auto()


class DaemonSide:
    """Opens the session, makes calls, and gives what the daemon says to whoever waits for it."""

    def __init__(self, client: ClientSide, *, profile: str | None, token: str | None) -> None:
        self.to_daemon: list[bytes] = []
        self.to_log: list[str] = []
        """What people should know of the session: the daemon's warnings, and why it refused."""
        self.phase = Phase.NEW
        self.tools: list[Raw] = []
        self.instructions: str | None = None
        self.capabilities: dict[str, object] = {}
        self.servers: list[PassedServer] = []
        self.knows_all: bool | None = None
        """Before the session is open: whether the daemon has told something of each server; None for nothing yet."""
        self.listeners: dict[str, Continuation] = {}
        """By port: what hears a line that answers no call of ours."""
        self.is_held = False
        """Whether what waits goes on waiting although the session is open."""
        self._client = client
        self._refusal = "the session is not open"
        self._fault: Raw | UnsetType = UNSET
        """The daemon's own words for that."""
        self._hello: dict[str, object] = {"profile": profile, "token": token}
        self._hellos = 0
        self._warnings: list[str] = []
        self._is_reopening = False
        self._settled: list[Callable[[], None]] = []
        self._told: list[Callable[[], None]] = []
        self._waiting: list[tuple[ClientRequest, Callable[[ClientRequest], None]]] = []
        self._calls: dict[str, tuple[Continuation, Continuation | None]] = {}
        """By their ids: what takes the answer, and what takes updates."""
        self._numbers = 0
        self._max_line_bytes = 8 * 1024 * 1024
        """The daemon's default, until `ready` says its own."""

    def open(self, answers: list[str]) -> None:
        """Say `hello`, unless a session is open or on its way. A refused one is asked for again."""
        if self.phase in (Phase.NEW, Phase.REFUSED):
            self._hello["answers"] = answers or None
            self._say_hello()

    def reopen(self, workspace: str | None) -> None:
        """End the session and open it anew with this workspace. Only while no call is in flight."""
        self._hello["workspace"] = workspace
        if self.phase is Phase.OPEN:
            self.phase, self._is_reopening = Phase.OPENING, True
            self._say({"__port": "bye"})
        elif self.phase is Phase.REFUSED:
            self._say_hello()

    def when_settled(self, then: Callable[[], None]) -> None:
        """Run `then` once the session is open, refused or lost."""
        if self.phase in (Phase.NEW, Phase.OPENING):
            self._settled.append(then)
        else:
            then()

    def when_told(self, then: Callable[[], None]) -> None:
        """Run `then` once the daemon has told what it knows, unless the session settles first."""
        self._told.append(then)
        self._tell()

    def _tell(self) -> None:
        if self.knows_all is not None:
            told, self._told = self._told, []
            for then in told:
                then()

    def when_open(self, request: ClientRequest, then: Callable[[ClientRequest], None]) -> None:
        """Run `then` when the session is open; fail `request` if it is refused."""
        self._waiting.append((request, then))
        self.flush()

    def flush(self) -> None:
        """Run what waits, if it can now."""
        if self.phase in (Phase.NEW, Phase.OPENING) or (self.is_held and self.phase is Phase.OPEN):
            return
        waiting, self._waiting = self._waiting, []
        for request, then in waiting:
            if request.number in self._client.open:
                (then if self.phase is Phase.OPEN else self.refuse)(request)

    def refuse(self, request: ClientRequest) -> None:
        """Tell that there is no session, and why."""
        self._client.fail(request, UNAVAILABLE, self._refusal, self._fault)

    def call(
        self,
        name: str,
        arguments: Raw | UnsetType,
        then: Continuation,
        *,
        wire_id: str | None = None,
        update: Continuation | None = None,
        background: bool | None = None,
        traceparent: str | None = None,
    ) -> None:
        """Call a tool; `then` runs once. The id on the wire is `wire_id`, or one of its own."""
        if self.phase is not Phase.OPEN:
            then(_fault_line("draining", "unavailable", self._refusal, ran="no"))
            return
        if wire_id is None:
            self._numbers += 1
            wire_id = f"own-{self._numbers}"
        said: dict[str, object] = {"__port": "tool_req", "id": wire_id, "name": name}
        # Many encoders write what they do not have.
        is_left_out = isinstance(arguments, UnsetType) or arguments == _NULL
        said["input"] = Raw(b"{}") if is_left_out else arguments
        # A line that is too long would be answered without its id.
        if self._say({**said, "background": background, "traceparent": traceparent}):
            self._calls[wire_id] = then, update
        else:
            why = f"the request is longer than {self._max_line_bytes} bytes"
            then(_fault_line("line_too_long", "invalid", why, ran=None))

    def cancel(self, wire_id: str) -> None:
        """End a call; its answer still comes."""
        if wire_id in self._calls:
            self._say({"__port": "tool_cancel", "id": wire_id})

    def promote(self, wire_id: str) -> None:
        """Make a job of a call: its answer names the job, if that was not too late."""
        if wire_id in self._calls:
            self._say({"__port": "tool_background", "id": wire_id})

    def respond(self, id_: str, fields: dict[str, object]) -> None:
        """Answer a question of a server; an answer that is too long refuses."""
        head = {"__port": "ask_resp", "id": id_}
        if self.phase is Phase.OPEN and not self._say({**head, **fields}):
            self._say({**head, "refuse": "the answer is too long"})

    def decide(self, id_: str, verdict: dict[str, object]) -> None:
        """Say whether a call may run."""
        if self.phase is Phase.OPEN:
            self._say({"__port": "approve_resp", "id": id_, **verdict})

    def take(self, text: bytes) -> None:
        """Take one line; one that cannot be read, or is not ours, is ignored."""
        try:
            line = read_line(text)
        except UNREADABLE:
            return
        if line.agent != AGENT or self.phase is Phase.LOST:
            return
        if line.port == "tool_resp" and line.id in self._calls:
            self._calls.pop(line.id)[0](line)
        elif line.port == "tool_update":
            _, update = self._calls.get(line.id or "", (None, None))
            if update is not None:
                update(line)
        elif line.port == "opening" and self.phase is Phase.OPENING and self.knows_all is None:
            self.instructions, self.capabilities, self.servers = line.instructions, line.capabilities, line.servers
            self.knows_all = line.complete
            self._tell()
        elif line.port == "ready" and self.phase is Phase.OPENING:
            self._take_ready(line)
        elif line.port == "bye":
            self._take_bye()
        elif line.port == "fault" and self.phase is Phase.OPENING and line.id == self._hello_id:
            self._take_refusal(line, text)
        elif line.port in self.listeners and self.phase is Phase.OPEN:
            self.listeners[line.port](line)

    def lost(self, why: str) -> None:
        """The channel ended: every call is answered so, and nothing is sent any more."""
        self.phase, self._refusal, self._fault = Phase.LOST, why, UNSET
        calls, self._calls = self._calls, {}
        for then, _ in calls.values():
            then(_fault_line("draining", "unavailable", why, ran="maybe"))
        self._settle()

    @property
    def _hello_id(self) -> str:
        return f"hello-{self._hellos}"

    def _say_hello(self) -> None:
        self.phase, self._is_reopening, self.knows_all = Phase.OPENING, False, None
        self._hellos += 1
        forms: dict[str, object] = {"schemas": "mcp", "content": "blocks", "updates": True}
        # Clients have bounds of their own, and what a tool says that it gives must be what it gives.
        asked = {"protocol": [1], **forms, "capabilities": ["value", "servers", "opening"], "max_output": _WHOLE}
        self._say({"__port": "hello", "id": self._hello_id, **asked, **self._hello})

    def _take_ready(self, line: DaemonLine) -> None:
        self.phase, self.tools, self.instructions = Phase.OPEN, line.tools, line.instructions
        self.capabilities, self.servers = line.capabilities, line.servers
        if line.warnings != self._warnings:
            self._warnings = line.warnings
            self.to_log += line.warnings
        bound = line.limits.get("line")
        if isinstance(bound, int) and bound > 0:
            self._max_line_bytes = bound
        self._settle()

    def _take_bye(self) -> None:
        if self._is_reopening:
            self._say_hello()
        elif self.phase is not Phase.NEW:
            self.lost("the daemon ended the session")

    def _take_refusal(self, line: DaemonLine, text: bytes) -> None:
        kept = {name: value for name, value in members(text).items() if name not in _ENVELOPE}
        self.phase, self._refusal = Phase.REFUSED, line.detail or "the daemon refused the session"
        self._fault = Raw(msgspec.json.encode(kept))
        self.to_log.append(self._refusal)
        self._settle()

    def _settle(self) -> None:
        self._told.clear()
        settled, self._settled = self._settled, []
        for then in settled:
            then()
        self.flush()

    def _say(self, fields: Mapping[str, object]) -> bool:
        """Say a line, unless it is longer than the daemon takes."""
        said = {"__port": fields["__port"], "agent": AGENT}
        said.update((name, value) for name, value in fields.items() if value is not None)
        line = msgspec.json.encode(said)
        is_taken = len(line) <= self._max_line_bytes
        if is_taken:
            # Arguments are the client's own text, and between its values JSON may have line feeds.
            self.to_daemon.append(line.replace(b"\n", b" ") + b"\n")
        return is_taken


def _fault_line(error: str, category: str, detail: str, *, ran: str | None) -> DaemonLine:
    """The answer to a call that the daemon does not answer."""
    fault = {"error": error, "category": category, "detail": detail} | ({} if ran is None else {"ran": ran})
    return DaemonLine(content=msgspec.json.encode(fault).decode(), is_error=True, fault=True)
