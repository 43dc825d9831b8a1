"""How one agent is shown its tools: the form of schemas that it asked for, and the names as that form spells them."""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from heapq import heapify, heappop, heappush
from typing import Final, Literal, Protocol, cast

import msgspec
from msgspec import Raw

from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.calls.sessionchannel import Lookup
from tooldispatchd.agent.faults import renamed
from tooldispatchd.catalog.forms.form import BRIEF_CHARS, CUTS, FORMS, MENDING, own_names
from tooldispatchd.catalog.spelling import Provider, Separator, Spelling
from tooldispatchd.catalog.textcalls import prompt_of, read_calls
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Parse, Parsed

PLAIN: Final = "plain"
TEXT: Final = "text"
# Of one list in a form that must be written anew; a thousand ordinary tools are less. Of what is over it the largest
# are shown in brief, then with the types of their properties, and then with any object as their input.
MAX_LISTED_BYTES: Final = 1024 * 1024
# Of the entries that are written to find out which are the largest: a hostile server's schemas cost the dispatch thread
# some milliseconds each. Those of the smallest schemas come first.
MAX_WRITTEN_BYTES: Final = 2 * MAX_LISTED_BYTES
# To know the size of a schema takes so much less time than to write it in a form.
_WEIGHING: Final = 32
# What one turn of the loop makes of a list. In the form of Google that takes 6 ms, in the others one.
RENDERED_BYTES: Final = 8 * 1024


class NamedTools(Protocol):
    """`Toolset`, as names are looked up in it."""

    plans: dict[str, Plan]

    @property
    def is_settled(self) -> bool: ...
    def find(self, name: str) -> Plan | Fault | Literal[Lookup.HOLD]: ...


# A tool's entry in a list, and what that could not say.
_Entry = tuple[Raw, tuple[str, ...]]
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
        spelling = self._spelling(form)
        spelling.add(plans)
        entries: list[_Entry] = []
        for _pause in _fitted([(plan, spelling.shown(name)) for name, plan in listed.items()], form, entries):
            pass
        warnings = [f"tool {name}: {note}" for name, (_, notes) in zip(listed, entries, strict=True) for note in notes]
        return [entry for entry, _ in entries], warnings

    def render(self, form: str, plans: Mapping[str, Plan], listed: Mapping[str, Plan]) -> Iterator[None]:
        """Make the entries that a list in a form still needs, with a pause after each `RENDERED_BYTES` of them.

        `listed` is not to change meanwhile.
        """
        spelling = self._spelling(form)
        spelling.add(plans)
        return _fitted([(plan, spelling.shown(name)) for name, plan in listed.items()], form, [])

    def shown(self, names: Iterable[str], form: str, plans: Mapping[str, Plan]) -> list[str]:
        """The names of some of the tools as a form spells them."""
        spelling = self._spelling(form)
        spelling.add(plans)
        return [spelling.shown(name) for name in names]

    def table(self, plans: Mapping[str, Plan]) -> dict[str, Plan]:
        """The plans by their own names and by those that were shown.

        What a model was shown wins over a tool of that very name, which it was shown under another.
        """
        plans = {name: self._as_shown(plan) for name, plan in plans.items()}
        table = dict(plans)
        for spelling in reversed(self._spellings.values()):
            spelling.add(plans)
            table.update((spelling.shown(name), plan) for name, plan in plans.items())
        return table

    def _as_shown(self, plan: Plan) -> Plan:
        """Give the plan that takes properties by all names that this session's lists have shown."""
        return plan if MENDING.isdisjoint(self._spellings) else _naming_back(plan)

    def find(self, name: str, form: str, tools: NamedTools) -> Plan | Fault | Literal[Lookup.HOLD]:
        """Look a name up that was shown, or would be, or is the tool's own."""
        spelling = self._spelling(form)
        if tools.is_settled:
            spelling.add(tools.plans)
        found = tools.find(spelling.canonical(name) or name)
        if isinstance(found, Fault):
            return renamed(found, name, spelling.shown)
        return self._as_shown(found) if isinstance(found, Plan) else found

    def _spelling(self, form: str) -> Spelling:
        spelling = self._spellings.get(form)
        if spelling is None:
            # A form has been looked at when it was asked for, and each is a provider's name.
            spelling = self._spellings[form] = Spelling(cast("Provider", form), self._separator)
        return spelling


