"""How a job for a checker, and its result, are written: sizes, then the words themselves."""

import struct
from collections.abc import Callable
from typing import Final

# The sizes of a function's name, its arguments and its payload.
JOB: Final = struct.Struct("<IQQ")
# Whether memory was too little, and the sizes of reply and payload.
RESULT: Final = struct.Struct("<?QQ")

Work = Callable[[bytes, bytearray], tuple[bytes, bytes | bytearray]]
"""A pure function at the top of a module: arguments and payload in, a small reply and a payload out."""
