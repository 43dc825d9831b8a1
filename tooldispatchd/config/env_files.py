"""Files with variables, as clients name them in `envFile` of a server: NAME=VALUE, a line for each.

# a comment
export TOKEN="one\\ntwo"     between double quotes \\n, \\r, \\t, \\" and \\\\ are escapes
PLAIN = some text            # without quotes a value ends before " #"
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.config.files import UnusableFileError, read_text

# Far over what the kernel would pass to a program.
MAX_ENV_FILE_BYTES: Final = 1 * MIB
_LINE: Final = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(?P<value>\S.*)?")
_RAW: Final = re.compile(r"'([^']*)'\s*(?:#.*)?")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_COMMENT: Final = re.compile(r"(?:^|\s)#")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


class EnvVariable(msgspec.Struct, frozen=True):
    value: str
    line: int
    """From 1."""


def read_env_file(path: Path) -> dict[str, EnvVariable]:
    """The variables of a file; of two with one name the later one. Raises `UnusableFileError`."""
    found: dict[str, EnvVariable] = {}
    for number, line in enumerate(read_text(path, MAX_ENV_FILE_BYTES).removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        value = None if match is None else _value(match["value"] or "")
        if match is None or value is None:
            # The line itself may be a part of a secret.
            raise UnusableFileError("use", f"line {number} is not NAME=VALUE")
        found[match["name"]] = EnvVariable(value, number)
    return found


def _value(text: str) -> str | None:
    """What a text means; None where quotes do not end."""
    if text.startswith("'"):
        raw = _RAW.fullmatch(text)
        return None if raw is None else raw[1]
    if text.startswith('"'):
        quoted = _QUOTED.fullmatch(text)
        return None if quoted is None else re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted[1])
    return _COMMENT.split(text, maxsplit=1)[0].strip()
