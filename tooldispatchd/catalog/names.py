"""What tools and servers may be called: the rules, the prefix before the colon, and the name that was probably meant.

A declared tool has a name of its own; a server's tool is `prefix:name`, split at the first colon, so that the server's
part may hold colons of its own and a declared name never does.
"""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

MAX_NAME: Final = 128
MAX_PREFIX: Final = 32
# Of a server's tool. It stands in each list, log line and fault that names the tool.
MAX_SERVER_TOOL: Final = 1_024
# Comparing costs 2 to 20 µs a name: with these two bounds a misspelt name costs 5 ms as a rule and 45 ms at worst.
MAX_KNOWN: Final = 2_000
MAX_COMPARED: Final = 64
LIKENESS: Final = 0.6

_DECLARED: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)*")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")
# As the strictest provider takes names of properties (Anthropic's reference of tools).
MAX_FIELD: Final = 64
_NOT_IN_FIELD: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_IN_PREFIX: Final = re.compile(r"[^a-z0-9]+")


def declared_name_problem(name: str) -> str | None:
    """Why `name` cannot be declared (a tool, a type), or None where it can."""
    if len(name) > MAX_NAME:
        return f"a name has at most {MAX_NAME} characters"
    if ":" in name:
        return "a declared name has no colon: what stands before one is a server's prefix"
    if not _DECLARED.fullmatch(name):
        return "a declared name is letters, digits, - and _ after a letter, with dots between modules"
    return None


def is_server_tool_name(name: str) -> bool:
    """Whether a name that a server gave may be offered: it may have any characters."""
    return 0 < len(name) <= MAX_SERVER_TOOL


def is_plain(name: str) -> bool:
    """Whether a server's tool has a name as most have: at most 128 of ASCII letters, digits and `_ . / -`."""
    return _PLAIN.fullmatch(name) is not None


def prefixed(prefix: str, tool: str) -> str:
    """The name under which a server's tool is offered; an empty prefix offers it as it is."""
    return f"{prefix}:{tool}" if prefix else tool


def split_name(name: str) -> tuple[str, str]:
    """Prefix and tool, split at the first colon; the prefix is empty where there is none."""
    prefix, colon, tool = name.partition(":")
    return (prefix, tool) if colon else ("", name)


def default_prefix(name: str) -> str:
    """The prefix made of a server's own name: `[a-z0-9-]`, 1 to 32 characters; "server" where nothing is left."""
    return _NOT_IN_PREFIX.sub("-", name.lower()).strip("-")[:MAX_PREFIX].rstrip("-") or "server"


def field_name(name: str) -> str:
    """Reduce a name to letters and digits of ASCII, `_` and `-`, as of an input's property; may be empty."""
    return _NOT_IN_FIELD.sub("_", name[: 2 * MAX_FIELD]).strip("_-")[:MAX_FIELD]


def unique_prefixes(wanted: Iterable[str]) -> list[str]:
    """Each wanted prefix in turn; a taken one gets `-2`, or the next free number. Empty ones stay empty."""
    taken: set[str] = set()
    unique = []
    for prefix in wanted:
        free, number = prefix, 1
        while free in taken:
            number += 1
            suffix = f"-{number}"
            free = prefix[: MAX_PREFIX - len(suffix)] + suffix
        if free:
            taken.add(free)
        unique.append(free)
    return unique


def prefix_taken(wanted: str | None, prefix: str | None) -> str:
    """The warning that a server's tools have another prefix than it should."""
    return f'prefix "{wanted}" is taken, its tools are offered as "{prefix}:…"'


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None; overlong names and known ones past 2,000 are not looked at."""
    return next(iter(near_names(name, known)), None)


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """List the known names that are like `name`, the likest first, within the bounds of `nearest`."""
    if not name or len(name) > MAX_NAME:
        return []
    matcher: SequenceMatcher[str] = SequenceMatcher(autojunk=False)
    matcher.set_seq2(name.lower())
    likely: list[tuple[float, int, str]] = []
    for place, other in enumerate(islice(known, MAX_KNOWN)):
        if 0 < len(other) <= MAX_NAME:
            matcher.set_seq1(other.lower())
            if matcher.real_quick_ratio() >= LIKENESS and (bound := matcher.quick_ratio()) >= LIKENESS:
                likely.append((-bound, place, other))
    # Only the likeliest are compared in full, which is quadratic in their lengths.
    likely.sort()
    compared: list[tuple[float, str]] = []
    for _, _, other in likely[:MAX_COMPARED]:
        matcher.set_seq1(other.lower())
        compared.append((matcher.ratio(), other))
    return [other for likeness, other in sorted(compared, key=lambda one: -one[0]) if likeness >= LIKENESS]


def free_name(wanted: str, taken: dict[str, int]) -> str:
    """The name, with a number behind it where it is taken; it is from now on. `taken` is this function's alone.

    A number is tried once, so that thousands of one name take no longer than as many of different ones.
    """
    name = wanted
    while name in taken:
        taken[wanted] += 1
        name = f"{wanted}_{taken[wanted]}"
    taken[name] = 1
    return name
