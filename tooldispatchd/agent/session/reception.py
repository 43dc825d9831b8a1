"""Where sessions are let in: who asks, for which profile, how much of it, and whether there is room."""

from msgspec import UnsetType

from tooldispatchd.agent.faults import DRAINING, too_many
from tooldispatchd.agent.runtime import Runtime, SessionChannel
from tooldispatchd.agent.session.entrance import Entrance, Visitor, narrow_profile
from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.agent.session.session import Session
from tooldispatchd.agent.tools.showing import refuse_form
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import Hello
from tooldispatchd.wire.session import SessionMachine


def admit(hello: Hello, runtime: Runtime, entrance: Entrance, visitor: Visitor) -> Profile | Fault:
    """What the session that `hello` asks for may call, or why there is none; authentication comes before all else."""
    profile = runtime.authenticator.admit(
        hello.profile, token=hello.token, said_hello=True, entrance=entrance, visitor=visitor
    )
    if isinstance(profile, Fault):
        return profile
    refusal = refuse_form(hello.schemas) or _turned_away(runtime, visitor)
    if refusal is not None:
        return refusal
    if isinstance(hello.spec, UnsetType):
        return profile
    return narrow_profile(profile, hello.spec, runtime.catalog)


def admit_silent(runtime: Runtime, entrance: Entrance, visitor: Visitor) -> Profile | Fault:
    """As `admit`, for an agent whose first line is another one: its listener says which profile."""
    profile = runtime.authenticator.admit(None, token=None, said_hello=False, entrance=entrance, visitor=visitor)
    return profile if isinstance(profile, Fault) else _turned_away(runtime, visitor) or profile


def _turned_away(runtime: Runtime, visitor: Visitor) -> Fault | None:
    return DRAINING if runtime.is_draining else no_room(runtime, visitor)


def no_room(runtime: Runtime, visitor: Visitor) -> Fault | None:
    """Why there cannot be one more session, or None where there can."""
    limits = runtime.limits
    if runtime.open_sessions.total >= limits.sessions:
        return too_many("sessions", limits.sessions)
    if runtime.open_sessions.is_full_for(visitor.uid, limits.sessions_per_uid):
        return too_many("sessions_per_uid", limits.sessions_per_uid)
    return None


def make_session(
    runtime: Runtime,
    host: SessionChannel,
    machine: SessionMachine,
    profile: Profile,
    visitor: Visitor,
    *,
    lineage: Lineage | None,
) -> Session:
    """A session for who was let in; it counts until `leave`. It gives its number to its `lineage`, if it has one."""
    runtime.sessions += 1
    if lineage is not None:
        lineage.number = runtime.sessions
    session = Session(runtime, host, machine, lineage, profile=profile)
    # Last: a session that could not be made would never leave.
    runtime.open_sessions.enter(visitor.uid)
    return session


def leave(runtime: Runtime, visitor: Visitor) -> None:
    """One session of the visitor is closed."""
    runtime.open_sessions.leave(visitor.uid)
