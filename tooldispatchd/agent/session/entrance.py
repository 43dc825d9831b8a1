"""Authentication: what a listener admits, the process at the other end of a channel, and the profiles it may open.

Pure decisions on values that others have read. Every refusal of an identity is one and the same fault: it does not tell
a wrong token from a wrong user, nor a profile that is closed from one that does not exist.
"""

import hmac
import secrets
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.agent.faults import SHOWN_NAME
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.globs import is_glob
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.profiles import DEFAULT_PROFILE, Narrowing, NotOffered, Profile, digest_of, narrow
from tooldispatchd.wire.faults import Code, Fault

# A thousand names.
MAX_SPEC_BYTES: Final = 64 * 1024
NOT_AUTHENTICATED: Final = Fault(Code.NOT_AUTHENTICATED, "no session is opened: not authenticated")

# As many tools as one server may have; a profile that needs a longer list is better written as a profile.
MAX_NAMES: Final = 1000
# Each is matched against every tool of the profile, in the loop: some ten milliseconds where there are thousands.
MAX_GLOBS: Final = 32
# In all of them: each costs some hundred times as much as another character.
MAX_WILDCARDS: Final = 64
MAX_GLOB_CHARS: Final = 1024

_decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_bool: Final = msgspec.json.Decoder(bool).decode
# The four ways in which bytes of JSON can fail; `ValidationError` is a `DecodeError`.
_NOT_READABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Visitor(msgspec.Struct, frozen=True):
    """The process at the other end of a channel, as the kernel names it; for pipes it is who started the daemon."""

    uid: int
    gid: int
    pid: int | None = None
    groups: tuple[int, ...] = ()
    """Supplementary groups."""
    accepted_at: float | None = None
    """When the daemon accepted it at a listening Unix socket, in seconds since the machine started; None where it came
    in another way."""
    command: str | None = None
    """The name of its program when it connected."""

    @property
    def program(self) -> tuple[int, int | None]:
        """The process of that user: wrong tokens of one slow no other."""
        return self.uid, self.pid

    def is_among(self, uids: frozenset[int] | None, gids: frozenset[int] | None) -> bool:
        """Whether it is one of these users or a member of one of these groups; where both are None, yes."""
        if uids is None and gids is None:
            return True
        if uids is not None and self.uid in uids:
            return True
        return gids is not None and not gids.isdisjoint((self.gid, *self.groups))


class Entrance(msgspec.Struct, frozen=True):
    """The users, groups and profiles that one listener admits."""

    profile: str = DEFAULT_PROFILE
    """The profile of an agent that says no `hello`, or names none in it."""
    profiles: frozenset[str] | None = None
    """Profiles that may be opened here; None for all."""
    uids: frozenset[int] | None = None
    """Users who may connect; where this and `gids` are None, everyone whom the socket's mode lets in."""
    gids: frozenset[int] | None = None
    """Groups whose members may connect."""

    def admits(self, visitor: Visitor) -> bool:
        """Whether this process may connect at all."""
        return visitor.is_among(self.uids, self.gids)

    def leads_to(self, profile: str) -> bool:
        """Whether this profile may be opened here."""
        return self.profiles is None or profile in self.profiles


