"""A call that needs input before it can be answered, one round of it (MCP 2026-07-28, `InputRequiredResult`).

    tools/call ──▶ input_required: requests, state ──▶ InputRound asks the agent ──▶ tools/call again, with both

The server keeps nothing meanwhile: its `requestState` goes back as it came, and is never looked into. What may be asked
and how long is the connection's `QuestionRelay`'s rule, the same as for servers of the older revisions.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.providers.mcp.asking import MAX_OPEN, UNKNOWN, JsonRpcError, QuestionRelay
from tooldispatchd.providers.mcp.messages import decoded

# As the SDKs of the protocol have it: a form has few pages, and a server that never has enough must not go on for ever.
MAX_ROUNDS: Final = 10
# What is decoded at once; sixteen questions with their context.
MAX_REQUIRED_BYTES: Final = 1024 * 1024
# Goes back with the next round; servers put a signed record there.
MAX_STATE_CHARS: Final = 512 * 1024
# A server's own; they go back with the answers.
MAX_KEY_CHARS: Final = 256
# A server that only wants to be asked again is asked after so long, doubled each time up to the second.
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.25

METHOD_WORDS: Final = {
    "sampling/createMessage": "a model's answer (sampling)",
    "elicitation/create": "a person's answer (elicitation)",
    "roots/list": "the roots",
}


class InputRequest(msgspec.Struct, frozen=True):
    """One thing that the server needs: a request such as older revisions send on their own."""

    method: str
    params: Raw | UnsetType = UNSET


class InputRequired(msgspec.Struct, frozen=True):
    """The input that a server needs before it answers: `requests` by its keys, and the `state` that goes back."""

    requests: dict[str, InputRequest]
    state: str | None

    def answered(self, responses: dict[str, Raw]) -> dict[str, object]:
        """The members of `params` that the next round adds to those of the call."""
        members: dict[str, object] = {}
        if responses:
            members["inputResponses"] = responses
        if self.state is not None:
            members["requestState"] = self.state
        return members


class _Required(msgspec.Struct):
    requests: dict[str, InputRequest] | None = msgspec.field(default=None, name="inputRequests")
    state: str | None = msgspec.field(default=None, name="requestState")


_decode_required: Final = msgspec.json.Decoder(_Required).decode


def read_input_required(result: Raw) -> InputRequired | None:
    """Read a result of the type `input_required`; None where it cannot be read, or asks for nothing."""
    said = decoded(_decode_required, result, MAX_REQUIRED_BYTES)
    if said is None:
        return None
    requests = said.requests or {}
    if not requests and said.state is None:
        return None
    if any(len(key) > MAX_KEY_CHARS for key in requests) or len(said.state or "") > MAX_STATE_CHARS:
        return None
    return InputRequired(requests, said.state)


class InputRound:
    """Round `number` of one call, from 1 on: what `required` asks for is asked of the agent, all at once.

    `done` gets the answers by the server's keys, for `InputRequired.answered`; or, as a phrase, why there are none: the
    agent does not answer that, refused, or did not answer in time. Once, unless `withdraw` comes before.
    """

    __slots__ = ("_done", "_is_over", "_number", "_relay", "_required", "_responses", "_waiting")

    def __init__(
        self,
        relay: QuestionRelay,
        required: InputRequired,
        done: Callable[[dict[str, Raw] | str], None],
        *,
        number: int = 1,
    ) -> None:
        self._relay = relay
        self._required = required
        self._done = done
        self._number = number
        self._is_over = False
        self._waiting: dict[str, int] = {}
        self._responses: dict[str, Raw] = {}

    def begin(self) -> None:
        """Ask. `done` may be called within: where nothing has to be waited for, or it is in vain."""
        requests = self._required.requests
        if self._number > MAX_ROUNDS:
            return self._end(f"it asked for input more than {MAX_ROUNDS} times")
        if len(requests) > MAX_OPEN:
            return self._end(f"it asks for more than {MAX_OPEN} things at once")
        if not requests:
            seconds = min(FIRST_PAUSE_S * 2 ** (self._number - 1), LONGEST_PAUSE_S)
            self._waiting[""] = self._relay.pause(seconds, partial(self._end, {}))
            return None
        for key, request in requests.items():
            answer = self._relay.ask(request.method, request.params, partial(self._take, key))
            if isinstance(answer, int):
                self._waiting[key] = answer
            elif isinstance(answer, JsonRpcError):
                return self._refuse(key, answer)
            else:
                self._responses[key] = answer
        return self._end_if_complete()

    def withdraw(self) -> None:
        """Stop waiting for the agent's answers; `done` is not called."""
        self._is_over = True
        for number in self._waiting.values():
            self._relay.withdraw(number)
        self._waiting.clear()

    def _take(self, key: str, answer: Raw | JsonRpcError) -> None:
        self._waiting.pop(key, None)
        if isinstance(answer, JsonRpcError):
            return self._refuse(key, answer)
        self._responses[key] = answer
        return self._end_if_complete()

    def _refuse(self, key: str, refusal: JsonRpcError) -> None:
        what = METHOD_WORDS.get(self._required.requests[key].method, "what this client does not know")
        why = "its agent does not answer that" if refusal is UNKNOWN else refusal.message
        self._end(f"it asks for {what}: {why}")

    def _end_if_complete(self) -> None:
        if not self._waiting:
            # In the server's order, whichever was answered first.
            self._end({key: self._responses[key] for key in self._required.requests})

    def _end(self, outcome: dict[str, Raw] | str) -> None:
        if not self._is_over:
            self.withdraw()
            self._done(outcome)
