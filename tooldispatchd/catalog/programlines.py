"""What is said of a program that was understood: how it is spoken to, what it keeps to, how it is shut in. Pure.

Lines for `explanation`, without its indentation.
"""

from collections.abc import Iterator
from typing import Final

from tooldispatchd.catalog.arguments import Moded
from tooldispatchd.catalog.confined import ConfinedSpec
from tooldispatchd.catalog.confinement import Confinement, Means, confinement_of
from tooldispatchd.catalog.enforcement import FOR_FUNCTIONS, MEANS, Enforceable, Enforced, enforce
from tooldispatchd.catalog.sizes import size_of
from tooldispatchd.catalog.specs import InputMode, OutputMode, ToolSpec

_INPUTS: Final[dict[InputMode, str]] = {
    "json": "a line of JSON on stdin",
    "text": "text on stdin",
    "args": "in its arguments",
    "env": "in variables",
}
_OUTPUTS: Final[dict[OutputMode, str]] = {"json": "one JSON value", "text": "text", "lines": "lines"}

_SIZES: Final = ("memory", "file_size", "output_bytes")
_BOUNDS: Final = ("cpu_s", "memory", "processes", "files", "file_size", "output_bytes", "nice", "user", "group")
_UNITS: Final = (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))


def program_lines(spec: Moded, by: Enforceable) -> Iterator[str]:
    """Those of a tool or process that runs a program or a function, on a machine that can enforce what `by` says."""
    if (spec.input_mode, spec.output_mode) != ("json", "json"):
        yield f"input: {_INPUTS[spec.input_mode]}; answer: {_OUTPUTS[spec.output_mode]}"
    if spec.reuse is not None:
        yield f"reuse: one child serves up to {spec.reuse} calls of one caller"
    is_function = isinstance(spec, ToolSpec) and spec.python is not None
    if isinstance(spec, ToolSpec) and spec.python is not None:
        yield from _function_lines(spec)
    yield from kept_lines(spec, by, FOR_FUNCTIONS if is_function else MEANS)


def kept_lines(spec: ConfinedSpec, by: Enforceable, means: tuple[Means, ...] = MEANS) -> Iterator[str]:
    """What one table lets its program use and see, and by which means it can be shut in."""
    lines = list(bound_lines(spec, enforce(confinement_of(spec), by, means)))
    yield from lines or ["bounds: none; not shut in"]


def bound_lines(spec: ConfinedSpec, enforced: Enforced | None = None) -> Iterator[str]:
    """What one table lets programs use and see; with `enforced` also by which means, and what the machine lacks."""
    asked = confinement_of(spec)
    bounds = ", ".join(_bound(key, asked) for key in _BOUNDS if getattr(asked, key) is not None)
    if bounds:
        yield f"bounds: {bounds}"
    if asked.is_sandboxed:
        means = None if enforced is None else enforced.means
        yield f"shut in: {', '.join(_walls(asked))}{f'; by {means}' if means else ''}"
    if asked.sandbox is not None:
        yield f"sandbox: {asked.sandbox}"
    if enforced is not None and enforced.lacking:
        yield f"not enforced on this machine: {', '.join(enforced.lacking)}"


def _function_lines(spec: ToolSpec) -> Iterator[str]:
    if spec.prefork:
        yield f"forked ahead: {spec.prefork}"
    who = "a worker" if spec.resident else "its warm parent"
    yield f"{who} is replaced after {spec.max_forks} calls, or at {_size(size_of(spec.max_rss))}"


def _bound(key: str, asked: Confinement) -> str:
    amount: int = getattr(asked, key)
    return f"{key} {_size(amount) if key in _SIZES else amount}"


def _size(amount: int) -> str:
    """As a configuration writes it."""
    return next((f"{amount // size}{unit}" for unit, size in _UNITS if amount and amount % size == 0), str(amount))


def _walls(asked: Confinement) -> Iterator[str]:
    if not asked.network:
        yield "no network"
    if asked.read is not None:
        yield f"reads only {_places(asked.read)}"
    if asked.write is not None:
        yield f"changes only {_places(asked.write)}"


def _places(paths: tuple[str, ...]) -> str:
    """Beside what every program may use."""
    return " and ".join(paths) if paths else "what every program may"
