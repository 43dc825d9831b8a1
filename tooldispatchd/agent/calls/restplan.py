"""The plan of a tool with `rest`: each call is a request to an HTTP API.

Imported only where there are such tools.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.plans import TaskPlan, limit_of, offered_of, read_of, send_update
from tooldispatchd.agent.log import Log
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.setup import Setup
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.restspecs import AnnotationsSpec
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import Authorizer
from tooldispatchd.providers.rest.apiwires import ApiWire, ApiWires, MakeAuthorizer, open_api_wires
from tooldispatchd.providers.rest.calling import ApiCall


class RestPlan(TaskPlan):
    """A request to an HTTP API."""

    __slots__ = ("_api", "_output", "_rest", "_runtime", "_wire", "_wires")

    def __init__(self, runtime: Runtime, wires: ApiWires, tool: DeclaredTool) -> None:
        assert tool.rest is not None
        api = runtime.setup.catalog.apis[tool.rest.api]
        hints = None if tool.rest.hints == AnnotationsSpec() else Raw(msgspec.json.encode(tool.rest.hints))
        offered = msgspec.structs.replace(offered_of(tool), annotations=hints)
        limit_s = tool.spec.call_s or api.spec.call_s or limit_of(runtime.setup, tool)
        super().__init__(offered, kind="rest", limit_s=limit_s, read=read_of(tool), provider=api.name)
        self._runtime = runtime
        self._wires = wires
        self._api = api
        self._wire: ApiWire | None = None
        self._rest = tool.rest
        self._output = tool.output

    async def run(self, call: Call) -> Outcome:
        """Send the request; nothing of it is left when this returns."""
        account = call.context.account
        max_content_bytes = self._runtime.setup.limits.max_content_bytes
        self._wire = self._wire or self._wires.wire(self._api, max_content_bytes)
        exchange = ApiCall(
            self._rest,
            self._wire,
            output=self._output,
            max_content_bytes=max_content_bytes,
            warns=self._api.spec.output_check == "warn",
            wanted=call.wanted,
            share=call.context.channel.share,
            checkers=self._runtime.services.checkers,
            turns=account.turns,
            tell=partial(send_update, call) if call.wants_updates else None,
            said={} if call.grace is None else call.grace.said,
        )
        return await exchange.run(call.line)


class RestPlans:
    """Makes the plans of tools with `rest`."""

    def __init__(self, wires: ApiWires) -> None:
        self._wires = wires

    def plan(self, runtime: Runtime, tool: DeclaredTool) -> RestPlan:
        """The plan of a tool with `rest`."""
        return RestPlan(runtime, self._wires, tool)

    def keep(self, setups: Iterable[Setup]) -> None:
        """From now on APIs of these alone are called."""
        self._wires.keep([api for setup in setups for api in setup.catalog.apis.values()])


@asynccontextmanager
async def open_rest_plans(log: Log, masker: Masker, environ: Mapping[str, str]) -> AsyncIterator[RestPlans]:
    """The planner of tools with `rest`; their connections are closed when the block is left."""
    authorizers = ApiAuthorizers(log, masker, environ)
    async with open_api_wires(authorizer=authorizers.make, masker=masker, debug=log.debug) as wires:
        yield RestPlans(wires)


class ApiAuthorizers:
    """Makes what gets tokens for APIs with `oauth`, which few daemons have."""

    def __init__(self, log: Log, masker: Masker, environ: Mapping[str, str]) -> None:
        self._log = log
        self._masker = masker
        self._environ = environ
        self._make: MakeAuthorizer | None = None
        # As long as an API has it.
        self._made: WeakValueDictionary[tuple[object, ...], Authorizer] = WeakValueDictionary()

    def make(self, reach: Reach) -> Authorizer:
        """That of one API; all have one store, and those that are one client of one endpoint share a token."""
        if self._make is None:
            from tooldispatchd.http.oauth.authorizer import EndpointAuthorizer  # noqa: PLC0415  # few need it
            from tooldispatchd.http.oauth.tokens import Tokens, TokenStore  # noqa: PLC0415  # as above

            store = TokenStore(self._environ, Tokens)
            log, learn = self._log, self._masker.learn
            self._make = partial(EndpointAuthorizer, store=store, warn=log.warning, debug=log.debug, learn=learn)
        client = (reach.oauth, reach.ca, reach.cert, reach.key)
        made = self._made.get(client) or self._make(reach)
        self._made[client] = made
        return made
