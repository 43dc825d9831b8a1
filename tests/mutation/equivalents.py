"""Mutants that no line of the wire can tell from the module itself, each with the reason.

By module, and there by the changed line as it stands in the source and by what was changed. A test checks that each of
them still exists.
"""

from typing import Final

EQUIVALENTS: Final[dict[str, dict[tuple[str, str], str]]] = {
    "tooldispatchd.wire.session": {},
    "tooldispatchd.wire.decode": {},
}
