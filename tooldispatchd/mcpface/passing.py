"""Resources, prompts, completion and logging: passed to the servers behind, by the extension `servers` of our wire.

A list is that of all servers, one after the other. What names one thing goes to the server that listed it, else to each
in turn until one has it. Prompts are shown with their server's prefix, since two servers may have one of the same name.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.daemonside import Continuation, DaemonLine, DaemonSide, PassedServer, fault_of
from tooldispatchd.mcpface.jsonrpc import INTERNAL, METHOD_UNKNOWN, UNREADABLE, WRONG_PARAMS, members
from tooldispatchd.mcpface.revisions import SERVER_INFO, SKILLS_EXTENSION, Revision
from tooldispatchd.mcpface.toolcalls import MAX_PAGE_BYTES, page_start, write_cursor

# Pages of servers that make one of ours: small ones are put together, since some clients read only the first.
MAX_PAGES: Final = 32
MAX_PAGE_ITEMS: Final = 1000
# URIs whose server is remembered; for others each server is asked.
MAX_KNOWN: Final = 10_000
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

# What is listed: the member of the result, the field that names one, and the capability.
_LISTS: Final = {
    "resources/list": ("resources", "uri", "resources"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", "resources"),
    "prompts/list": ("prompts", "name", "prompts"),
    "skills/list": ("skills", "uri", SKILLS_EXTENSION),
}
DIRECTORY: Final = "resources/directory/read"
_OF_SKILLS: Final = ("skills/get", DIRECTORY)
# Members of a result of the stateless revision, which are the face's own to say.
_OURS: Final = ("resultType", "ttlMs", "cacheScope")

# Servers to ask in turn, each with its params.
Candidates = list[tuple[PassedServer, dict[str, object]]]


class _ServerError(msgspec.Struct):
    code: int = INTERNAL
    message: str = "the server refused"
    data: Raw | UnsetType = UNSET


class _Listing:
    """A page that is being put together from those of servers."""

    def __init__(self, servers: list[PassedServer], index: int, cursor: str) -> None:
        self.servers = servers
        self.index = index
        self.cursor = cursor
        self.items: list[object] = []
        self.pages = self.bytes = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be asked for: the servers' lists have ended, or the page is full."""
        is_full = self.pages >= MAX_PAGES or len(self.items) >= MAX_PAGE_ITEMS or self.bytes >= MAX_PAGE_BYTES
        return is_full or self.index >= len(self.servers)


