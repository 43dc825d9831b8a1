"""How one agent is shown its tools: the form of schemas that it asked for, and the names as that form spells them."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, Protocol, cast

import msgspec
from msgspec import Raw

from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.calls.sessionchannel import Lookup
from tooldispatchd.agent.faults import renamed
from tooldispatchd.catalog.forms.form import FORMS, render, render_open
from tooldispatchd.catalog.spelling import Provider, Separator, Spelling
from tooldispatchd.catalog.textcalls import prompt_of, read_calls
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Parse, Parsed

PLAIN: Final = "plain"
TEXT: Final = "text"
# Of one list in a form that must be written anew; a thousand ordinary tools are less. What comes after it is shown with
# any object as its input: a hostile server's schemas cost the dispatch thread some milliseconds each.
MAX_LISTED_BYTES: Final = 1024 * 1024
# What one turn of the loop makes of a list. In the form of Google that takes 6 ms, in the others one.
RENDERED_BYTES: Final = 8 * 1024


class NamedTools(Protocol):
    """`Toolset`, as names are looked up in it."""

    plans: dict[str, Plan]

    @property
    def is_settled(self) -> bool: ...
    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]: ...


_encode: Final = msgspec.json.Encoder().encode


def refuse_form(schemas: str | None) -> Fault | None:
    """Why tools cannot be shown in a form, or None where they can; no form asked for is the plain one."""
    if schemas is None or schemas in FORMS:
        return None
    known = ", ".join(sorted(FORMS))
    return Fault(Code.INVALID_REQUEST, f"no such form of schemas; there are {known}")


def parsed(asked: Parse) -> Parsed:
    """The calls in what a model without tool calling wrote."""
    calls, malformed = read_calls(asked.text)
    return Parsed(
        [Raw(_encode(call)) for call in calls], [Raw(_encode(each)) for each in malformed], asked.agent, asked.id
    )


class Showing:
    """The forms that one session's tools were shown in; most agents ask for one.

    Names are spelt so that no two of the session's tools are spelt the same.
    """

    __slots__ = ("_separator", "_spellings")

    def __init__(self, separator: Separator = ":") -> None:
        self._separator = separator
        self._spellings: dict[str, Spelling] = {}

    def entries(self, form: str, plans: Mapping[str, Plan], listed: Mapping[str, Plan]) -> tuple[list[Raw], list[str]]:
        """Each listed one of the tools as JSON in a form, and a warning for whatever the form cannot express."""
        entries: list[Raw] = []
        warnings: list[str] = []
        spelling = self._spelling(form)
        spelling.add(plans)
        room = MAX_LISTED_BYTES
        for name, plan in listed.items():
            shown, notes = _rendered(plan, form, spelling.shown(name), is_open=room <= 0)
            room -= len(shown)
            entries.append(shown)
            warnings += [f"tool {name}: {note}" for note in notes]
        return entries, warnings

    def render(self, form: str, plans: Mapping[str, Plan], listed: Mapping[str, Plan]) -> Iterator[None]:
        """Make the entries that a list in a form still needs, with a pause after each `RENDERED_BYTES` of them.

        `listed` is not to change meanwhile.
        """
        spelling = self._spelling(form)
        spelling.add(plans)
        return _render(((plan, spelling.shown(name)) for name, plan in listed.items()), form, MAX_LISTED_BYTES)

    def shown(self, names: Iterable[str], form: str, plans: Mapping[str, Plan]) -> list[str]:
        """The names of some of the tools as a form spells them."""
        spelling = self._spelling(form)
        spelling.add(plans)
        return [spelling.shown(name) for name in names]

    def table(self, plans: Mapping[str, Plan]) -> dict[str, Plan]:
        """The plans by their own names and by those that were shown.

        What a model was shown wins over a tool of that very name, which it was shown under another.
        """
        table = dict(plans)
        for spelling in reversed(self._spellings.values()):
            spelling.add(plans)
            table.update((spelling.shown(name), plan) for name, plan in plans.items())
        return table

    def find(self, name: str, form: str, tools: NamedTools) -> Plan | Fault | Literal[Lookup.HOLD]:
        """Look a name up that was shown, or would be, or is the tool's own."""
        spelling = self._spelling(form)
        if tools.is_settled:
            spelling.add(tools.plans)
        found = tools.find(spelling.canonical(name) or name)
        return renamed(found, name, spelling.shown) if isinstance(found, Fault) else found

    def _spelling(self, form: str) -> Spelling:
        spelling = self._spellings.get(form)
        if spelling is None:
            # A form has been looked at when it was asked for, and each is a provider's name.
            spelling = self._spellings[form] = Spelling(cast("Provider", form), self._separator)
        return spelling


def prompt_in(form: str | None, tools: list[Raw]) -> str | None:
    """What goes with a list in the form for models without tool calling."""
    return prompt_of(tools) if form == TEXT else None


def plain_entries(plans: Iterable[Plan]) -> list[Raw]:
    """Each tool as JSON in the plain form, which says everything and spells nothing."""
    return [_rendered(plan, PLAIN, plan.name)[0] for plan in plans]


def render_plain(plans: Iterable[Plan]) -> Iterator[None]:
    """As `Showing.render`, of a list in the plain form."""
    return _render(((plan, plan.name) for plan in plans), PLAIN, sys.maxsize)


def _render(named: Iterable[tuple[Plan, str]], form: str, room: int) -> Iterator[None]:
    left = RENDERED_BYTES
    for plan, name in named:
        is_there = (form, name) in plan.rendered
        size = len(_rendered(plan, form, name)[0])
        room -= size
        if room <= 0:
            return
        left -= 0 if is_there else size
        if left <= 0:
            yield
            left = RENDERED_BYTES


def _rendered(plan: Plan, form: str, name: str, *, is_open: bool = False) -> tuple[Raw, tuple[str, ...]]:
    """The entry and its notes; a plan that many sessions share is rendered once.

    `is_open` says nothing of the input, where that has not been rendered yet.
    """
    key = (form, name)
    found = plan.rendered.get(key)
    if found is None:
        made = render_open(form, plan.offered, name) if is_open else render(form, plan.offered, name)
        found = Raw(_encode(made.entry)), made.notes
        if not is_open:
            plan.rendered[key] = found
    return found
