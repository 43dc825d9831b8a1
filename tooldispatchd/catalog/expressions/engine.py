"""The engine, loaded when the first expression is, and made safe to keep.

Its results lose one reference to None for each null that they hold, so that before Python 3.12, where None became
immortal, some ten thousand nulls would end the process: None would be freed. So None is lent as many references as no
process lives to lose.
"""

import ctypes
import sys
from types import ModuleType
from typing import Final

# At a million nulls a second it lasts for a hundred thousand years; the count itself has two bits to spare.
LENT: Final = sys.maxsize >> 2


def load_engine() -> ModuleType:
    """The engine's module. The first call imports it, some 20 ms, which daemons without a `map` never spend."""
    from cel_expr_python import cel  # noqa: PLC0415

    lend_none()
    engine: ModuleType = cel
    return engine


def text_functions() -> object:
    """The engine's own extension for texts: `substring`, `split`, `replace` and their like."""
    from cel_expr_python.ext import ext_strings  # noqa: PLC0415

    return ext_strings.ExtStrings()


def lend_none() -> None:
    """Make sure that None has references to lose."""
    if sys.version_info >= (3, 12) or sys.getrefcount(None) > LENT // 2:
        return
    # The count stands before the type, which ends an object's head, wherever a build puts more in front of it.
    count = id(None) + object.__basicsize__ - 2 * ctypes.sizeof(ctypes.c_void_p)
    ctypes.c_ssize_t.from_address(count).value += LENT
