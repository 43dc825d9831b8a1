"""`tools/list` and `tools/call`: pages, progress, cancellation, and the change of the list."""

import base64
import binascii
import math
from functools import partial
from itertools import accumulate
from typing import Annotated, Final

import msgspec
from msgspec import UnsetType

from tooldispatchd.mcpface.answers import called, is_for_models, listed_tool
from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.daemonside import DaemonLine, DaemonSide, fault_of
from tooldispatchd.mcpface.jsonrpc import HEADER_MISMATCH, INVALID_REQUEST, URL_ELICITATION, WRONG_PARAMS, is_id
from tooldispatchd.mcpface.paramheaders import MARK, find_mismatch, marks_of
from tooldispatchd.mcpface.revisions import R2026_07, Revision
from tooldispatchd.mcpface.tasks import ClientTasks

# Some clients read the first page only: a list that is not absurd is one page.
MAX_PAGE_TOOLS: Final = 1000
# Their schemas may be long, and what a client reads as one message is bounded: 4 MiB are few clients' bound.
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
_read_cursor: Final = msgspec.json.Decoder(tuple[Annotated[int, msgspec.Meta(ge=0)], str]).decode
# What a request itself did wrong, where nothing was begun.
_MISTAKES: Final = {"unknown_tool": WRONG_PARAMS, "line_too_long": INVALID_REQUEST}
# Tools of the daemon that are answered at once.
_NEVER_TASKS: Final = frozenset({"job_read", "job_wait", "job_list", "job_stop"})
_MAY_BE_TASK: Final = msgspec.Raw(b'{"taskSupport":"optional"}')


def write_cursor(*parts: int | str) -> str:
    """A cursor of ours, which clients do not look into."""
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode()


def page_start(client: ClientSide, request: ClientRequest) -> tuple[int, str] | None:
    """The number and the text in the cursor of `request`; None where that is not ours, and `request` has failed."""
    if request.params.cursor is None:
        return 0, ""
    try:
        return _read_cursor(base64.urlsafe_b64decode(request.params.cursor.encode()))
    except (binascii.Error, msgspec.DecodeError, UnicodeError, RecursionError):
        client.fail(request, WRONG_PARAMS, "wrong cursor: it is not one of this list")
        return None


