"""The tools of one session: which there are, and the plan of each; with `plans` the one place that names providers."""

from collections.abc import Iterator
from functools import partial
from typing import Literal

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.plans import DownPlan, McpPlan, declared_mcp_plan, in_mode, listed_plan
from tooldispatchd.agent.calls.sessionchannel import HOLD, Lookup
from tooldispatchd.agent.faults import SHOWN_NAME, propose, renamed, tool_left_out, unknown_tool
from tooldispatchd.agent.log import Log
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.caching import ToolIdentity
from tooldispatchd.agent.steps.governing import governed, sized
from tooldispatchd.agent.tools import passing
from tooldispatchd.agent.tools.builtins import INFO, InfoPlan, JobPlan
from tooldispatchd.agent.tools.declaredplans import (
    LIFTED,
    MAX_NAME,
    OUTPUTS,
    compile_lifted,
    compile_output_plans,
    compile_plans,
    info_plans,
    narrow_plans,
)
from tooldispatchd.agent.tools.servers import Servers, ServersOwner, SessionServer, at_servers, why_never
from tooldispatchd.agent.tools.servervalues import reach_of
from tooldispatchd.calls.content import AS_JSON
from tooldispatchd.calls.gate import Turns
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.catalog.denials import unmatched
from tooldispatchd.catalog.globs import insisted
from tooldispatchd.catalog.names import nearest, prefixed, split_name
from tooldispatchd.catalog.offered import Offered, is_for_apps
from tooldispatchd.catalog.policy import asks_for_steps, policy_of
from tooldispatchd.catalog.profiles import CALL_TOOL, SEARCH_TOOLS, Profile
from tooldispatchd.catalog.readings import Readings, fold
from tooldispatchd.catalog.specs import ToolSpec
from tooldispatchd.catalog.spelling import DISTINCT, unescape
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.catalog.traits import HINT, Choice, tags_of, traits_of
from tooldispatchd.providers.mcp.keeper import ServerHandle
from tooldispatchd.providers.mcp.server import McpTool
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind


class PassingPlan(McpPlan):
    """A request that goes to the server as it is, and comes back so, in whichever kind its session has its answers."""

    __slots__ = ()

    def __init__(self, runtime: Runtime, kept: ServerHandle, tool: McpTool, name: str) -> None:
        read = Reader(tool.input, missing={}, wrapped=False)
        super().__init__(runtime, kept, tool, offered=Offered(name=name, input_schema=tool.input_schema), read=read)

    def start(self, call: Call) -> None:
        """Send the request, the answer to which is JSON: parts of it, or a text for a model, nobody could read."""
        call.wanted = AS_JSON
        if isinstance(call, AgentCall) and call.asked_kind is not None:
            call.asked_kind = ContentKind.JSON
        super().start(call)


