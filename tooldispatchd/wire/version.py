"""The version of this program, as it says it of itself."""

from typing import Final

# Reading it from the installed package takes a tenth of a second.
VERSION: Final = "0.1.0"
