"""Where a configuration stands that no command names; cheap to import, for a command that only passes its name on."""

from collections.abc import Mapping
from typing import Final

SYSTEM_CONFIGURATION: Final = "/etc/tooldispatchd/config.toml"


def standing_configurations(environ: Mapping[str, str]) -> list[str]:
    """The user's file and the system's, whether they are there or not."""
    told, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME")
    # The specification of base directories has a relative one ignored. A service may have no home at all.
    base = told if told.startswith("/") else f"{home}/.config" if home else None
    return [f"{base}/tooldispatchd/config.toml"] * (base is not None) + [SYSTEM_CONFIGURATION]
