"""Where a daemon keeps what outlives it: tokens, and documents that were fetched."""

from collections.abc import Mapping


def find_state_directory(environ: Mapping[str, str]) -> str | None:
    """Systemd's `$STATE_DIRECTORY`, else below the user's own directory for state; None where nothing names one."""
    # systemd.exec: several are separated by colons.
    service = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if service.startswith("/"):
        return service
    # The specification of base directories has a relative one ignored.
    own, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if own.startswith("/"):
        return f"{own}/tooldispatchd"
    return f"{home}/.local/state/tooldispatchd" if home.startswith("/") else None
