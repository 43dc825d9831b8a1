"""A session that goes on under another generation: it is planned anew, and calls that run go on as they began.

    move ─┬─▶ the tools and servers of the new generation     from the next call on
          └─▶ those of the one before (`Former`)              until the calls of then have ended

An open connection to a server that both say alike goes along, and with it what the server keeps for the agent.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Raw

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.entrance import narrow_profile
from tooldispatchd.agent.tools.toolset import Toolset
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.wire.faults import Fault


class Former(NamedTuple):
    """What a session still has of one generation: for `calls`, which began under it."""

    runtime: Runtime
    toolset: Toolset
    calls: set[AgentCall]


class Formers:
    """What a session still has of generations that it was of."""

    __slots__ = ("_formers",)

    def __init__(self) -> None:
        self._formers: list[Former] = []

    def leave(self, runtime: Runtime, toolset: Toolset, calls: Iterable[AgentCall]) -> None:
        """The session has left a generation while these calls run: it began all that no earlier one did."""
        began = set(calls).difference(*(former.calls for former in self._formers))
        self._formers.append(Former(runtime, toolset, began))
        self._check()

    def note_end(self, call: AgentCall) -> None:
        """A call of the session has ended."""
        for former in self._formers:
            former.calls.discard(call)
        self._check()

    def close(self) -> None:
        """Release their servers. Idempotent."""
        for former in self._formers:
            former.toolset.close()

    def forget(self) -> None:
        """Let go of all; the session is over."""
        for former in self._formers:
            former.calls.clear()
        self._check()

    def _check(self) -> None:
        for former in [each for each in self._formers if not each.calls]:
            self._formers.remove(former)
            former.toolset.close()
            former.toolset.forget()
            former.runtime.leave()


def profile_in(runtime: Runtime, before: Runtime, name: str, spec: Raw | None) -> Profile | None:
    """The profile of a session in another generation, narrowed by the `spec` of its `hello`.

    None where it is gone, or is another's: with another token, or other users, it would have to be opened anew, and
    with another workspace all that the session knows of its files would be wrong.
    """
    catalog = runtime.setup.catalog
    profile = catalog.profiles.get(name)
    if profile is not None and _owners(catalog, profile) != _owners(before.setup.catalog, profile):
        return None
    if profile is None or spec is None:
        return profile
    narrowed = narrow_profile(profile, spec, catalog)
    return None if isinstance(narrowed, Fault) else narrowed


def _owners(catalog: Catalog, profile: Profile) -> tuple[object, ...]:
    """Who may open a profile, and where its sessions work."""
    spec, known = catalog.config.profile_spec(profile.name), catalog.profiles.get(profile.name, profile)
    places = None if spec is None else (spec.workspace, spec.workspaces)
    return catalog.tokens.get(profile.name), known.uids, known.gids, profile.name in catalog.locked, places
