"""The sessions of one channel: its own, which opens with its first line, and the named ones; and who may open one.

own    none ──first line──▶ open ──▶ closed          once; a refused `hello` leaves the channel without one
named  none ──hello──▶ open ──bye──▶ none            as often as the agent likes

The channel of an agent that another agent called has its own session from the start, and never another one.
"""

from collections.abc import Callable, Iterator
from typing import Final

import trio
from msgspec import UnsetType

from tooldispatchd.agent.calls.sessionchannel import SessionChannel
from tooldispatchd.agent.faults import DRAINING, too_many
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import is_owner
from tooldispatchd.agent.session.entrance import NOT_AUTHENTICATED, Entrance, Visitor, narrow_profile
from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.agent.session.session import Session
from tooldispatchd.agent.session.workspace import NOT_WITHIN, WorkspaceSearch, key_of, refuse_path
from tooldispatchd.agent.tools.declaredplans import plan_some
from tooldispatchd.agent.tools.showing import refuse_form
from tooldispatchd.calls.refusals import is_logged
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import PROTOCOL, Hello, Outgoing
from tooldispatchd.wire.session import SessionMachine, State, fault_line

# A person who mistypes a token has tried again by then; a program that guesses has got nowhere.
MAX_FAILURES: Final = 3

# On a channel that was made for one agent.
ONE_AGENT: Final = Fault(Code.NOT_ALLOWED, "this channel is its own agent's alone and has no named ones")
NO_SPEC: Final = Fault(Code.INVALID_REQUEST, "this session is open already: spec cannot narrow it any more")

UNSUPPORTED: Final = Fault(
    Code.UNSUPPORTED_VERSION, f"this daemon speaks version {PROTOCOL} of the protocol alone", {"supported": [PROTOCOL]}
)
# For a `hello` that comes too late: its session is ending or over, or no other can open.
ENDING: Final = Fault(Code.DRAINING, "no session is opened: the last one is ending or over, or the channel is")
# After these an agent may try again: they refuse a `hello`, and not its session.
MISTAKES: Final = frozenset({Code.INVALID_REQUEST, Code.UNSUPPORTED_VERSION})

UNKNOWN_AGENT: Final = Fault(Code.UNKNOWN_AGENT, "no session is open for this agent")