class Toolset:
    """The tools of one session: its profile's declared ones, and those of the servers that it opened.

    `plans` has the declared ones in the profile's order, those for jobs and `info`, then each server's, whichever of
    them was quicker. A declared tool that needs servers, itself or through its chains, is among them once all of these
    have settled. It stays the same object; calls that are under way keep the plan that they have when it changes.
    """

    __slots__ = (
        "_declared",
        "_inner",
        "_key",
        "_log",
        "_offered",
        "_offers_outputs",
        "_owner",
        "_profile",
        "_readings",
        "_runtime",
        "_servers",
        "_waiting",
        "plans",
        "refusal",
        "warnings",
    )

    def __init__(
        self, owner: ServersOwner, runtime: Runtime, profile: Profile, log: Log, *, turns: Turns, share: Share
    ) -> None:
        self._key = runtime.setup.profile_keys.key_of(profile)
        declared = runtime.plans(self._key, compile_plans)
        if profile is not runtime.setup.profile_keys.profile(self._key):
            declared = narrow_plans(runtime, declared, profile)
        named = (runtime.setup.catalog.servers[each] for each in profile.disabled)
        self.warnings = [f"server {each.name} is left out: {each.left_out}" for each in named if each.left_out]
        self.refusal: Fault | None = None
        self._offers_outputs = runtime.setup.says_store(profile)
        self._owner = owner
        self._runtime = runtime
        self._profile = profile
        self._log = log
        self._declared = declared
        self._servers = Servers(owner, runtime, log, profile=profile, turns=turns, share=share, changed=self._changed)
        for use in profile.servers:
            self._servers.offer(use)
        # The servers that each tool waits for.
        self._waiting = {
            name: [self._servers.need(tool) for tool in tools]
            for name, tools in at_servers(runtime.setup.catalog, profile).items()
        }
        if profile.is_searched and len(self._servers):
            # What is found must not depend on which server was quick; to call a tool by its name need not wait.
            self._waiting |= {name: list(self._servers) for name in SEARCH_TOOLS if name != CALL_TOOL}
        # The names that each server offers, in its own order.
        self._offered: dict[str, list[str]] = {}
        # How else the tools may be called; made when somebody asks.
        self._readings: Readings | None = None
        # The plans of servers' tools that chains have asked for.
        self._inner: dict[str, Plan] = {}
        # Without servers nothing is ever added, and all sessions of the profile share one table.
        self.plans: dict[str, Plan] = declared
        if len(self._servers):
            self.plans = {name: plan for name, plan in declared.items() if name not in self._waiting}
            # It tells of the tools of servers too.
            self._declared = declared | info_plans(runtime, profile, self._described)
            self.plans |= {name: plan for name, plan in self._declared.items() if name == INFO}

    @property
    def servers(self) -> Iterator[SessionServer]:
        """The session's servers."""
        return iter(self._servers)

    # --- opening and closing ---

    @property
    def is_settled(self) -> bool:
        """Whether every server has answered or failed."""
        return self._servers.is_settled

    @property
    def opening_limit_s(self) -> float:
        """How long a call may wait for the servers."""
        return self._servers.opening_limit_s

    def open(self, before: "Toolset | None" = None) -> None:
        """Start the servers, all at once; each settles by itself, and those that cannot be started at once.

        What the session has open in the toolset `before`, and is the same here, goes along.
        """
        self._servers.open(self._settled, before=None if before is None else before._servers)

    def close(self) -> None:
        """Release the servers. Idempotent. Their owner tasks return when nothing of them is left."""
        self._servers.close()

    def forget(self) -> None:
        """Drop the references to the owner, after the end; the plans stay."""
        own = self._declared.get(INFO) if len(self._servers) else None
        if isinstance(own, InfoPlan):
            # It would keep all this until a collection finds both.
            own.find = lambda _name: None
        self._servers.forget()
        del self._owner

    @property
    def listed(self) -> dict[str, Plan]:
        """The plans that lists of tools show: all, or those that find the others, and those for jobs."""
        listed = self.plans
        if self._profile.is_searched:
            jobs = (name for name, plan in self._declared.items() if isinstance(plan, JobPlan))
            listed = {name: self._declared[name] for name in (*SEARCH_TOOLS, *jobs)}
        if not self._offers_outputs:
            return listed
        # A tool of such a name, of the file or a server, stands for itself.
        return listed | {name: plan for name, plan in self._output_plans.items() if name not in self.plans}

    @property
    def _output_plans(self) -> dict[str, Plan]:
        """Those that read long answers, which can be called whether they are listed or not."""
        return self._runtime.plans(OUTPUTS + self._key, compile_output_plans)

    def offer_outputs(self) -> None:
        """There are long answers from here on: lists show what reads them."""
        if not self._offers_outputs:
            self._offers_outputs = True
            self._owner.tools_changed()

    @property
    def natives(self) -> dict[str, ToolSpec]:
        """The tools that models' providers run themselves; there are no plans of them."""
        specs = self._runtime.setup.catalog.config.tools
        return {name: specs[name] for name in self._profile.tools if specs[name].native is not None}

    @property
    def advice(self) -> Iterator[tuple[str, str]]:
        """The instructions of the offered servers, each with its prefix."""
        return self._servers.advice()

    @property
    def starting(self) -> tuple[bool, list[str]]:
        """Whether something is known of each server, and which have not answered yet."""
        return self._servers.starting

    def _settled(self, server: SessionServer) -> None:
        kept, fault = server.kept, server.fault
        self.warnings.extend(f"server {server.name}: {warning}" for warning in server.warnings)
        if fault is not None:
            self._miss(server, fault)
        elif kept is not None:
            for tool, detail in self._missing(server, kept).items():
                self._refuse(kept, tool, detail)
        if kept is not None and (fault is None or kept.offer.tools):
            # A shared server that is opened anew has the tools that it had: it may come back with no other ones.
            hidden = self._offer(server, kept)
            self._tell_unmatched(server, kept)
            self.warnings += [f"server {server.name}: {name} is hidden by another tool of that name" for name in hidden]
        self._place()
        self._order()

    def _changed(self, server: SessionServer) -> None:
        """A server has other tools than it had when it settled: make the plans of its tools anew."""
        kept = server.kept
        assert kept is not None
        # A tool that is missing now is offered no more; that does not end a session, and is logged.
        self._missing(server, kept)
        for name in self._offered.pop(server.name, ()):
            del self.plans[name]
        tools = self._runtime.setup.catalog.tools
        # The declared tools, of the profile or of its chains, that are tools of this server.
        for name in {*self._inner, *self._profile.tools}:
            at = tools[name].server
            if at is not None and at.binding == server.name:
                self._inner.pop(name, None)
                if name in self._profile.tools:
                    self.plans.pop(name, None)
                    self._waiting[name] = [server]
        self._runtime.state.answers.clear(server.name)
        self._offer(server, kept)
        self._place()
        self._order()
        self._owner.tools_changed()

    def _missing(self, server: SessionServer, kept: ServerHandle) -> dict[str, str]:
        """The tools that the server should have and lacks, each with a sentence that says so."""
        lacks = f"server {server.name} does not offer the tool"
        missing = {
            tool: f"{lacks} {tool}, which the tool {declared} is made of{kept.offer.why_missing(tool)}"
            for tool, declared in server.needed.items()
            if kept.offer.tool(tool) is None
        }
        if server.use is not None:
            named = (*(server.use.only or ()), *(server.binding.spec.tools or ()))
            usable = kept.offer.tools
            lacking = insisted(named, usable=usable, listed=kept.offer.listed or usable, keeps=server.keeps)
            missing |= {tool: f"{lacks} {tool}{kept.offer.why_missing(tool)}" for tool in lacking}
        for tool, detail in missing.items():
            self._log.warning("tool missing", server=server.name, tool=tool, reason=detail)
        return missing

    def _tell_unmatched(self, server: SessionServer, kept: ServerHandle) -> None:
        """Warn of what the profile denies of the server, and the server does not have: it may be a slip."""
        config = self._runtime.setup.catalog.config
        spec = config.profile_spec(self._profile.name)
        if spec is None or not spec.deny or server.use is None:
            return
        entries = [entry for entry in spec.deny if entry not in config.tools]
        names = [*kept.offer.tools, *(kept.offer.listed or ()), *kept.offer.left_out]
        for entry in unmatched(entries, {server.name, server.prefix or server.name}, names):
            self._log.warning("denial fits no tool", server=server.name, entry=entry)
            self.warnings.append(f"server {server.name} has no tool {entry}, which the profile denies")

    def _offer(self, server: SessionServer, kept: ServerHandle) -> list[str]:
        """Make the plans of the server's own tools; the names of those that others have."""
        server.planned, use, prefix = kept.offer, server.use, server.prefix
        if use is None or prefix is None:
            return []
        hidden: list[str] = []
        wanted = [Choice(entries) for entries in server.lists]
        taken = Choice(use.without)
        is_by_hints = any(entry.startswith(HINT) for entries in (*server.lists, use.without) for entry in entries)
        offered = self._offered[server.name] = []
        for tool in kept.offer.tools.values():
            traits = self._traits_of(server, tool) if is_by_hints else ()
            # Some may be there for declared ones alone.
            is_taken = taken.admits(tool.name, traits) or (use.spelled and use.denies(tool.name, (), prefix=prefix))
            is_taken = is_taken or ("ui" not in self._owner.answers and is_for_apps(tool.meta))
            if is_taken or not all(each.admits(tool.name, traits) for each in wanted):
                continue
            name = prefixed(prefix, tool.name)
            if name in self.plans or name in self._waiting or (not prefix and self._is_of_another(name)):
                hidden.append(name)
                self._log.warning("tool hidden", server=server.name, tool=name)
            else:
                tags = server.binding.spec.tags
                plan = listed_plan(self._runtime, kept, tool, name=name, tags=tags, unenforced=server.unenforced)
                self.plans[name] = self._governed(plan, server, tool)
                offered.append(name)
        return hidden

    def _is_of_another(self, raw: str) -> bool:
        """Tell whether a name without a prefix reads as another server's tool, or as a request to a server."""
        prefix, colon, _ = raw.partition(":")
        server, _, method = raw.rpartition(passing.SIGN)
        is_request = method in passing.METHODS and self._servers.get(server) is not None
        return is_request or (bool(colon) and any(prefix == each.prefix for each in self._servers))

    def _traits_of(self, server: SessionServer, tool: McpTool, declared: str | None = None) -> tuple[str, ...]:
        """The traits of a server's tool, or of a declared one that it is, with what the server says of it."""
        spec = None if declared is None else self._runtime.setup.catalog.config.tools[declared]
        return traits_of(spec, server.binding.spec, server_tool=tool.name, hints=tool.hints)

    def _denies(self, declared: str) -> bool:
        """Whether the profile takes a declared tool away for what its server says of it."""
        profile = self._runtime.setup.catalog.config.profile_spec(self._profile.name)
        at = self._runtime.setup.catalog.tools[declared].server
        server = None if at is None else self._servers[at.binding]
        if profile is None or at is None or server is None or server.kept is None:
            return False
        tool = server.kept.offer.tool(at.tool)
        if tool is None or not any(entry.startswith(HINT) for entry in (*(profile.allow or ()), *profile.deny)):
            return False
        traits = self._traits_of(server, tool, declared)
        is_allowed = profile.allow is None or Choice(profile.allow).admits(declared, traits)
        return Choice(profile.deny).admits(declared, traits) or not is_allowed

    def _is_denied(self, server: SessionServer, name: str) -> bool:
        """Whether a tool of the server is taken away, by name or for what the server says of it."""
        tool = None if server.kept is None else server.kept.offer.tools.get(name)
        return server.denies(name, () if tool is None else self._traits_of(server, tool))

    def _governed(self, plan: Plan, server: SessionServer, tool: McpTool, declared: str | None = None) -> Plan:
        """The plan with the steps that the tables of its tool, the server and the profile ask for."""
        config = self._runtime.setup.catalog.config
        profile = config.profile_spec(self._profile.name)
        is_asked = asks_for_steps(server.binding.spec) or asks_for_steps(profile) or self._runtime.hooks
        if declared is None and not is_asked:
            # There may be a thousand of them.
            return sized(self._runtime, plan)
        policy = policy_of(
            config,
            profile,
            tool=declared,
            server=server.binding,
            server_tool=tool.name,
            says_read_only=plan.offered.says_read_only,
            says_harmless=plan.offered.says_harmless,
        )
        binding, listed = server.binding, (tool.name, tool.input_schema, tool.output_schema, tool.annotations)
        spec = None if declared is None else config.tools[declared]
        made_of = (listed, spec, binding.spec, binding.credentials, self._profile.confinement)
        identity = ToolIdentity(lambda: made_of, server.name, is_per_session=not binding.spec.shared)
        accounts, reach = self._runtime.services.accounts, reach_of(binding)
        if accounts is not None and reach is not None and reach.oauth is not None:
            identity = msgspec.structs.replace(identity, shown=partial(accounts.shown, reach))
        if isinstance(plan, PassingPlan):
            # It may change something, whatever it is called.
            policy = msgspec.structs.replace(policy, caching=None)
        return governed(self._runtime, plan, policy, identity)

    def _refuse(self, kept: ServerHandle, tool: str, detail: str) -> None:
        if self.refusal is not None:
            return
        fault = Fault(Code.MISSING_TOOL, detail, {"server": kept.server.name, "tool": tool})
        offer = kept.offer
        usable = [name for name in offer.listed or offer.tools if name not in offer.left_out]
        self.refusal = fault if tool in offer.left_out else propose(fault, nearest(tool, usable))

    def _miss(self, server: SessionServer, fault: Fault) -> None:
        """A server that did not come up is a warning, and a refusal where its tools were named to be offered."""
        use = server.use
        is_named = use is not None and (server.binding.spec.tools is not None or use.only is not None)
        # A reason that was known when the configuration was read would refuse every session, and was told then.
        if fault.code is Code.MISSING_TOOL and server.kept is not None:
            self._refuse(server.kept, str(fault.extras["tool"]), fault.detail)
        elif is_named and server.is_startable:
            self.refusal = self.refusal or fault
        else:
            self.warnings.append(fault.detail)

    def _place(self) -> None:
        """Add the declared tools that have waited for their servers, and wait for none any more."""
        for name, servers in list(self._waiting.items()):
            if all(server.is_settled for server in servers):
                del self._waiting[name]
                plan = self._declared.get(name) or self._plan_of(self._runtime.setup.catalog.tools[name])
                if plan is not None:
                    self.plans[name] = plan

    def _order(self) -> None:
        """Put the plans in order, which must not depend on which server was quick: models are shown it."""
        self._readings = None
        found = dict(self.plans)
        offered = (name for server in self._servers for name in self._offered.get(server.name, ()))
        order = dict.fromkeys([*self._profile.tools, *self._declared, *offered])
        self.plans.clear()
        self.plans.update({name: found[name] for name in order if name in found})

    def _plan_of(self, tool: DeclaredTool) -> Plan | None:
        """The plan of a tool of the profile; None for one that is not known without its server, which is down."""
        if tool.server is None:
            return self._declared[tool.name]
        if self._denies(tool.name):
            return None
        plan = self.inner(tool.name)
        if isinstance(plan, Plan):
            return plan
        server = self._servers[tool.server.binding]
        if not tool.input_schema or server.fault is None:
            return None
        down = DownPlan(self._runtime, tool, lambda: server.fault or plan, server=server.name)
        config = self._runtime.setup.catalog.config
        policy = policy_of(config, config.profile_spec(self._profile.name), tool=tool.name, server=server.binding)
        return governed(self._runtime, down, policy)

    # --- routing ---

    def inner(self, name: str) -> Plan | Fault:
        """The plan of a declared tool that a chain of this session lifts, offered or not; or why there is none."""
        tool = self._runtime.setup.catalog.tools.get(name)
        if tool is None:
            # A chain that began under another generation.
            return self._unknown(name)
        if tool.server is None:
            return self._runtime.plans(LIFTED + self._key, compile_lifted).get(name) or self._unknown(name)
        if name not in self._inner:
            server = self._servers[tool.server.binding]
            kept = server.kept
            listed = None if kept is None else kept.offer.tool(tool.server.tool)
            if kept is None or listed is None:
                # A tool that its server lacks is no tool of this session, or the session is refused for it.
                return server.fault or self._unknown(name)
            tags = tags_of(tool.spec, server.binding.spec)
            plan = declared_mcp_plan(self._runtime, kept, tool, listed, tags=tags, unenforced=server.unenforced)
            self._inner[name] = self._governed(in_mode(plan, tool), server, listed, declared=name)
        return self._inner[name]

    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]:
        """The plan of the tool, why there is none, or that it is too early to say.

        A name that no tool has may be an alias, or what some form shows a tool by.
        """
        plan = self.plans.get(name)
        if plan is not None:
            return plan
        if len(name) > MAX_NAME:
            return self._unknown(name)  # it would be kept for as long as a server starts
        found = self._find_own(name) or self._output_plans.get(name)
        if found is not None:
            return found
        meant = self._runtime.setup.catalog.aliases.get(name) or self._meant(name)
        if isinstance(meant, Lookup):
            return meant
        if meant is None:
            return self._unknown(name)
        found = self.find(meant)
        return renamed(found, name, str) if isinstance(found, Fault) else found

    # --- beyond the tools of servers ---

    def passing(self) -> list[Raw]:
        """The servers that the agent may speak with beyond their tools and that are up, as `ready` lists them."""
        shown = ((each, self._servers.introduced(each)) for each in self._servers if self.passing_server(each.name))
        return [
            Raw(msgspec.json.encode({"server": each.name, "prefix": each.prefix, "capabilities": offer.capabilities}))
            for each, offer in shown
            if offer is not None
        ]

    def passing_server(self, name: str) -> SessionServer | None:
        """That server, up or not, where the agent may speak with it beyond its tools."""
        server = self._servers.get(name)
        if server is None or not passing.passes(server.binding.spec, server.use, self._runtime.setup, self._profile):
            return None
        return server

    def find_method(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]:
        """As `find`, of `SERVER!METHOD`."""
        name_of, _, method = name.rpartition(passing.SIGN)
        server = self._servers.get(name_of)
        if server is None or method not in passing.METHODS:
            return self._unknown(name)
        if self.passing_server(name_of) is None:
            return self._not_allowed(name)
        if not server.is_settled:
            return HOLD
        if server.binding.spec.shared and method in passing.OF_ONE:
            detail = f"server {server.name} is shared: {method} would be everybody's"
            return Fault(Code.NOT_ALLOWED, detail, {"source": name})
        if server.kept is None or server.fault is not None:
            return server.fault or self._unknown(name)
        tool = passing.METHODS[method]
        plan = self._governed(PassingPlan(self._runtime, server.kept, tool, name), server, tool)
        # Its answer is what the server's protocol says, and no text for a model.
        plan.remove(StepOrder.SIZE)
        return plan

    @property
    def may_name_workspace(self) -> bool:
        """Whether the profile admits a workspace that `hello` names."""
        return bool(self._profile.workspaces)

    def _find_own(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD] | None:
        """What is known of a tool by its own name; None where there is none of this name."""
        if name in self._waiting:
            return HOLD
        declared = self._runtime.setup.catalog.tools.get(name)
        if declared is not None and declared.spec.native is not None and name in self._profile.tools:
            return Fault(Code.PROVIDER_NATIVE, f"the model's own provider runs {name}", {"source": name})
        if declared is not None:
            if declared.server is None or name not in self._profile.tools or self._denies(name):
                return self._not_allowed(name)
            found = self.inner(name)
            return found if isinstance(found, Fault) else self._unknown(name)
        prefix = split_name(name)[0]
        for server in self._servers.under(prefix):
            known = self._find_at(server, name, is_its_own=prefix == server.prefix)
            if known is not None:
                return known
        for each in self._profile.disabled:
            binding = self._runtime.setup.catalog.servers[each]
            if prefix == binding.prefix and (fault := why_never(binding)) is not None:
                return fault
        return HOLD if self._servers.may_become(prefix) else None

    def _find_at(
        self, server: SessionServer, name: str, *, is_its_own: bool
    ) -> Plan | Fault | Literal[Lookup.HOLD] | None:
        """Look a name up at one server; None where that has no such tool."""
        prefix, tool = split_name(name)
        # What is denied by its name stays so, whatever the server will say. A raw name may be another server's.
        if (server.is_settled or (is_its_own and prefix)) and self._is_denied(server, tool):
            return self._not_allowed(name)
        if not server.is_settled:
            return HOLD
        if not is_its_own:
            return None
        if server.fault is not None:
            return server.fault
        if server.kept is not None and server.planned is not server.kept.offer:
            # Sessions of a shared server are told of its tools one after the other, and this one has to wait.
            self._changed(server)
            if name in self.plans:
                return self.plans[name]
        why = server.why_left_out(tool)
        return None if why is None else tool_left_out(name, why, server=server.name)

    def _meant(self, name: str) -> str | Literal[Lookup.HOLD] | None:
        """The one tool that is meant by a name which is none's own; of the tools of servers that are up."""
        if any(server.use and not server.is_settled and self._may_mean(name, server) for server in self._servers):
            # It may have a tool of this spelling, and whether one or several are meant must not depend on which of
            # the servers was quick.
            return HOLD
        meant = self._names().spelled(name)
        if meant is None and self._profile.resolve == "lenient":
            meant = self._names().bare(name)
        if meant is None:
            # A tool that exists and is not this agent's, or whose server is down.
            escaped = (unescape(name, provider) for provider in DISTINCT)
            meant = next((each for each in escaped if each and each != name and self._find_own(each) is not None), None)
        return meant or self._runtime.setup.declared.spelled(name)

    def _may_mean(self, name: str, server: SessionServer) -> bool:
        if self._profile.resolve == "lenient" or server.prefix == "":
            return True
        # All that a colon can be written as begins so.
        return any(each in name for each in ":_") and fold(name).startswith(fold(server.prefix or ""))

    def _described(self, name: str) -> Plan | None:
        found = self.find(name)
        return found if isinstance(found, Plan) else None

    def _names(self) -> Readings:
        if self._readings is None:
            self._readings = Readings([*self.plans, *self._waiting])
        return self._readings

    @staticmethod
    def _not_allowed(name: str) -> Fault:
        return Fault(Code.NOT_ALLOWED, f"{name} is not among the tools of this agent", {"source": name})

    def _unknown(self, name: str) -> Fault:
        # So long a name is no typing error, and comparing it would take long.
        may_hint = len(name) <= SHOWN_NAME and self._runtime.state.hints.take(len(self.plans), trio.current_time())
        close = self._names().near(name) or nearest(name, self.plans) if may_hint else None
        servers = [
            each.name if each.fault is None else f"{each.name} (not available)" for each in self._servers if each.use
        ]
        return unknown_tool(name, close, profile=self._profile.name, servers=servers)
