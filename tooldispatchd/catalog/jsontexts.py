"""Texts that hold the JSON of an array or an object, in the place of it: models write `"items": "[1, 2]"`.

Such a text is looked for where a schema refuses a text alone, never in a value that is valid. What it holds is put in
its place, and the validator is asked again: nothing is taken that the schema does not admit.
"""

from typing import Final

import msgspec

from tooldispatchd.catalog.pointers import at, unescape
from tooldispatchd.catalog.schemas import Check
from tooldispatchd.catalog.violations import Violation

# A longer text is no argument that a model has put into quotes. As much is decoded in a millisecond.
MAX_CHARS: Final = 64 * 1024
# A text may hold a text. To find what is wrong takes some 1.5 ms each time.
MAX_ROUNDS: Final = 3
HINT: Final = "; this text holds JSON: give the value itself, without quotes"

_decode: Final = msgspec.json.Decoder().decode


class JsonTexts:
    """The texts in a value that breaks `check`, and what each of them holds. The value is changed in place."""

    def __init__(self, check: Check, value: object) -> None:
        self._check = check
        self._texts: dict[str, str] = {}
        self.violations = check.violations(value)
        self.value = value
        left = self.violations
        for _ in range(MAX_ROUNDS):
            found = [(each.path, held) for each in left if (held := _held(at(self.value, each.path))) is not None]
            if not found:
                break
            for path, held in dict(found).items():
                self._texts[path] = str(at(self.value, path))
                self._put(path, held)
            left = check.violations(self.value)
        self._left = left

    @property
    def are_meant(self) -> bool:
        """Whether the value is valid with what its texts hold, but for nulls that mean as much as nothing."""
        check, value = self._check, self.value
        return bool(self._texts) and (check.is_valid(value) or (bool(check.mend(value)) and check.is_valid(value)))

    def put_back(self) -> list[Violation]:
        """Put the texts back: what is wrong with the value as it was, with a hint at each text that holds what fits."""
        wrong = [each.path for each in self._left]
        fitting = {path for path in self._texts if not any(_is_at(each, path) for each in wrong)}
        for path, text in reversed(self._texts.items()):
            self._put(path, text)
        return [
            msgspec.structs.replace(each, message=each.message + HINT) if each.path in fitting else each
            for each in self.violations
        ]

    def _put(self, path: str, value: object) -> None:
        above, _, step = path.rpartition("/")
        holder = at(self.value, above)
        if not path:
            self.value = value
        elif isinstance(holder, dict):
            holder[unescape(step)] = value
        elif isinstance(holder, list):
            holder[int(step)] = value


def _is_at(path: str, text: str) -> bool:
    return path == text or path.startswith(f"{text}/")


def _held(text: object) -> object:
    """Decode the array or object that a text holds; None for anything else."""
    if not isinstance(text, str) or len(text) > MAX_CHARS or not text.lstrip().startswith(("[", "{")):
        return None
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