class Authenticator:
    """Decides which profile a session opens; one for the daemon, made of its catalog.

    `own_uid`, the daemon's user, is told that a profile does not exist where others are not.
    """

    __slots__ = ("_dummy", "_is_protected", "_locked", "_own_uid", "_profiles", "_tokens")

    def __init__(self, catalog: Catalog, *, own_uid: int | None = None) -> None:
        self._own_uid = own_uid
        self._profiles = catalog.profiles
        self._locked = catalog.locked
        self._tokens: Mapping[str, bytes] = catalog.tokens
        self._is_protected = catalog.is_protected
        # Compared where there is no token, so that the time taken does not tell which profiles have one.
        self._dummy = secrets.token_bytes(32)

    def admit(
        self, name: str | None, *, token: str | None, said_hello: bool, entrance: Entrance, visitor: Visitor
    ) -> Profile | Fault:
        """The profile `name`, or the entrance's where it is None; else `not_authenticated` or `unknown_profile`.

        A token for a profile that has none is ignored.
        """
        wanted = entrance.profile if name is None else name
        # Compared before anything is decided: every refusal has taken the same steps.
        is_equal = hmac.compare_digest(self._tokens.get(wanted, self._dummy), digest_of(token or ""))
        if not entrance.admits(visitor):
            # It came in before a reload said otherwise.
            return NOT_AUTHENTICATED
        profile = self._profiles.get(wanted)
        # There is nothing to hide, or not from who may read the configuration; one that shows a token may be guessing.
        is_open = not self._is_protected or (visitor.uid == self._own_uid and token is None)
        if profile is None and is_open and entrance.profiles is None:
            close = nearest(wanted, self._profiles.keys() - self._locked)
            said = f"no such profile: {wanted[:SHOWN_NAME]}"
            if close is None:
                return Fault(Code.UNKNOWN_PROFILE, said)
            return Fault(Code.UNKNOWN_PROFILE, f"{said}; did you mean {close}?", {"did_you_mean": close})
        if profile is None or wanted in self._locked or not entrance.leads_to(wanted):
            return NOT_AUTHENTICATED
        # A profile without a token takes any.
        is_token_right = wanted not in self._tokens or (is_equal and token is not None)
        is_protected = wanted in self._tokens or profile.is_bound
        if is_protected and not (said_hello and is_token_right and visitor.is_among(profile.uids, profile.gids)):
            return NOT_AUTHENTICATED
        return profile


def narrow_profile(profile: Profile, spec: Raw, catalog: Catalog) -> Profile | Fault:
    """The part of `profile` that the `spec` of a `hello` names: `not_allowed` for what is no part of it.

    `spec` is an object with `tools`, `mcp`, `allow` and `jobs`, each optional; anything else is an `invalid_request`.
    """
    wish = _read_narrowing(spec)
    if isinstance(wish, Fault):
        return wish
    narrowed = narrow(profile, wish, catalog.servers, catalog.aliases, catalog.traits)
    if isinstance(narrowed, NotOffered):
        extras: dict[str, object] = {"source": narrowed.name[:SHOWN_NAME]}
        return Fault(Code.NOT_ALLOWED, "spec names what the profile does not offer", extras)
    return narrowed


def _read_narrowing(spec: Raw) -> Narrowing | Fault:
    if len(spec) > MAX_SPEC_BYTES:
        return _invalid(f"spec has more than {MAX_SPEC_BYTES} bytes")
    try:
        fields = _decode_object(spec)
    except _NOT_READABLE:
        return _invalid("spec must be an object")
    unknown = next((key for key in fields if key not in Narrowing.__struct_fields__), None)
    if unknown is not None:
        return _invalid("spec has a key that is not known", source=unknown)
    lists: dict[str, tuple[str, ...]] = {}
    for key in ("tools", "mcp", "allow"):
        try:
            if key in fields:
                lists[key] = _decode_names(fields[key])
        except _NOT_READABLE:
            return _invalid("spec must have a list of names here", source=key)
    if sum(map(len, lists.values())) > MAX_NAMES:
        return _invalid(f"spec names more than {MAX_NAMES} tools and servers")
    globs = [name for names in lists.values() for name in names if is_glob(name)]
    if len(globs) > MAX_GLOBS:
        return _invalid(f"spec has more than {MAX_GLOBS} patterns")
    written = "".join(globs)
    if len(written) > MAX_GLOB_CHARS or written.count("*") + written.count("?") > MAX_WILDCARDS:
        return _invalid(f"spec has patterns of more than {MAX_GLOB_CHARS} characters or {MAX_WILDCARDS} wildcards")
    try:
        jobs = _decode_bool(fields["jobs"]) if "jobs" in fields else None
    except _NOT_READABLE:
        return _invalid("spec must have true or false here", source="jobs")
    return Narrowing(lists.get("tools"), lists.get("mcp"), jobs, lists.get("allow"))


def _invalid(detail: str, *, source: str | None = None) -> Fault:
    extras: dict[str, object] = {} if source is None else {"source": source[:SHOWN_NAME]}
    return Fault(Code.INVALID_REQUEST, detail, extras)
