"""What a checker makes of an answer that is too large for the dispatch thread, made here."""

from typing import TypeVar

from tooldispatchd.calls.outcome import Unread, UnreadableError
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.wire.faults import Fault

ValueT = TypeVar("ValueT")


def settled(result: ValueT | Unread | Fault, value_type: type[ValueT]) -> ValueT | Fault:
    """The result, read where it is not."""
    if not isinstance(result, Unread):
        return result
    assert not isinstance(result.text, tuple)
    try:
        return value_type(read_output(result.output, result.text, max_bytes=result.max_bytes))  # type: ignore[call-arg]
    except UnreadableError as error:
        return result.fault(error)
