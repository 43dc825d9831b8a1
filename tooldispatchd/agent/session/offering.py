"""What one agent is shown of its session's tools, and finds among them: in its form, less what it has switched off.

A session that was shown the plain form and has switched nothing looks names up in the table of its toolset itself.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, Raw

from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.calls.sessionchannel import Lookup
from tooldispatchd.agent.faults import switched_off
from tooldispatchd.agent.tools.builtins import instructions_of
from tooldispatchd.agent.tools.passing import METHODS, SIGN
from tooldispatchd.agent.tools.showing import PLAIN, Showing, plain_entries, prompt_in, render_plain
from tooldispatchd.agent.tools.toolset import Toolset
from tooldispatchd.calls.selection import EVERY, ToolSelection
from tooldispatchd.catalog.offered import is_for_apps
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import MAX_SWITCHES, PROTOCOL, ReadyLine, Select, ToolsLine, ToolsReq
from tooldispatchd.wire.opening import OpeningLine
from tooldispatchd.wire.session import EDITION, SessionMachine


class Offering:
    """See the module. `plans` are what can be called, by every name that was shown; a new table whenever it changes."""

    __slots__ = ("_has_told", "_is_searched", "_machine", "_selection", "_showing", "_toolset", "plans")

    def __init__(self, toolset: Toolset, machine: SessionMachine, profile: Profile) -> None:
        self._toolset = toolset
        self._machine = machine
        self._is_searched = profile.is_searched
        # None for an agent that was shown the plain form alone, which spells nothing.
        self._showing = Showing(profile.separator) if profile.separator != ":" else None
        # None where everything is on.
        self._selection: ToolSelection | None = None
        self.plans = toolset.plans
        self._has_told = False  # what is known before `ready`

    def move(self, toolset: Toolset, profile: Profile) -> None:
        """Show and find the tools of another toolset; what was switched stays so."""
        self._toolset = toolset
        self._is_searched = profile.is_searched
        self.settle()
        self.refresh()

    # --- what is on ---

    def attend(self) -> None:
        """After a `hello`: switch what it says."""
        said = self._machine.asked.select
        if said is not None:
            self._selection = ToolSelection().switched(said.tags, said.tools)
            self.settle()

    def settle(self) -> None:
        """Know tools that were switched before they were there by their own names, as far as they are there now."""
        selection = self._selection
        if selection is not None:
            found = ((self._find_any(name), name, is_on) for name, is_on in selection.tools.items())
            tools = {plan.name if isinstance(plan, Plan) else name: is_on for plan, name, is_on in found}
            self._selection = ToolSelection(selection.tags, tools)
            self.refresh()

    def refresh(self) -> None:
        """Have names looked up in what the toolset has now."""
        plans, selection = self._toolset.plans, self._selection
        if self._showing is not None:
            plans = self._showing.table(plans)
        self.plans = plans if selection is None else _those_on(plans, selection)

    # --- lists ---

    @property
    def listed(self) -> dict[str, Plan]:
        """The plans that lists of tools show."""
        return self._listed(self._selection)

    def _listed(self, selection: ToolSelection | None) -> dict[str, Plan]:
        listed = self._toolset.listed
        return listed if selection is None else _those_on(listed, selection)

    @property
    def selection(self) -> ToolSelection | None:
        """What is on; None where everything is."""
        return self._selection

    def render(self, form: str | None, selection: ToolSelection | None) -> Iterator[None]:
        """Make ready what a list of these needs, in a form or in that of `hello`, with pauses; tools may change in one.

        Nothing is kept of it but what all sessions share, so that it is for the first of them alone.
        """
        form = form or self._machine.asked.schemas or PLAIN
        showing = self._showing_in(form)
        listed: dict[str, Plan] | None = None
        while listed != (now := self._listed(selection)):
            listed = dict(now)
            if showing is None:
                yield from render_plain(listed.values())
            else:
                yield from showing.render(form, self._toolset.plans, listed)

    def _shown(self) -> tuple[list[Raw], list[str]]:
        """The tools in the form of `hello`, and what it could not say; their names as it spells them are known now."""
        return self._entries(self._machine.asked.schemas, self._selection)

    def ready(self, profile: str, capabilities: Raw, limits: Raw) -> ReadyLine:
        """The line that says that the session is open, and for what."""
        machine, toolset = self._machine, self._toolset
        tools, notes = self._shown()
        return ReadyLine(
            profile,
            PROTOCOL,
            tools,
            [*toolset.warnings, *notes],
            capabilities,
            limits,
            machine.agent,
            instructions_of(self.listed.values(), toolset.advice),
            machine.hello_id,
            prompt_in(machine.asked.schemas, tools),
            toolset.passing() if machine.asked.servers else UNSET,
            EDITION,
        )

    def opening(self, capabilities: Raw) -> OpeningLine:
        """The line that says what is known before the servers have answered: what they said last."""
        machine, toolset = self._machine, self._toolset
        is_complete, waiting = toolset.starting
        self._has_told = True
        return OpeningLine(
            is_complete,
            capabilities,
            toolset.passing() if machine.asked.servers else [],
            machine.agent,
            instructions_of(self.listed.values(), toolset.advice),
            machine.hello_id,
            waiting,
        )

    def still_opening(self) -> OpeningLine | None:
        """The line that says which servers have still to answer; None where nothing was told beforehand."""
        if not self._has_told:
            return None
        machine, (is_complete, waiting) = self._machine, self._toolset.starting
        return OpeningLine(is_complete, Raw(b"{}"), [], machine.agent, id=machine.hello_id, waiting=waiting)

    def send_changed(self) -> None:
        """Send the tools, which have changed."""
        tools, _notes = self._shown()
        self._machine.tools_changed(tools, prompt_in(self._machine.asked.schemas, tools))

    def choose(self, asked: ToolsReq) -> ToolSelection | Fault | None:
        """What a list in answer to `tools` or `select` is to show, None for everything; or why there is none.

        What `select` says holds from now on.
        """
        if asked.tags is None and asked.tools is None:
            return self._selection
        found = self._selected(asked)
        if isinstance(asked, Select) and not isinstance(found, Fault):
            self._selection = found
            self.refresh()
        return found

    def answer(self, asked: ToolsReq, chosen: ToolSelection | None) -> ToolsLine:
        """The list of what was chosen, in the form asked for, else in that of `hello`."""
        form = asked.schemas or self._machine.asked.schemas
        tools = self._entries(form, chosen)[0]
        return ToolsLine(tools, self._machine.agent, asked.id, prompt_in(form, tools))

    def _entries(self, form: str | None, selection: ToolSelection | None) -> tuple[list[Raw], list[str]]:
        form, listed = form or PLAIN, self._listed(selection)
        if form != "mcp" and any(plan.offered.meta is not None for plan in listed.values()):
            # Only there is shown what a tool is for.
            listed = {name: plan for name, plan in listed.items() if not is_for_apps(plan.offered.meta)}
        showing = self._showing_in(form)
        if showing is None:
            return plain_entries(listed.values()), []
        entries, warnings = showing.entries(form, self._toolset.plans, listed)
        self.refresh()
        return [*entries, *self._native(form, selection)], warnings

    def _native(self, form: str, selection: ToolSelection | None) -> Iterator[Raw]:
        """The tools that the provider of this form runs itself, as it wants them to be named."""
        for name, spec in self._toolset.natives.items() if not self._is_searched else ():
            shown = next((entry for key, entry in (spec.native or {}).items() if key == form), None)
            if shown is not None and (selection is None or selection.is_on(name, spec.tags)):
                yield Raw(msgspec.json.encode(shown))

    def _selected(self, asked: ToolsReq) -> ToolSelection | Fault:
        """The selection with what is asked for, its tools by their own names; or why there is none."""
        tools: dict[str, bool] = {}
        for name, is_on in (asked.tools or {}).items():
            found = name if name == EVERY else self._find_any(name)
            if isinstance(found, Fault) and found.code is not Code.PROVIDER_NATIVE:
                return found
            # One that a server may have once it is up is known by this name until then.
            tools[found.name if isinstance(found, Plan) else name] = is_on
        selection = (self._selection or ToolSelection()).switched(asked.tags, tools)
        if selection.size > MAX_SWITCHES:
            return Fault(Code.INVALID_REQUEST, f"a session has at most {MAX_SWITCHES} tags and tools switched")
        return selection

    # --- names ---

    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]:
        """The plan of a tool by its own name or by one that is shown, why there is none, or that it is too early."""
        if self._machine.asked.servers and name.rpartition(SIGN)[2] in METHODS and SIGN in name:
            return self._toolset.find_method(name)
        found, selection = self._find_any(name), self._selection
        is_off = selection is not None and isinstance(found, Plan) and not _is_on(found, selection)
        return switched_off(name) if is_off else found

    def spelled(self, names: Iterable[str]) -> list[str]:
        """The names of tools as the form of `hello` shows them."""
        form = self._machine.asked.schemas or PLAIN
        showing = self._showing_in(form)
        return list(names) if showing is None else showing.shown(names, form, self._toolset.plans)

    def _find_any(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]:
        """As `find`, also a tool that is switched off."""
        form = self._machine.asked.schemas or PLAIN
        showing = self._showing_in(form)
        return self._toolset.find(name) if showing is None else showing.find(name, form, self._toolset)

    def _showing_in(self, form: str) -> Showing | None:
        """What spells the names in forms; None where no other form than the plain one was asked for yet."""
        if form != PLAIN:
            self._showing = self._showing or Showing()
        return self._showing


def _is_on(plan: Plan, selection: ToolSelection) -> bool:
    return selection.is_on(plan.name, plan.offered.tags)


def _those_on(plans: dict[str, Plan], selection: ToolSelection) -> dict[str, Plan]:
    return {name: plan for name, plan in plans.items() if _is_on(plan, selection)}
