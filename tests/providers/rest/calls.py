"""Calls of one tool with `rest`, at a server that does what a script says."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.servers.raw_http import Peer, RawServer, Script, serving
from tooldispatchd.calls.content import AS_JSON, Wanted
from tooldispatchd.calls.memory import Memory, Share
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.specs import Config
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.config.credentials import Credentials, api_credentials, known_secrets
from tooldispatchd.config.key_patterns import Table
from tooldispatchd.http.wire import to_nobody
from tooldispatchd.providers.rest.apiwires import ApiWire, ApiWires, MakeAuthorizer, open_api_wires
from tooldispatchd.providers.rest.calling import ApiCall
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import QuotedText

MIB = 1024 * 1024


class Caller:
    """Calls the tools of one configuration."""

    def __init__(self, catalog: Catalog, wires: ApiWires, share: Share, max_bytes: int) -> None:
        self._catalog = catalog
        self._max_bytes = max_bytes
        self.wires = wires
        self.share = share
        self.updates: list[str] = []
        self.said: dict[str, object] = {}

    def wire(self, api: str) -> ApiWire:
        return self.wires.wire(self._catalog.apis[api], self._max_bytes)

    async def outcome(
        self,
        values: object = None,
        *,
        name: str = "t",
        wanted: Wanted = AS_JSON,
        max_content_bytes: int = MIB,
        warns: bool = False,
    ) -> Outcome:
        tool = self._catalog.tools[name]
        assert tool.rest is not None
        call = ApiCall(
            tool.rest,
            self.wire(tool.rest.api),
            output=tool.output,
            max_content_bytes=max_content_bytes,
            warns=warns,
            wanted=wanted,
            share=self.share,
            checkers=IN_PLACE,
            turns=(self, self),
            tell=self._tell,
            said=self.said,
        )
        outcome = await call.run(msgspec.json.encode({} if values is None else values))
        assert self.share.held == 0
        return outcome

    async def answer(self, values: object = None, **fields: Any) -> Answer:
        outcome = await self.outcome(values, **fields)
        assert isinstance(outcome, Answer), outcome
        return outcome

    async def value(self, values: object = None, **fields: Any) -> object:
        """The answer, decoded."""
        answer = await self.answer(values, **fields)
        return msgspec.json.decode(text_of(answer))

    async def fault(self, values: object = None, **fields: Any) -> Fault:
        outcome = await self.outcome(values, **fields)
        assert isinstance(outcome, Fault), outcome
        return outcome

    def _tell(self, update: Update) -> None:
        assert update.content is not None
        self.updates.append(update.content)


def text_of(answer: Answer) -> str:
    if isinstance(answer.content, QuotedText):
        return str(msgspec.json.decode(bytes(answer.content.literal)))
    return answer.content


def catalog_of(tools: Mapping[str, Mapping[str, object]], apis: Mapping[str, Mapping[str, object]]) -> Catalog:
    """The catalog of these tables, with the credentials that stand in them, and what is known of them."""
    config = msgspec.convert({"tools": tools, "rest": apis}, Config)
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog), catalog
    secrets: dict[tuple[str, str], str] = {}
    for api in apis.values():
        for table in (api, *(part for part in api.values() if isinstance(part, dict))):
            secrets |= {(key, value): value for key, value in table.items() if isinstance(value, str)}
    bound = {
        name: msgspec.structs.replace(api, credentials=api_credentials(api, secrets))
        for name, api in catalog.apis.items()
    }
    whole: Table = {"tools": dict(tools), "rest": {name: dict(api) for name, api in apis.items()}}
    read, requests = Credentials({}, (), (), secrets), [tool.rest for tool in catalog.tools.values() if tool.rest]
    masker = Masker(known_secrets(whole, read, (), bound.values(), requests))
    return msgspec.structs.replace(catalog, apis=bound, masker=masker)


@asynccontextmanager
async def calling(
    catalog: Catalog, *, memory: int = 64 * MIB, max_bytes: int = 8 * MIB, authorizer: MakeAuthorizer | None = None
) -> AsyncIterator[Caller]:
    async with open_api_wires(authorizer=authorizer, masker=catalog.masker, debug=to_nobody) as wires:
        yield Caller(catalog, wires, Memory(memory).share(1000), max_bytes)


@asynccontextmanager
async def calling_at(
    script: Script,
    rest: Mapping[str, object],
    *,
    tool: Mapping[str, object] | None = None,
    api: Mapping[str, object] | None = None,
    memory: int = 64 * MIB,
    max_bytes: int = 8 * MIB,
) -> AsyncIterator[tuple[Caller, RawServer]]:
    """A tool `t`, whose API `api` is a server with that script."""
    async with serving(script) as server:
        origin = f"http://127.0.0.1:{server.port}"
        apis = {"api": {"base_url": f"{origin}/base", **(api or {})}}
        tools = {"t": {"type": "json -> json", "rest": {"api": "api", "path": "/t", **rest}, **(tool or {})}}
        if "type" not in (tool or {}):
            del tools["t"]["type"]
        async with calling(catalog_of(tools, apis), memory=memory, max_bytes=max_bytes) as caller:
            yield caller, server


def says(
    body: bytes = b"{}", media_type: str = "application/json", status: str = "200 OK", headers: str = ""
) -> Script:
    """A server that answers each request so; `headers` are whole lines, each with its end."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.read_request()
            labelled = f"Content-Type: {media_type}\r\n" if media_type else ""
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{labelled}{headers}\r\n"
            await peer.send(head.encode() + body)

    return script


def streams(*pieces: bytes, media_type: str = "text/event-stream", ends: bool = True) -> Script:
    """A server that sends each piece as a chunk of its own."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        await peer.send(head.encode())
        for piece in pieces:
            await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        if ends:
            await peer.send(b"0\r\n\r\n")
        await peer.wait_for_close()

    return script