class ToolCalls:
    """The tools of the session, for the client."""

    def __init__(self, client: ClientSide, daemon: DaemonSide, tasks: ClientTasks) -> None:
        self._client = client
        self._daemon = daemon
        self._tasks = tasks
        self._latest: tuple[tuple[int, Revision, bool], msgspec.Raw, int] | None = None
        """The page that was shown last: clients ask for it again and again."""
        self._read: list[msgspec.Raw] = []
        self._outputs: dict[str, set[str]] = {}
        self._marks: dict[str, dict[str, str]] | None = None

    def show(self, request: ClientRequest) -> None:
        """Answer with a page of the tools as they are now."""
        start = page_start(self._client, request)
        if start is None:
            return
        page, end = self._page(start[0], request.revision, has_apps=request.offer.has_apps)
        result: dict[str, object] = {"tools": page}
        if end < len(self._daemon.tools):
            result["nextCursor"] = write_cursor(end, "")
        self._client.answer(request, result)

    def call(self, request: ClientRequest) -> None:
        """Call a tool; its answer is that of `request`."""
        params, meta = request.params, request.params.meta
        # A name with a "!" is for what the face itself asks of servers; no tool has one.
        if params.name is None or "!" in params.name:
            self._client.fail(request, WRONG_PARAMS, "a call names a tool that there is")
            return
        if request.headers is not None and request.revision.is_stateless:
            wrong = find_mismatch(self._marks_of(params.name), params.arguments, request.headers)
            if wrong is not None:
                self._client.fail(request, HEADER_MISMATCH, f"the header {wrong} does not say what the body says")
                return
        wire_id = str(request.number)
        request.cancel = partial(self._daemon.cancel, wire_id)
        self._daemon.call(
            params.name,
            params.arguments,
            partial(self._answered, request),
            wire_id=wire_id,
            update=partial(self._updated, request),
            background=request.wants_task or None,
            traceparent=None if meta is None else meta.traceparent,
        )
        self._tasks.promote_later(request)

    def _updated(self, request: ClientRequest, line: DaemonLine) -> None:
        """Tell how far a call is, to a client that asked for it. What is told always grows."""
        meta = request.params.meta
        if meta is None or not is_id(meta.token) or (line.progress is None and line.message is None):
            return
        request.progress = max(line.progress or 0.0, math.nextafter(request.progress, math.inf))
        told: dict[str, object] = {"progressToken": meta.token, "progress": request.progress}
        if line.total is not None:
            told["total"] = line.total
        if line.message is not None and request.revision.has_messages_of_progress:
            told["message"] = line.message
        self._client.notify("notifications/progress", told, request)

    def _answered(self, request: ClientRequest, line: DaemonLine) -> None:
        """Answer with what the call gave. A tool that was never found is a mistake of the request."""
        fault = fault_of(line)
        if fault is not None and fault.ran is None and fault.error in _MISTAKES:
            self._client.fail(request, _MISTAKES[fault.error], fault.detail, msgspec.Raw((line.content or "").encode()))
            return
        if fault is not None and fault.rpc_code == URL_ELICITATION and fault.rpc_data and self._opens_pages(request):
            self._client.fail(request, URL_ELICITATION, fault.detail, fault.rpc_data)
            return
        is_structured = request.revision.has_structure and self._has_output(request.params.name, request.revision)
        if not self._tasks.started(request, line, is_structured=is_structured):
            self._client.answer(request, called(line, request.revision, is_structured=is_structured))

    def _opens_pages(self, request: ClientRequest) -> bool:
        # The newest revision has no such error: its servers ask for input.
        return request.offer.has_pages and not request.revision.is_stateless

    def _page(self, start: int, revision: Revision, *, has_apps: bool) -> tuple[msgspec.Raw, int]:
        """The tools from `start` on, and where the next page begins."""
        self._forget_old()
        key = start, revision, has_apps
        if self._latest is not None and self._latest[0] == key:
            return self._latest[1:]
        sizes = accumulate(len(bytes(raw)) for raw in self._daemon.tools[start : start + MAX_PAGE_TOOLS])
        # One at least, or it would never come to an end.
        end = start + max(1, sum(size <= MAX_PAGE_BYTES for size in sizes))
        tools = [tool for raw in self._daemon.tools[start:end] if (tool := listed_tool(raw, revision)) is not None]
        if revision.has_tasks and self._tasks.are_there:
            for tool in tools:
                if tool.name not in _NEVER_TASKS:
                    tool.execution = _MAY_BE_TASK
        if not has_apps:
            tools = [tool for tool in tools if is_for_models(tool)]
        self._latest = key, msgspec.Raw(msgspec.json.encode(tools)), end
        return self._latest[1:]

    def _marks_of(self, name: str) -> dict[str, str]:
        """Read which arguments of a tool headers repeat."""
        self._forget_old()
        if self._marks is None:
            marked = [listed_tool(raw, R2026_07) for raw in self._daemon.tools if MARK.encode() in bytes(raw)]
            self._marks = {tool.name: marks_of(tool.input_schema) for tool in marked if tool is not None}
        return self._marks.get(name, {})

    def _forget_old(self) -> None:
        # Tools are read once for each list, and not for each call.
        if self._daemon.tools is not self._read:
            self._read, self._outputs, self._marks, self._latest = self._daemon.tools, {}, None, None

    def _has_output(self, name: str | None, revision: Revision) -> bool:
        self._forget_old()
        known = self._outputs.get(revision.name)
        if known is None:
            tools = [listed_tool(raw, revision) for raw in self._daemon.tools]
            known = {one.name for one in tools if one is not None and not isinstance(one.output_schema, UnsetType)}
            self._outputs[revision.name] = known
        return name in known