class Roster:
    """See the module. `latest` is as of a `ChannelHost`, and `outgoing` the channel's list of lines to send."""

    __slots__ = (
        "_administering",
        "_channel",
        "_failures",
        "_is_owner",
        "_latest",
        "_lineage",
        "_outgoing",
        "_refusal",
        "_visitor",
        "entrance",
        "is_closing",
        "named",
        "own",
        "search",
        "sees_drain",
    )

    def __init__(
        self,
        latest: Callable[[], Runtime],
        channel: SessionChannel,
        outgoing: list[Outgoing],
        entrance: Entrance,
        visitor: Visitor,
        *,
        lineage: Lineage | None = None,
    ) -> None:
        self.own: Session | None = None
        self.named: dict[str, Session] = {}
        # Those of a profile that administers the daemon.
        self._administering: tuple[Session, ...] = ()
        self._is_owner: bool | None = None  # until somebody wants to know
        # Nobody may join any more: the input has ended, the daemon drains, or the channel was refused.
        self.is_closing = False
        # The daemon drains, and somebody here has shown to be of a profile that administers it: no session says so now.
        self.sees_drain = False
        # For the workspace of the session that opens when it is over.
        self.search: WorkspaceSearch | None = None
        self._latest = latest
        self._channel: SessionChannel | None = channel
        self._outgoing = outgoing
        self.entrance = entrance
        self._visitor = visitor
        self._lineage = lineage
        self._failures = 0
        # The fault for the channel's own session where it cannot be opened any more.
        self._refusal: Fault | None = None

    def __iter__(self) -> Iterator[Session]:
        """The open sessions; they may leave meanwhile."""
        return iter([*self.named.values()] if self.own is None else [self.own, *self.named.values()])

    @property
    def is_empty(self) -> bool:
        """Whether every session that was opened is closed."""
        return not self.named and (self.own is None or self.own.machine.state is State.CLOSED)

    @property
    def administrators(self) -> tuple[str, ...]:
        """The profiles of the sessions that make it an administrator's channel."""
        return tuple(session.profile for session in self._administering)

    @property
    def may_administer(self) -> bool:
        """Whether who speaks here may see what the daemon does, and change it."""
        setup = self._latest().setup
        if self._lineage is not None:
            return False
        if setup.catalog.has_administrators:
            # By the latest configuration, also where a session goes on under an older one.
            profiles = setup.catalog.profiles
            return self.sees_drain or any(name in profiles and profiles[name].admin for name in self.administrators)
        if self._is_owner is None:
            self._is_owner = is_owner(self._visitor, own_uid=setup.uid)
        return self._is_owner

    def of(self, agent: str | None) -> Session | None:
        """The session that lines with this `agent` belong to."""
        return self.own if agent is None else self.named.get(agent)

    def greet(self, hello: Hello, *, line: int) -> bool:
        """Open the session that `hello` asks for, or say why not; false where there is more to do before."""
        session = self.of(hello.agent)
        if session is not None and session.machine.state in {State.DRAINING, State.CLOSED}:
            self._say(ENDING, hello, line=line)
        elif self._lineage is not None:
            self._greet_called(session, hello, line=line)
        elif session is not None:
            session.machine.greet(hello, line=line)
        else:
            found: Session | Profile | Fault | None
            if self._failures >= MAX_FAILURES:
                found = NOT_AUTHENTICATED
            elif self.is_closing or (hello.agent is None and self._refusal is not None):
                found = ENDING
            else:
                found = self._admit(hello) if speaks(hello) else UNSUPPORTED
            if found is None:
                return False
            if isinstance(found, Profile):
                found = self._open(found, hello, line=line)
            if found is None:
                return False
            if isinstance(found, Fault):
                self._say(found, hello, line=line)
                self._mind_refusal(found, hello)
        return True

    def _greet_called(self, session: Session | None, hello: Hello, *, line: int) -> None:
        """Let the agent of an open session ask for what a `hello` asks for; one for anything else opens nothing."""
        if session is None:
            refusal: Fault | None = ONE_AGENT
        elif not speaks(hello):
            refusal = UNSUPPORTED
        elif hello.profile not in {None, session.profile}:
            refusal = NOT_AUTHENTICATED
        elif hello.workspace not in {None, session.workspace and session.workspace.path}:
            refusal = NOT_WITHIN
        else:
            refusal = refuse_form(hello.schemas) if isinstance(hello.spec, UnsetType) else NO_SPEC
        if refusal is not None:
            self._say(refusal, hello, line=line)
        elif session is not None:
            session.greet(hello, line=line)

    def open_called(self, profile: Profile) -> Session | Fault | None:
        """The one session of an agent that another agent called, before it has said anything; or why there is none.

        None says to ask once more when `search` is over.
        A daemon that drains opens it all the same: it is a part of a call that was let in before.
        """
        return self._no_room() or self._open(profile, None, line=0)

    def open_silently(self, agent: str | None, *, line: int) -> Session | Fault | None:
        """The channel's own session, for an agent whose first line is no `hello`; else as `greet`."""
        if agent is not None:
            return UNKNOWN_AGENT
        if self._failures >= MAX_FAILURES:
            return NOT_AUTHENTICATED
        if self._refusal is not None or self.is_closing:
            return self._refusal or DRAINING
        profile = self._admit(None)
        if isinstance(profile, Fault) and profile.code is Code.NOT_AUTHENTICATED:
            # As a hello without a token.
            self._mind_refusal(profile, None)
        return self._open(profile, None, line=line) if isinstance(profile, Profile) else profile

    def forget(self) -> None:
        """The channel is closed: let go of what holds this, so that all of it is freed at once."""
        self.own = self._channel = None
        self.named.clear()
        self._administering = ()

    def refuse_own(self) -> None:
        """The channel's own session was never opened, and its agent has said that it never will be."""
        self._refusal = self._refusal or DRAINING
        self.is_closing = self.is_closing or not self.named

    def closed(self, agent: str | None) -> Session:
        """Take a session off the roster once it is torn down."""
        session = self.own if agent is None else self.named.pop(agent)
        assert session is not None
        self._latest().state.open_sessions.leave(self._visitor.uid)
        self._administering = tuple(one for one in self._administering if one is not session)
        is_own_over = self._refusal is not None or (self.own is not None and self.own.machine.state is State.CLOSED)
        if is_own_over and not self.named:
            # The channel's own session has answered everything, and there is no other.
            self.is_closing = True
        return session

    def _admit(self, hello: Hello | None) -> Profile | Fault | None:
        """The profile of the session that an agent asks for, or why there is none. Authentication comes first.

        An agent whose first line is no `hello` gets the profile that its listener says. None says to ask once more in
        another turn: some of the profile's tools were planned, and not all are.
        """
        runtime, visitor = self._latest(), self._visitor
        setup = runtime.setup
        name, token = (None, None) if hello is None else (hello.profile, hello.token)
        profile = setup.authenticator.admit(
            name, token=token, said_hello=hello is not None, entrance=self.entrance, visitor=visitor
        )
        if isinstance(profile, Fault):
            return profile
        refusal = None if hello is None else refuse_form(hello.schemas)
        is_whole = hello is None or isinstance(hello.spec, UnsetType)
        if refusal is None and runtime.state.is_draining:
            self.sees_drain = self.sees_drain or (is_whole and profile.admin)
            refusal = DRAINING
        if refusal is None:
            refusal = self._no_room()
        if refusal is not None:
            return refusal
        if not plan_some(runtime, profile.name):
            return None
        if hello is None or isinstance(hello.spec, UnsetType):
            return profile
        return narrow_profile(profile, hello.spec, setup.catalog)

    def _no_room(self) -> Fault | None:
        """Why there cannot be one more session, or None where there can."""
        runtime = self._latest()
        limits, sessions = runtime.setup.limits, runtime.state.open_sessions
        if sessions.total >= limits.sessions:
            return too_many("sessions", limits.sessions)
        if sessions.is_full_for(self._visitor.uid, limits.sessions_per_uid):
            return too_many("sessions_per_uid", limits.sessions_per_uid)
        return None

    def _mind_refusal(self, refusal: Fault, hello: Hello | None) -> None:
        """A channel's own session that is refused ends its channel; for a wrong token it may try again."""
        if refusal.code is Code.NOT_AUTHENTICATED:
            self._failures += 1
            runtime, visitor = self._latest(), self._visitor
            count = runtime.state.refusals.note(visitor.uid, trio.current_time())
            runtime.state.guesses.note(visitor.program, trio.current_time())
            if is_logged(count):
                # An agent that confuses the fields may have put its token here.
                named = None if hello is None else hello.profile
                is_profile = named is None or named in runtime.setup.catalog.profiles
                profile = named if is_profile else "(no such profile)"
                runtime.setup.log.warning(
                    "hello refused", uid=visitor.uid, pid=visitor.pid, profile=profile, lately=count
                )
            if self._failures == MAX_FAILURES:
                # Sessions that are open go on: they have shown who they are. Nobody else comes in here.
                self._refusal = self._refusal or refusal
                self.is_closing = self.is_closing or self.is_empty
        elif hello is not None and hello.agent is None and refusal.code not in MISTAKES and not self.named:
            # Requests that follow at once get the same answer.
            self._refusal = self._refusal or refusal
            self.is_closing = True

    def _workspace(self, profile: Profile, hello: Hello | None) -> Workspace | Fault | WorkspaceSearch | None:
        """The directory of a session that opens, or the search for it, which is to be made first."""
        agent, asked = (None, None) if hello is None else (hello.agent, hello.workspace)
        if self._lineage is not None and not profile.has_workspace:
            return self._lineage.workspace
        refusal = None if asked is None else refuse_path(profile, asked)
        if refusal is not None or (asked is None and profile.workspace is None):
            return refusal
        search = self.search
        if search is None or search.key != key_of(profile, asked, agent):
            search = WorkspaceSearch(profile, asked, agent=agent, visitor=self._visitor)
        self.search = None if search.is_over else search
        return search.found if search.is_over else search

    def _open(self, profile: Profile, hello: Hello | None, *, line: int) -> Session | Fault | None:
        agent = None if hello is None else hello.agent
        workspace = self._workspace(profile, hello)
        if isinstance(workspace, WorkspaceSearch):
            return None
        if isinstance(workspace, Fault):
            return workspace
        machine = SessionMachine(self._outgoing, agent=agent)
        # It would keep the whole line that it stands in.
        spec = None if hello is None or isinstance(hello.spec, UnsetType) else hello.spec.copy()
        if hello is not None:
            machine.greet(hello, line=line)
        elif self._lineage is None:
            machine.begin(line)
        assert self._channel is not None
        runtime, lineage = self._latest(), self._lineage
        state = runtime.state
        state.sessions += 1
        if lineage is not None:
            lineage.number = state.sessions
        session = Session(runtime, self._channel, machine, lineage, profile=profile, workspace=workspace, spec=spec)
        # Last: a session that could not be made would never leave.
        state.open_sessions.enter(self._visitor.uid)
        if agent is None:
            self.own = session
        else:
            self.named[agent] = session
        if profile.admin:
            # Before it opens: `ready` says so.
            self._administering = (*self._administering, session)
        session.open(self._visitor)
        return session

    def _say(self, fault: Fault, hello: Hello, *, line: int) -> None:
        self._outgoing.append(fault_line(fault, line=line, line_id=hello.id, agent=hello.agent))


def speaks(hello: Hello) -> bool:
    """Whether an agent speaks this version of the protocol; one that does not say speaks the first."""
    return hello.protocol is None or PROTOCOL in hello.protocol
