"""The tools of the transcripts' configurations as Python functions, and what those files say of profiles and limits.

Only behaviour is written here; which tool a profile has, and how long it may take, is read from the same files that a
daemon reads.
"""

import difflib
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.calls.trace import is_traceparent
from tooldispatchd.wire.faults import Code, Fault

DEFAULT_MAX_LINE_BYTES: Final = 8 * 1024 * 1024
FAR: Final = 1_000_000


class Tool(msgspec.Struct, frozen=True):
    """`wrong` says where an input breaks the tool's type; a tool without `run` never ends, one that `waits` later.

    `updates` is what it says before it ends, as the fields of a `tool_update`.
    """

    wrong: Callable[[object], list[str]]
    run: Callable[[object], object] | None
    waits: bool = False
    missing: object = msgspec.UNSET
    is_wrapped: bool = True
    updates: tuple[dict[str, object], ...] = ()
    wants_trace: bool = False

    @property
    def kind(self) -> str:
        return "process" if self.waits else "inline"


class Profile(msgspec.Struct, frozen=True):
    name: str
    tools: tuple[str, ...]
    jobs: bool = True
    token: str | None = None


def of_type(*types: type) -> Callable[[object], list[str]]:
    return lambda value: [] if type(value) in types else [""]


def query(value: object) -> list[str]:
    if not isinstance(value, dict) or type(value.get("text")) is not str:
        return [""]
    return [] if type(value.get("limit", 0)) is int else ["/limit"]


def same(value: object) -> object:
    return value


def double(value: object) -> object:
    assert isinstance(value, int)
    return value * 2


def upper(value: object) -> object:
    assert isinstance(value, str)
    return value.upper()


def broken_promise(value: object) -> object:
    return Fault(Code.INVALID_OUTPUT, "5 is no string", {"violations": [{"path": "", "message": "no string"}]})


def fail(value: object) -> object:
    return Fault(Code.TOOL_FAILED, "it failed", {"exit_code": 3, "stderr_tail": "broken\n"})


def anything(value: object) -> list[str]:
    return []


TOOLS: Final[dict[str, Tool]] = {
    "echo": Tool(of_type(str), same),
    "same": Tool(query, same, missing={}, is_wrapped=False),
    "twice": Tool(of_type(int), lambda value: [value, value]),
    "forget": Tool(anything, lambda value: None),
    "nothing": Tool(of_type(type(None)), same, missing=None),
    "maybe": Tool(of_type(dict), same, missing={}, is_wrapped=False),
    "double": Tool(of_type(int), double),
    "liar": Tool(anything, broken_promise, waits=True),
    "fails": Tool(anything, fail, waits=True),
    "upper": Tool(of_type(str), upper, waits=True),
    "stuck": Tool(anything, None, waits=True),
    "brief": Tool(anything, None, waits=True),
    "slow": Tool(of_type(str), same, waits=True),
    "steps": Tool(of_type(str), same, waits=True, updates=({"progress": 1, "total": 2, "message": "half"},)),
    "trace": Tool(anything, same, waits=True, wants_trace=True),
    "hidden": Tool(of_type(str), same),
    "secret": Tool(of_type(str), same),
}


class Configuration:
    """What one of the transcripts' files says, as far as a machine without a clock can mean it."""

    def __init__(self, path: Path) -> None:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        self.limits: dict[str, int] = table.get("limits", {})
        self.descriptions = {name: tool.get("description", "") for name, tool in table["tools"].items()}
        self.profiles = {
            name: Profile(name, tuple(spec["tools"]), spec.get("jobs", True), spec.get("token"))
            for name, spec in table["agents"].items()
        }
        self.is_protected = any(profile.token is not None for profile in self.profiles.values())
        self._call_s = {name: tool["call_s"] for name, tool in table["tools"].items() if "call_s" in tool}

    def limit(self, name: str) -> int:
        """A limit of the file; where it states none, more than any transcript reaches."""
        return self.limits.get(name, DEFAULT_MAX_LINE_BYTES if name == "max_line_bytes" else FAR)

    def limit_ms(self, tool: str, deadline_ms: float | None) -> float:
        """What a call may take; infinite where a transcript does not wait for it."""
        limits = [value for value in (deadline_ms, self._call_s.get(tool, FAR) * 1000) if value is not None]
        return min(limits)

    def find(self, name: str, profile: Profile) -> Tool | Fault:
        """The tool of this profile, or why there is none."""
        if name in profile.tools:
            return TOOLS[name]
        if name in self.descriptions:
            return Fault(Code.NOT_ALLOWED, "not for this agent", {"source": name})
        extras: dict[str, object] = {"source": name}
        close = difflib.get_close_matches(name, profile.tools, n=1)
        if close:
            extras["did_you_mean"] = close[0]
        return Fault(Code.UNKNOWN_TOOL, "no such tool", extras)

    def admit(self, name: str | None, token: str | None) -> Profile | Fault:
        """The profile that a `hello` asks for, or why it is not opened."""
        profile = self.profiles.get(name or "default")
        if profile is None and not self.is_protected:
            return Fault(Code.UNKNOWN_PROFILE, "no such profile")
        if profile is None or (profile.token is not None and profile.token != token):
            return Fault(Code.NOT_AUTHENTICATED, "no session is opened: not authenticated")
        return profile


def narrow(profile: Profile, spec: Raw) -> Profile | Fault:
    """The part of a profile that a `spec` names."""
    wish = msgspec.json.decode(spec)
    if not isinstance(wish, dict) or not wish.keys() <= {"tools", "mcp", "jobs"}:
        return Fault(Code.INVALID_REQUEST, "this is no spec", {"source": "*"} if isinstance(wish, dict) else {})
    refused = [name for name in (*wish.get("tools", []), *wish.get("mcp", [])) if name not in profile.tools]
    refused += ["jobs"] if wish.get("jobs") and not profile.jobs else []
    if refused:
        return Fault(Code.NOT_ALLOWED, "the profile does not offer this", {"source": refused[0]})
    return msgspec.structs.replace(profile, tools=tuple(wish.get("tools", [])), jobs=wish.get("jobs", profile.jobs))


def read_input(tool: Tool, raw: Raw | UnsetType) -> object:
    """The value of an input, or the fault that it is."""
    value = tool.missing if isinstance(raw, UnsetType) else msgspec.json.decode(raw)
    if tool.is_wrapped and isinstance(value, dict) and list(value) == ["input"]:
        value = value["input"]
    wrong = [{"path": path, "message": "wrong"} for path in tool.wrong(value)]
    return Fault(Code.INVALID_INPUT, "the input is wrong", {"violations": wrong}) if wrong else value


def run(tool: Tool, value: object, traceparent: str | None) -> object:
    """What the tool gives: a value to encode, or a fault."""
    if tool.wants_trace:
        return traceparent if traceparent is not None and is_traceparent(traceparent) else ""
    assert tool.run is not None
    return tool.run(value)


def encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
