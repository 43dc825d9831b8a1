"""How this installation of the package came here, and so how one of its extras is added to it."""

import json
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

PACKAGE: Final = "tooldispatchd"


def needs(extra: str) -> str:
    """Say that something needs an extra, and how it is installed; follows the name of the feature."""
    return f"needs {PACKAGE}[{extra}]: {install_words(extra)}"


def needs_postgres() -> str:
    """The same of a store of records in a database."""
    return f"a PostgreSQL store {needs('postgres')}"


def install_words(extra: str | None) -> str:
    """The command that adds an extra, or for None installs the package, from where it was installed."""
    # Slow to import, and wanted where something is wrong alone.
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        written = distribution(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        written = None
    return _command(written, "" if extra is None else f"[{extra}]")


def _command(direct_url: str | None, extra: str) -> str:
    """The command for what an installer wrote down (packaging.python.org, "Recording the Direct URL Origin")."""
    origin = json.loads(direct_url or "{}")
    url = urlsplit(origin.get("url", ""))
    if "dir_info" in origin and url.scheme == "file":
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f'pip install {editable}"{unquote(url.path)}{extra}"'
    if not url.scheme:
        return f'pip install "{PACKAGE}{extra}"' if extra else f"pip install {PACKAGE}"
    # An installer leaves passwords out; one that did not is no reason to show them.
    address = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        address = f"{vcs['vcs']}+{address}@{vcs.get('requested_revision') or vcs['commit_id']}"
    below = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
    return f'pip install "{PACKAGE}{extra} @ {address}{below}"'
