"""The faults of programs that gave no answer: a sentence for each ending, and what the protocol adds to it."""

import signal
from typing import Final

from tooldispatchd.calls.outcome import UnreadableError
from tooldispatchd.children.spawn import Exit
from tooldispatchd.children.tail import Tail
from tooldispatchd.forked.signals import signal_name
from tooldispatchd.providers.process.limits import SIGNALLED, Limits
from tooldispatchd.wire.faults import Code, Fault

_BOUNDS: Final = {
    "cpu_s": "{} s of processor time",
    "memory": "{} bytes of memory",
    "processes": "{} processes",
    "files": "{} open files",
    "file_size": "{} bytes in one file",
}


def too_much(argv0: str, errors: Tail, *, max_output_bytes: int) -> Fault:
    """The fault of a program over the bound on stdout."""
    why = f"'{argv0}' was killed because it wrote more than {max_output_bytes} bytes to stdout"
    return _fault(why, errors, limit="output_bytes")


def failed(argv0: str, ended: Exit, errors: Tail, *, limits: Limits, limit: str | None) -> Fault:
    """The fault of a program that ended by a signal or with another code than 0; `limit` is the one that it passed."""
    extras: dict[str, object]
    if ended.signal is not None:
        why, extras = f"'{argv0}' was ended by {signal_name(ended.signal)}", {"signal": ended.signal}
    else:
        why, extras = f"'{argv0}' exited with code {ended.code}", {"exit_code": ended.code}
    if limit is None:
        return _fault(why, errors, **extras)
    return _fault(f"{why}: it passed {limit_words(limits, limit)}", errors, **extras, limit=limit)


def limit_words(limits: Limits, limit: str) -> str:
    """What the limit that was passed allows."""
    bound = getattr(limits, limit, None)
    return f"its limit {limit}" if bound is None else f"its limit of {_BOUNDS[limit].format(bound)}"


def no_answer(argv0: str, errors: Tail, error: UnreadableError) -> Fault:
    """The fault of a program that succeeded and wrote what is no answer."""
    extras = {} if error.limit is None else {"limit": error.limit}
    return _fault(f"'{argv0}' {error}", errors, **extras)


def unwrapped(ended: Exit) -> Exit:
    """How the program ended within another one that ends with 128 + n where signal n ended it."""
    if ended.code is not None and SIGNALLED < ended.code < SIGNALLED + signal.NSIG:
        return Exit(signal=ended.code - SIGNALLED)
    return ended


def _fault(detail: str, errors: Tail, **extras: object) -> Fault:
    if errors.total:
        extras["stderr_tail"] = errors.text()
    return Fault(Code.TOOL_FAILED, detail, extras)