def _naming_back(plan: Plan) -> Plan:
    """Make the plan, one for all sessions, that takes properties by their mended names too."""
    if plan.as_shown is None:
        named = own_names(plan.offered.input_schema)
        plan.as_shown = (copy(plan),) if named else ()
        for made in plan.as_shown:
            made.read, made.now = plan.read.naming(named), None
    return plan.as_shown[0] if plan.as_shown else plan


def prompt_in(form: str | None, tools: list[Raw]) -> str | None:
    """What goes with a list in the form for models without tool calling."""
    return prompt_of(tools) if form == TEXT else None


def plain_entries(plans: Iterable[Plan]) -> list[Raw]:
    """Each tool as JSON in the plain form, which says everything and spells nothing."""
    return [_rendered(plan, PLAIN, plan.name)[0] for plan in plans]


def render_plain(plans: Iterable[Plan]) -> Iterator[None]:
    """As `Showing.render`, of a list in the plain form."""
    pace = _Pace()
    for plan in plans:
        is_there = (PLAIN, plan.name) in plan.rendered
        size = len(_rendered(plan, PLAIN, plan.name)[0])
        if not is_there and pace.is_over(size):
            yield


class _Pace:
    """Counts what one turn makes."""

    def __init__(self) -> None:
        self._left = RENDERED_BYTES

    def is_over(self, size: int) -> bool:
        """Count `size` more; whether the turn is over with that."""
        self._left -= size
        if self._left > 0:
            return False
        self._left = RENDERED_BYTES
        return True


def _fitted(named: list[tuple[Plan, str]], form: str, entries: list[_Entry]) -> Iterator[None]:
    """Add the entries of a list that has `MAX_LISTED_BYTES` at most, with pauses: the largest are cut first."""
    pace = _Pace()
    yield from _write(named, form, pace)
    # What was too much to be written is larger than all that was.
    cuts = [int((form, name) not in plan.rendered) for plan, name in named]
    for (plan, name), cut in zip(named, cuts, strict=True):
        entries.append(_rendered(plan, form, name, cut))
        if cut and pace.is_over(len(entries[-1][0])):
            yield
    over = sum(len(entry) for entry, _ in entries) - MAX_LISTED_BYTES
    # So much of its description stays, whatever it is cut to. Of equal ones the last is cut first.
    sizes = [
        (min(len(plan.offered.description), BRIEF_CHARS) - len(entries[at][0]), -at)
        for at, (plan, _) in enumerate(named)
    ]
    heapify(sizes if over > 0 else [])
    while over > 0 and sizes:
        at = -heappop(sizes)[1]
        plan, name = named[at]
        cuts[at] += 1
        before, entries[at] = len(entries[at][0]), _rendered(plan, form, name, cuts[at])
        size = len(entries[at][0])
        over += size - before
        if cuts[at] + 1 < len(CUTS):
            heappush(sizes, (min(len(plan.offered.description), BRIEF_CHARS) - size, -at))
        if pace.is_over(size):
            yield


def _write(named: list[tuple[Plan, str]], form: str, pace: _Pace) -> Iterator[None]:
    """Write the entries that are not there yet, up to `MAX_WRITTEN_BYTES` with those that are."""
    new: list[tuple[int, int]] = []
    there = (plan.rendered.get((form, name)) for plan, name in named)
    left = MAX_WRITTEN_BYTES - sum(len(entry[0]) for entry in there if entry is not None)
    for place, (plan, name) in enumerate(named if left > 0 else ()):
        if (form, name) not in plan.rendered:
            new.append((len(_encode(plan.offered.input_schema)), place))
            if pace.is_over(new[-1][0] // _WEIGHING):
                yield
    for _, place in sorted(new):
        if left <= 0:
            return
        plan, name = named[place]
        size = len(_rendered(plan, form, name)[0])
        left -= size
        if pace.is_over(size):
            yield


def _rendered(plan: Plan, form: str, name: str, cut: int = 0) -> _Entry:
    """Render an entry by a function of `CUTS`, once for all sessions that share the plan."""
    key = (f"{form}, cut {cut}" if cut else form, name)
    found = plan.rendered.get(key)
    if found is None:
        made = CUTS[cut](form, plan.offered, name)
        found = plan.rendered[key] = Raw(_encode(made.entry)), made.notes
    return found