class Passing:
    """Asks the servers behind, and answers with what they say."""

    def __init__(self, client: ClientSide, daemon: DaemonSide) -> None:
        self._client = client
        self._daemon = daemon
        self._homes: dict[str, str] = {}

    def having(self, capability: str) -> list[PassedServer]:
        """The servers that have a capability, or an extension."""
        return [one for one in self._daemon.servers if capability in one.capabilities or capability in one.extensions]

    def extensions(self, revision: Revision) -> dict[str, dict[str, object]]:
        """The extensions of the servers, with all that any of them says of each; skills are of the stateless one."""
        told: dict[str, dict[str, object]] = {}
        for name, said in ((name, said) for one in self._daemon.servers for name, said in one.extensions.items()):
            if revision.is_stateless or (revision.has_icons and name != SKILLS_EXTENSION):
                # One that reads directories is enough: each request is tried where it may succeed.
                told[name] = told.get(name, {}) | {key: value for key, value in said.items() if value is not False}
        return told

    def show(self, request: ClientRequest) -> None:
        """Answer with a page of a list."""
        start = page_start(self._client, request)
        if start is not None:
            self._go_on(request, _Listing(self.having(_LISTS[request.method][2]), *start))

    def read(self, request: ClientRequest) -> None:
        """`resources/read`, `subscribe` and `unsubscribe`, and those of skills: what a URI names."""
        uri = request.params.uri
        if uri is None:
            self._client.fail(request, WRONG_PARAMS, f"{request.method} names a uri")
        elif candidates := self.homes_of(uri, SKILLS_EXTENSION if request.method in _OF_SKILLS else "resources"):
            # Only a directory has pages; their cursors are those of the server that has it.
            page = {"cursor": request.params.cursor} if request.method == DIRECTORY and request.params.cursor else {}
            self._try(request, [(server, params | page) for server, params in candidates])
        else:
            self._client.fail(request, request.revision.not_found, "there is no such resource", {"uri": uri})

    def prompt(self, request: ClientRequest) -> None:
        """`prompts/get`."""
        params = request.params
        if params.name is None:
            self._client.fail(request, WRONG_PARAMS, "prompts/get names a prompt")
            return
        given = {} if isinstance(params.arguments, UnsetType) else {"arguments": params.arguments}
        self._try(request, [(one, {"name": name, **given}) for one, name in self._prompt_homes(params.name)])

    def complete(self, request: ClientRequest) -> None:
        """`completion/complete`, for a prompt or a template."""
        ref, argument, context = request.params.ref, request.params.argument, request.params.context
        if ref is None or isinstance(argument, UnsetType):
            self._client.fail(request, WRONG_PARAMS, "completion/complete has a ref and an argument")
            return
        found = self.homes_of(ref.uri or "")
        if ref.name is not None:
            found = [(one, {"name": name}) for one, name in self._prompt_homes(ref.name)]
        rest = {"argument": argument} | ({} if isinstance(context, UnsetType) else {"context": context})
        completing = [(one, named) for one, named in found if "completions" in one.capabilities]
        self._try(request, [(one, {"ref": {"type": ref.type, **named}, **rest}) for one, named in completing])

    def set_level(self, request: ClientRequest) -> None:
        """`logging/setLevel`: for every server that logs; what they answer is no matter."""
        if request.params.level not in LEVELS:
            self._client.fail(request, WRONG_PARAMS, f"a level is one of {', '.join(LEVELS)}")
            return
        for server in self.having("logging"):
            self.tell("logging/setLevel", [(server, {"level": request.params.level})])
        self._client.answer(request, {})

    def homes_of(self, uri: str, capability: str = "resources") -> Candidates:
        """The servers that may have that resource: the one that listed it, or all."""
        servers = self.having(capability)
        home = [one for one in servers if one.server == self._homes.get(uri)]
        return [(one, {"uri": uri}) for one in home or servers]

    def forget_homes(self) -> None:
        """The lists of resources have changed."""
        self._homes.clear()

    def tell(self, method: str, candidates: Candidates) -> None:
        """Ask servers in turn until one takes it; nobody waits for that."""
        if not candidates:
            return
        (server, params), *others = candidates

        def heard(line: DaemonLine) -> None:
            if line.is_error:
                self.tell(method, others)
            elif "uri" in params:
                self._learn_home(str(params["uri"]), server)

        self._daemon.call(f"{server.server}!{method}", Raw(msgspec.json.encode(params)), heard)

    def _learn_home(self, uri: str, server: PassedServer) -> None:
        if len(self._homes) < MAX_KNOWN:
            self._homes[uri] = server.server

    def _ask(
        self, request: ClientRequest, server: PassedServer, params: Mapping[str, object], then: Continuation
    ) -> None:
        request.steps += 1
        wire_id = f"{request.number}.{request.steps}"
        request.cancel = partial(self._daemon.cancel, wire_id)
        said = Raw(msgspec.json.encode(params))
        self._daemon.call(f"{server.server}!{request.method}", said, then, wire_id=wire_id)

    def _go_on(self, request: ClientRequest, listing: _Listing) -> None:
        if request.number not in self._client.open:
            return
        if not listing.is_done:
            params = {"cursor": listing.cursor} if listing.cursor else {}
            self._ask(request, listing.servers[listing.index], params, partial(self._listed, request, listing))
            return
        result: dict[str, object] = {_LISTS[request.method][0]: listing.items}
        if listing.index < len(listing.servers):
            result["nextCursor"] = write_cursor(listing.index, listing.cursor)
        self._client.answer(request, result)

    def _listed(self, request: ClientRequest, listing: _Listing, line: DaemonLine) -> None:
        server = listing.servers[listing.index]
        member, name, _ = _LISTS[request.method]
        listing.pages += 1
        listing.bytes += len(line.content or "")
        try:
            # A server that fails has nothing to list; the others have.
            page = {} if line.is_error else members((line.content or "").encode())
            items = msgspec.json.decode(page.get(member, b"[]"), type=list[dict[str, Raw]])
            named = [(item, msgspec.json.decode(item[name], type=str)) for item in items if name in item]
            cursor = msgspec.json.decode(page.get("nextCursor", b'""'), type=str | None) or ""
        except UNREADABLE:
            named, cursor = [], ""
        for item, called in named:
            if member == "prompts":
                item["name"] = Raw(msgspec.json.encode(_head(server) + called))
            else:
                self._learn_home(called, server)
            listing.items.append(item)
        # One that repeats its cursor would never come to an end.
        listing.cursor = cursor if cursor != listing.cursor else ""
        listing.index += 0 if listing.cursor else 1
        self._go_on(request, listing)

    def _try(self, request: ClientRequest, candidates: Candidates) -> None:
        if not candidates:
            code = WRONG_PARAMS if self._daemon.servers else METHOD_UNKNOWN
            self._client.fail(request, code, "no server has that")
            return
        server, params = candidates[0]
        self._ask(request, server, params, partial(self._tried, request, candidates[1:]))

    def _tried(self, request: ClientRequest, others: Candidates, line: DaemonLine) -> None:
        if line.is_error and others and request.number in self._client.open:
            self._try(request, others)
        elif line.is_error:
            self._failed(request, line)
        else:
            try:
                result = members((line.content or "").encode())
            except UNREADABLE:
                self._client.fail(request, INTERNAL, "the server's answer cannot be read")
                return
            meta: dict[str, Raw] = {}
            with suppress(*UNREADABLE):
                meta = members(result.pop("_meta", b"{}"))
            # The name of the server, which the client does not talk to.
            meta.pop(SERVER_INFO, None)
            self._client.answer(request, {key: value for key, value in result.items() if key not in _OURS}, meta)

    def _failed(self, request: ClientRequest, line: DaemonLine) -> None:
        fault = fault_of(line)
        if fault is not None:
            self._client.fail(request, INTERNAL, fault.detail, Raw((line.content or "").encode()))
            return
        try:
            error = msgspec.json.decode(line.content or "", type=_ServerError)
        except UNREADABLE:
            error = _ServerError()
        is_absent = request.method.startswith("resources/") and error.code in (-32002, -32602)
        self._client.fail(request, request.revision.not_found if is_absent else error.code, error.message, error.data)

    def _prompt_homes(self, shown: str) -> list[tuple[PassedServer, str]]:
        homes = [server for server in self.having("prompts") if shown.startswith(_head(server))]
        # The longest prefix first: one may begin with another.
        return [(one, shown[len(_head(one)) :]) for one in sorted(homes, key=lambda one: -len(one.prefix))]


def _head(server: PassedServer) -> str:
    """What stands before the names of its prompts."""
    return f"{server.prefix}__" if server.prefix else ""
