"""What a client can be asked by the daemon, and what it says of itself in `hello` because of that."""

from collections.abc import Sequence
from typing import Final

from tooldispatchd.client.conversation import Refusal, Verdict

# What an agent says that has nobody to ask: the daemon waits for no answer that will not come.
NO_VERDICT: Final = Verdict(allow=False, reason="nobody is there to approve it")
NO_ANSWER: Final = Refusal("nobody is there to answer")


def answers(*, approves: bool, asks: bool) -> Sequence[str] | None:
    """The `answers` of a `hello`; None, which leaves them out, where it answers nothing."""
    found = [*(["approve"] if approves else []), *(["sampling", "elicitation"] if asks else [])]
    return found or None
