"""The face that the daemon shows to one MCP client: messages and lines in and out; no I/O, no clock.

`_table` says which part serves a method, and in which revisions. A request says its revision itself, or has that
of the handshake. Both kinds may come on one face, as from a client that tries the newer one first.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from tooldispatchd.mcpface.alarms import Alarms
from tooldispatchd.mcpface.clientside import SERVER, ClientRequest, ClientSide, Said
from tooldispatchd.mcpface.daemonside import DaemonSide, Phase
from tooldispatchd.mcpface.jsonrpc import METHOD_UNKNOWN, UNSUPPORTED_REVISION, WRONG_PARAMS
from tooldispatchd.mcpface.notes import ClientNotes
from tooldispatchd.mcpface.passing import Passing
from tooldispatchd.mcpface.questions import ClientQuestions
from tooldispatchd.mcpface.revisions import (
    R2024_11,
    R2025_11,
    R2026_07,
    REVISIONS,
    TASKS_EXTENSION,
    ClientOffer,
    Params,
)
from tooldispatchd.mcpface.roots import Roots
from tooldispatchd.mcpface.tasks import ClientTasks
from tooldispatchd.mcpface.toolcalls import ToolCalls

# A client gives up its start after 10 s and more: so long it waits for the daemon's first word.
OPENING_S: Final = 5.0
# So long it waits for servers that have never said anything of themselves; quick ones have answered by then.
UNKNOWN_S: Final = 0.5
# In the stateless revision each request says what its client answers: the session is asked everything.
_ANY: Final = ["elicitation", "url", "sampling", "roots", "ui", "approve"]


class _Method(msgspec.Struct, frozen=True):
    serve: Callable[[ClientRequest], None]
    since: str = R2024_11.name
    until: str = R2026_07.name
    waits: bool = True
    """Whether it is served only when the session is open."""


class Face:
    """One MCP client's session with the daemon."""

    def __init__(self, *, profile: str | None, token: str | None, now: float, epoch: float = 0.0) -> None:
        """`now` is any clock that grows, `epoch` what is added to it for the seconds since 1970 (times of tasks)."""
        self._alarms = Alarms(now)
        self._client = ClientSide(self._serve, self._hear)
        self._daemon = DaemonSide(self._client, profile=profile, token=token)
        self._tasks = ClientTasks(self._client, self._daemon, self._alarms, epoch)
        self._tools = ToolCalls(self._client, self._daemon, self._tasks)
        self._passing = Passing(self._client, self._daemon)
        self._notes = ClientNotes(self._client, self._daemon, self._passing)
        self._questions = ClientQuestions(self._client, self._daemon, self._tasks, self._alarms)
        self._roots = Roots(self._client, self._daemon, self._alarms)
        self._methods = self._table()

    def _table(self) -> dict[str, _Method]:
        newest, handshake, tasks = R2026_07.name, R2025_11.name, R2025_11.name
        return {
            "initialize": _Method(self._initialize, until=handshake, waits=False),
            "server/discover": _Method(partial(self._begin, answers=_ANY), since=newest, waits=False),
            "ping": _Method(lambda request: self._client.answer(request, {}), until=handshake, waits=False),
            "tools/list": _Method(self._tools.show),
            "tools/call": _Method(self._tools.call),
            "resources/list": _Method(self._passing.show),
            "resources/templates/list": _Method(self._passing.show),
            "resources/read": _Method(self._passing.read),
            "resources/subscribe": _Method(self._passing.read, until=handshake),
            "resources/unsubscribe": _Method(self._passing.read, until=handshake),
            "resources/directory/read": _Method(self._passing.read, since=newest),
            "skills/list": _Method(self._passing.show, since=newest),
            "skills/get": _Method(self._passing.read, since=newest),
            "prompts/list": _Method(self._passing.show),
            "prompts/get": _Method(self._passing.prompt),
            "completion/complete": _Method(self._passing.complete),
            "logging/setLevel": _Method(self._passing.set_level, until=handshake),
            "subscriptions/listen": _Method(self._notes.listen, since=newest),
            "tasks/get": _Method(self._tasks.get, since=tasks),
            "tasks/result": _Method(self._tasks.result, since=tasks, until=handshake),
            "tasks/list": _Method(self._tasks.show, since=tasks, until=handshake),
            "tasks/update": _Method(self._tasks.update, since=newest),
            "tasks/cancel": _Method(self._tasks.cancel, since=tasks),
        }

    @property
    def to_client(self) -> list[Said]:
        """What is to be said to the client; drained by the caller."""
        return self._client.to_client

    @property
    def to_daemon(self) -> list[bytes]:
        """Lines for the daemon, each with its newline; drained by the caller."""
        return self._daemon.to_daemon

    @property
    def to_log(self) -> list[str]:
        """What is to be logged; drained by the caller."""
        return self._daemon.to_log

    @property
    def wake_at(self) -> float:
        """When `wake` is to be called."""
        return math.inf if self.is_over else self._alarms.next_at

    @property
    def is_over(self) -> bool:
        """Whether the daemon's channel is lost: nothing can be served any more."""
        return self._daemon.phase is Phase.LOST

    def knows(self, key: str) -> bool:
        """Whether that is a `requestState` or the id of a task of this face: both find it again over HTTP."""
        return self._questions.knows(key) or self._tasks.knows(key)

    def take_client(
        self, message: bytes, now: float, revision: str | None = None, headers: Mapping[str, str] | None = None
    ) -> int:
        """Take a message of the client; returns its ticket. `revision` and `headers` are as of `ClientSide.take`."""
        self._alarms.now = now
        return self._client.take(message, revision, headers)

    def take_daemon(self, line: bytes, now: float) -> None:
        """Take one line of the daemon."""
        self._alarms.now = now
        self._daemon.take(line)

    def abandon(self, ticket: int) -> None:
        """The response stream of this ticket was closed: its requests are cancelled."""
        for request in [one for one in self._client.open.values() if one.ticket == ticket]:
            self._cancel(request)

    def end_client(self) -> None:
        """Nothing more comes from the client, which still reads: nobody answers what it is asked."""
        self._client.end()
        self._questions.end()

    def lost(self, why: str) -> None:
        """The daemon's channel ended: every open request is answered."""
        self._daemon.lost(why)
        self._notes.close()
        for request in list(self._client.open.values()):
            self._daemon.refuse(request)

    def wake(self, now: float) -> None:
        """Do what is due."""
        self._alarms.now = now
        self._alarms.run()

    def _serve(self, request: ClientRequest) -> None:
        """Give a request to the part that serves it."""
        if not self._is_stated(request):
            return
        method = self._methods.get(request.method)
        if method is None or not method.since <= request.revision.name <= method.until:
            self._client.fail(request, METHOD_UNKNOWN, f"there is no method {request.method[:100]!r}")
        elif not method.waits:
            method.serve(request)
        else:
            is_stateless = request.revision.is_stateless
            # A client that comes without a handshake is served all the same.
            if is_stateless or self._daemon.phase is Phase.NEW:
                self._daemon.open(_ANY if is_stateless else [])
            self._roots.start()
            is_retry = is_stateless and request.params.request_state is not None
            self._daemon.when_open(request, self._questions.retry if is_retry else method.serve)

    def _hear(self, method: str, params: Params) -> None:
        """Take a notification of the client."""
        if method == "notifications/initialized":
            self._notes.initialized()
            self._roots.start()
        elif method == "notifications/cancelled" and isinstance(params.request_id, msgspec.Raw):
            request = self._client.find(params.request_id)
            # A client may not take back its handshake.
            if request is not None and request.method != "initialize":
                self._cancel(request)

    def _cancel(self, request: ClientRequest) -> None:
        request.cancel()
        self._client.drop(request)

    def _initialize(self, request: ClientRequest) -> None:
        if request.params.protocol_version is None:
            self._client.fail(request, WRONG_PARAMS, "initialize says a protocolVersion")
            return
        known = REVISIONS.get(request.params.protocol_version)
        self._client.revision = R2025_11 if known is None or known.is_stateless else known
        self._client.offer = request.params.capabilities or ClientOffer()
        if not self._client.revision.has_elicitation:
            self._client.offer.elicitation = None
        request.revision = self._client.revision
        if self._daemon.phase in (Phase.NEW, Phase.REFUSED):
            self._roots.hold()
        self._begin(request, self._client.offer.answers())

    def _begin(self, request: ClientRequest, answers: list[str]) -> None:
        self._daemon.open(answers)
        welcome = partial(self._welcome, request)
        if self._daemon.phase is Phase.OPENING:
            self._alarms.after(OPENING_S, welcome)
            self._daemon.when_told(partial(self._welcome_early, welcome))
        self._daemon.when_settled(welcome)

    def _welcome_early(self, welcome: Callable[[], None]) -> None:
        """Answer while servers are still starting, by what they said last."""
        if self._daemon.knows_all:
            welcome()
        else:
            self._alarms.after(UNKNOWN_S, welcome)

    def _is_stated(self, request: ClientRequest) -> bool:
        """Take what a request of the stateless revision says of itself; fails it where it says that wrongly."""
        meta = request.params.meta
        said = None if meta is None else meta.revision
        if said is None and not request.revision.is_stateless:
            return True
        known = REVISIONS.get(said or "")
        if said is not None and (known is None or not known.is_stateless):
            data = {"supported": list(REVISIONS), "requested": said[:100]}
            self._client.fail(request, UNSUPPORTED_REVISION, "this revision is not spoken so", data)
            return False
        if known is None or meta is None or meta.offer is None:
            self._client.fail(request, WRONG_PARAMS, "_meta says the revision and the client's capabilities")
            return False
        request.revision, request.offer = known, meta.offer
        return True

    def _welcome(self, request: ClientRequest) -> None:
        if self._daemon.phase in (Phase.REFUSED, Phase.LOST):
            self._daemon.refuse(request)
            return
        if self._daemon.phase is Phase.OPENING and request.number in self._client.open:
            self._daemon.when_settled(partial(self._tell_anew, self._daemon.instructions))
        result: dict[str, object] = {"capabilities": self._capabilities(request)}
        if request.revision.is_stateless:
            result["supportedVersions"] = list(REVISIONS)
        else:
            result |= {"protocolVersion": request.revision.name, "serverInfo": SERVER}
        if self._daemon.instructions:
            result["instructions"] = self._daemon.instructions
        self._client.answer(request, result)

    def _tell_anew(self, told: str | None) -> None:
        """Once the session is open: tell the client, where it was given other instructions than there are."""
        if self._daemon.phase is Phase.OPEN and self._daemon.instructions != told:
            self._notes.tell_tools()

    def _capabilities(self, request: ClientRequest) -> dict[str, object]:
        told: dict[str, object] = {"tools": {"listChanged": True}}
        # What may turn out to be there is declared, since that can be done but once: its lists are empty then.
        is_unknown = self._daemon.phase is Phase.OPENING and not self._daemon.knows_all
        if is_unknown or self._passing.having("resources"):
            told["resources"] = {"subscribe": True, "listChanged": True}
        if is_unknown or self._passing.having("prompts"):
            told["prompts"] = {"listChanged": True}
        if (is_unknown or self._passing.having("completions")) and request.revision is not R2024_11:
            told["completions"] = {}
        if (is_unknown or self._passing.having("logging")) and not request.revision.is_stateless:
            told["logging"] = {}
        if self._tasks.are_there and request.revision.has_tasks:
            told["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        extensions = self._passing.extensions(request.revision)
        if self._tasks.are_there and request.revision.is_stateless:
            extensions[TASKS_EXTENSION] = {}
        if extensions:
            told["extensions"] = extensions
        return told
