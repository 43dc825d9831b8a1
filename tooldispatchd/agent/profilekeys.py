"""Profiles as calls come under them: the catalog's own, and those of agents below, in the bounds of who called them.

What a profile bounds it bounds for all programs that its agents set going, those too that an agent sets going which
one of them has called: that one's own profile is narrowed by the caller's before its session opens.
"""

from collections.abc import Mapping

import msgspec

from tooldispatchd.catalog.confinement import Confinement
from tooldispatchd.catalog.profiles import Profile


class ProfileKeys:
    """Profiles by keys: of the catalog's the name, of a narrowed one what no name looks like.

    There are no more than profiles times the bounds that they have, which is bounded by the configuration.
    """

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles = profiles
        self._narrowed: dict[str, Profile] = {}
        self._keys: dict[tuple[str, Confinement], str] = {}

    def profile(self, key: str) -> Profile:
        """The profile of a key."""
        narrowed = self._narrowed.get(key)
        return self._profiles[key] if narrowed is None else narrowed

    def key_of(self, profile: Profile) -> str:
        """That of a whole profile with these bounds, of which `profile` may be a part."""
        known = self._profiles[profile.name]
        if profile.confinement == known.confinement:
            return profile.name
        place = profile.name, profile.confinement
        key = self._keys.get(place)
        if key is None:
            key = self._keys[place] = f"{profile.name}<{len(self._keys)}"
            self._narrowed[key] = msgspec.structs.replace(known, confinement=profile.confinement)
        return key

    def key_below(self, name: str, caller: Profile) -> str:
        """That of the profile `name` for an agent that one of `caller` calls."""
        own = self._profiles[name]
        return self.key_of(msgspec.structs.replace(own, confinement=own.confinement.tightened(caller.confinement)))
