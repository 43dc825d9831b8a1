"""Mutants that no transcript can tell from the module itself, each with the reason.

By module, and there by the changed line as it stands in the source and by what was changed. A test checks that each of
them still exists.
"""

from typing import Final

OWN_DEFECT: Final = "a guard against our own defects"
NOBODY_READS: Final = "what is said to an agent that is gone is read by nobody"
ASKED_BEFORE: Final = "the session looks whether the agent asked before it makes the list"
WORDS: Final = "the words of a detail are nobody's rule"
SAME_ANSWER: Final = "a quicker way to the same answer"
EQUIVALENTS: Final[dict[str, dict[tuple[str, str], str]]] = {
    "tooldispatchd.wire.session": {
        ("if state is None:", "the condition is false"): OWN_DEFECT,
        ("if event is Event.GONE:", "the condition is false"): NOBODY_READS,
        ("self.is_gone = True", "True changed"): NOBODY_READS,
        ("self.is_gone = True", "left out"): NOBODY_READS,
        ("if self.is_gone:", "the condition is false"): NOBODY_READS,
        ("class Asked(msgspec.Struct, frozen=True, gc=False):", "True changed"): OWN_DEFECT,
        ("class Asked(msgspec.Struct, frozen=True, gc=False):", "False changed"): "what the collector looks at",
        ("self.opening_line = 0", "0 changed"): "an agent that was called, and is refused, never begins to read",
        (
            "self.asked = ASKED_NOTHING if asked == ASKED_NOTHING else asked",
            "the condition is false",
        ): "one object in the place of many equal ones",
        (
            "if self.asked.updates and self.state in {State.OPEN, State.DRAINING} and not self.is_gone:",
            "the condition is true",
        ): ASKED_BEFORE,
        (
            "if self.asked.updates and self.state in {State.OPEN, State.DRAINING} and not self.is_gone:",
            "and and or swapped",
        ): ASKED_BEFORE,
        (
            'return Raw(msgspec.json.encode(dict(zip((*names, "admin"), has, strict=True)) | ALWAYS))',
            "True changed",
        ): OWN_DEFECT,
        ("if type(request) is ToolReq and beside is NOTHING_BESIDE:", "the condition is false"): SAME_ANSWER,
    },
    "tooldispatchd.wire.decode": {
        (
            "message: Message = _decode_tagged(line) if is_tagged else _decode_short(line)",
            "the condition is true",
        ): SAME_ANSWER,
        ("if isinstance(error, RecursionError):", "the condition is true"): WORDS,
        ("if isinstance(error, RecursionError):", "the condition is false"): WORDS,
        ("elif isinstance(error, UnicodeDecodeError):", "the condition is true"): WORDS,
        ("elif isinstance(error, UnicodeDecodeError):", "the condition is false"): WORDS,
    },
}
