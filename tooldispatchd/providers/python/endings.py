"""What the agent is told when a call of a Python tool has no value: each way of going wrong its own sentence. Pure."""

import math
import re
import signal
from functools import partial
from typing import Final

import msgspec

from tooldispatchd.calls.outcome import Unread, UnreadableError
from tooldispatchd.calls.violations import fault_at
from tooldispatchd.catalog.arguments import Output
from tooldispatchd.catalog.schemas import ACCEPT, Violation, is_light
from tooldispatchd.children.spawn import Exit
from tooldispatchd.children.tail import STDERR_TAIL_BYTES
from tooldispatchd.forked.signals import signal_name
from tooldispatchd.providers.python.tool import PythonTool, ReturnedValue
from tooldispatchd.wire.faults import Code, Fault

# How long a sentence may be that repeats what an exception said.
MAX_DETAIL_CHARS: Final = 2_000

# What a process that the kernel refused something says at its end. Only limits that a tool has are looked for.
WORDS: Final = {
    "memory": ("MemoryError", "Cannot allocate memory", "bad_alloc", "ut of memory"),
    "files": ("Too many open files",),
    "processes": ("Resource temporarily unavailable", "can't start new thread", "Cannot fork"),
    "file_size": ("File too large",),
}


# The exception's class, and the steps of a place as msgspec writes it: `$.a[0]`.
_CLASS: Final = re.compile(r"^(?:\w+\.)*\w*Error: ")
_STEP: Final = re.compile(r"\.([^.\[`]+)|\[(\d+)\]")


class ChildError(msgspec.Struct, frozen=True):
    """An ERROR frame, as `forked.python.calling.failure` writes it."""

    kind: str
    message: str
    trace: str
    limit: str | None


class Remains(msgspec.Struct, frozen=True):
    """What is known of a child once it is gone: how it ended, its last words, and its seconds of processor time."""

    exited: Exit
    stderr: str = ""
    cpu_s: float = 0.0


class Ending(msgspec.Struct, frozen=True):
    """How a call ended, as its socket tells it; nothing is set where the child was gone before it said anything."""

    value: bytes | bytearray | None = None
    error: ChildError | None = None
    nonsense: str | None = None
    """Why what was read is no answer."""
    is_cut: bool = False
    """Whether the child was gone in the midst of saying something."""
    is_over: bool = False
    """Whether the answer was longer than it may be."""
    is_unread: bool = False
    """Whether the child was gone before it had read the whole call: then the function was not called."""
    is_leaving: bool = False
    """Whether the worker ends by itself after this call."""

    @property
    def is_answer(self) -> bool:
        """Whether the child said how the call ended."""
        return self.value is not None or self.error is not None


def judge(tool: PythonTool, ending: Ending, remains: Remains) -> ReturnedValue | Unread | Fault:
    """The value, or why there is none; `remains` tell of the child where it said nothing."""
    exited, stderr = remains.exited, remains.stderr
    if ending.value is not None:
        return _decode(tool, ending.value, stderr)
    if ending.error is not None:
        return _raised(tool, ending.error, stderr)
    name = tool.function
    if ending.is_over:
        why = f"'{name}' returned more than {tool.max_output_bytes} bytes of JSON"
        return _fault(why, stderr, limit="output_bytes")
    if ending.nonsense is not None:
        return _fault(f"what came of '{name}' is no answer: {ending.nonsense}", stderr)
    limit = _limit(tool, remains)
    extras: dict[str, object] = {} if limit is None else {"limit": limit}
    passed = "" if limit is None else f", over its limit of {limit}"
    if exited.signal is not None:
        return _fault(
            f"'{name}' was ended by {signal_name(exited.signal)}{passed}", stderr, signal=exited.signal, **extras
        )
    where = "in the midst of its answer" if ending.is_cut else "instead of returning"
    why = f"'{name}' ended with exit code {exited.code} {where}{passed}"
    return _fault(why, stderr, exit_code=exited.code, **extras)


def not_started(tool: PythonTool, why: str, stderr: str = "") -> Fault:
    """No child could be had for the call."""
    return _fault(f"cannot run '{tool.function}': {why}", stderr)


def _decode(tool: PythonTool, value: bytes | bytearray, stderr: str) -> ReturnedValue | Unread | Fault:
    if not is_light(value, ACCEPT):
        return Unread(value, Output.JSON, tool.max_output_bytes, partial(_no_value, tool), stderr)
    try:
        return ReturnedValue(msgspec.json.decode(value), stderr)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        return _no_value(tool, UnreadableError(why))


def _no_value(tool: PythonTool, error: UnreadableError) -> Fault:
    return _fault(f"what '{tool.function}' returned cannot be read: {error}", "")


def _raised(tool: PythonTool, error: ChildError, stderr: str) -> Fault:
    name, message = tool.function, error.message[:MAX_DETAIL_CHARS]
    if error.kind == "input":
        return _broken(Code.INVALID_INPUT, message)
    if error.kind == "output":
        return _broken(Code.INVALID_OUTPUT, message)
    said = _joined(stderr, error.trace)
    if error.kind == "import":
        return _fault(f"cannot load '{name}': {message}", said)
    if error.kind == "confine":
        return _fault(f"cannot confine '{name}': {message}", said)
    if error.limit in tool.limits:
        why = f"'{name}' is over its limit of {error.limit}: {message}"
        return _fault(why, said, exception=message, limit=error.limit)
    return _fault(f"'{name}' raised {message}", said, exception=message)


def _broken(code: Code, message: str) -> Fault:
    """A value that the function's own types refuse; `message` is an exception's, with msgspec's way to say where."""
    said = _CLASS.sub("", message, count=1)
    why, _, place = said.rpartition(" - at `$")
    if not why:
        why, place = said, ""
    path = "".join(f"/{key or index}" for key, index in _STEP.findall(place))
    return fault_at(code, [Violation(path, why)])


def _limit(tool: PythonTool, remains: Remains) -> str | None:
    """The limit that a child which died was over, where it has it."""
    exited, stderr = remains.exited, remains.stderr
    # Whoever catches SIGXCPU is killed a second later, which would look like anybody's doing.
    if "cpu_s" in tool.limits and (exited.signal == signal.SIGXCPU or remains.cpu_s >= (tool.policy.cpu_s or math.inf)):
        return "cpu_s"
    if exited.signal == signal.SIGXFSZ and "file_size" in tool.limits:
        return "file_size"
    for limit, words in WORDS.items():
        if limit in tool.limits and any(word in stderr for word in words):
            return limit
    return None


def _joined(stderr: str, trace: str) -> str:
    # What was printed comes first, as it did in time; the traceback is whole wherever it can be.
    room = max(0, STDERR_TAIL_BYTES - len(trace))
    return (stderr[-room:] if room else "") + trace


def _fault(detail: str, stderr: str, **extras: object) -> Fault:
    if stderr:
        extras["stderr_tail"] = stderr
    return Fault(Code.TOOL_FAILED, detail, extras)
