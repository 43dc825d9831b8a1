"""The tools of the transcripts' configurations as Python functions, and what those files say of profiles and limits.

Only behaviour is written here; which tool a profile has, and how long it may take, is read from the same files that a
daemon reads.
"""

import base64
import difflib
import hashlib
import string
import tomllib
from collections.abc import Callable, Sequence
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

    `updates` is what it says before it ends, as the fields of a `tool_update`. `kind` and `provider` stand in `meta`.
    """

    wrong: Callable[[object], list[str]]
    run: Callable[[object], object] | None
    waits: bool = False
    missing: object = msgspec.UNSET
    is_wrapped: bool = True
    updates: tuple[dict[str, object], ...] = ()
    wants_trace: bool = False
    is_chain: bool = False
    provider: str | None = None
    # Takes out of an input what counts as left out, and says where it was.
    mend: Callable[[object], list[str]] = lambda value: []
    # Whether MCP is told what it gives: only records can be.
    gives_record: bool = False

    @property
    def kind(self) -> str:
        if self.provider is not None:
            return "builtin"
        if not self.waits:
            return "inline"
        return "chain" if self.is_chain else "process"


class Profile(msgspec.Struct, frozen=True):
    name: str
    tools: tuple[str, ...]
    jobs: bool = True
    token: str | None = None


# --- names and forms ---

INFO: Final = "info"
FORMS: Final = ("plain", "text", "anthropic", "openai", "openai_responses", "google", "mcp")
HASH_CHARS: Final = 10
_WORD: Final = string.ascii_letters + string.digits + "_-"
# The characters that a name may begin with, those that it may have, and how many.
_RULES: Final = {
    "anthropic": (_WORD, _WORD, 64),
    "openai": (_WORD, _WORD, 64),
    "openai_responses": (_WORD, _WORD, 64),
    "google": (string.ascii_letters + "_", _WORD, 63),
    "mcp": (f"{_WORD}.", f"{_WORD}.", 128),
}


def spell(name: str, form: str) -> str:
    """A tool's name as a form shows it that has no other tool which looks the same: by the rule of the protocol, and
    independent of the daemon's own code."""
    if form in ("plain", "text"):
        return name
    first, allowed, most = _RULES[form]
    look = "".join(char if char in allowed else "_" for char in name.replace(":", "__", 1))
    fits = 0 < len(look) <= most and look[0] in first and all(char in f"{_WORD}.:/" for char in name)
    return look if fits and "__-" not in look else escape(name, form)


def spellings(name: str) -> set[str]:
    """All that a form may show a tool by."""
    return {spelled(name, form) for form in FORMS for spelled in (spell, escape)}


def escape(name: str, form: str) -> str:
    """A tool's name as a form shows it beside another tool that looks the same."""
    if form in ("plain", "text"):
        return name
    first, allowed, most = _RULES[form]
    pieces = [_spell_at(name, at, allowed if at else first, allowed) for at in range(len(name))]
    if 0 < len("".join(pieces)) <= most:
        return "".join(pieces)
    digest = base64.b32encode(hashlib.sha256(name.encode()).digest()).decode().lower()
    ending = "__-h" + digest[:HASH_CHARS]
    while len("".join(pieces)) > most - len(ending):
        pieces.pop()
    if pieces and pieces[-1] == "_":
        pieces.pop()
    return "".join(pieces) + ending


def _spell_at(name: str, at: int, here: str, allowed: str) -> str:
    char, before, after = name[at], name[:at][-1:], name[at + 1 : at + 2]
    if char == ":":
        return "__"
    is_escape = char == "_" and after != "" and (after == "_" or after not in allowed)
    if char not in here or is_escape or (before == ":" and char in "_-"):
        return "__-" + char.encode().hex()
    return char


UNIT: Final = {"type": "object", "properties": {}, "additionalProperties": False}


def entry(
    form: str,
    name: str,
    *,
    title: str | None,
    description: str,
    gives_record: bool,
    takes_nothing: bool,
    tags: Sequence[str] = (),
) -> dict[str, object]:
    """A tool in a list; of its schemas nothing is said, but that in the plain form of what takes nothing."""
    known: dict[str, object] = {"name": name, "description": description}
    titled = {"title": title} if title is not None else {}
    function = {**known, "parameters": {}, "strict": False}
    match form:
        case "plain" | "text":
            tagged = {"tags": list(tags)} if tags else {}
            return {**known, **titled, "input_schema": UNIT if takes_nothing else {}, **tagged}
        case "anthropic":
            return {**known, "input_schema": {}}
        case "openai":
            return {"type": "function", "function": function}
        case "openai_responses":
            return {"type": "function", **function}
        case "google":
            return {**known, "parameters": {}}
    return {**known, **titled, "inputSchema": {}, **({"outputSchema": {}} if gives_record else {})}


# --- the tools ---


def of_type(*types: type) -> Callable[[object], list[str]]:
    return lambda value: [] if type(value) in types else [""]


def query(value: object) -> list[str]:
    if not isinstance(value, dict) or "text" not in value or not value.keys() <= {"text", "limit"}:
        return [""]
    if type(value["text"]) is not str:
        return ["/text"]
    return [] if type(value.get("limit", 0)) is int else ["/limit"]


def limit_left_out(value: object) -> list[str]:
    """Leave a limit that is null out of a query."""
    if not isinstance(value, dict) or value.get("limit", 0) is not None:
        return []
    del value["limit"]
    return ["/limit"]


def same(value: object) -> object:
    return value


def double(value: object) -> object:
    assert isinstance(value, int)
    return value * 2


def upper(value: object) -> object:
    assert isinstance(value, str)
    # Of bytes only the letters of ASCII.
    return value.encode().upper().decode()


def broken_promise(value: object) -> object:
    return Fault(Code.INVALID_OUTPUT, "5 is no string", {"violations": [{"path": "", "message": "no string"}]})


def fail(value: object) -> object:
    return Fault(Code.TOOL_FAILED, "it failed", {"exit_code": 3, "stderr_tail": "broken\n"})


def anything(value: object) -> list[str]:
    return []


def numbers(value: object) -> list[str]:
    if not isinstance(value, list):
        return [""]
    return [f"/{place}" for place, one in enumerate(value) if type(one) is not int]


def in_stage(code: Code, process: str, position: int, **extras: object) -> Fault:
    """What is told of a stage of a chain that failed."""
    return Fault(code, "it failed", {**extras, "process": process, "position": position})


def divide(value: object) -> object:
    assert isinstance(value, int)
    for position in (1, 2):
        if value == 0:
            return in_stage(Code.TOOL_FAILED, "twelfth", position)
        value = int(12 / value)
    return value


def grind(value: object) -> object:
    assert isinstance(value, list)
    # How much is too much is the engine's to say: a few are not, and a hundred are.
    return 0 if len(value) < 10 else Fault(Code.TOOL_FAILED, "too much", {"limit": "expression", "ran": "no"})


def mirror(value: object) -> object:
    """The value, unless it is nested as no transcript is that wants it back."""
    is_deep = msgspec.json.encode(value).startswith(b"[" * 65)
    return Fault(Code.TOOL_FAILED, "too deep", {"limit": "expression", "ran": "no"}) if is_deep else value


WRONG: Final = [{"path": "", "message": "wrong"}]

TOOLS: Final[dict[str, Tool]] = {
    "echo": Tool(of_type(str), same),
    "same": Tool(query, same, missing={}, is_wrapped=False, mend=limit_left_out, gives_record=True),
    "twice": Tool(of_type(int), lambda value: [value, value]),
    "forget": Tool(anything, lambda value: None),
    "nothing": Tool(of_type(type(None)), same, missing=None),
    "maybe": Tool(of_type(dict), same, missing={}, is_wrapped=False, gives_record=True),
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
    "text.twice": Tool(of_type(str), lambda value: [value, value]),
    "a-name-that-says-all-there-is-to-say-of-what-this-tool-does-with-its-input": Tool(anything, lambda value: None),
    "loud": Tool(of_type(str), lambda value: f"{upper(value)}!", waits=True, is_chain=True),
    "marked": Tool(of_type(str), lambda value: f"{value}!"),
    "failing": Tool(
        of_type(str),
        lambda _: in_stage(Code.TOOL_FAILED, "fails", 2, exit_code=3, stderr_tail="broken\n"),
        waits=True,
        is_chain=True,
    ),
    "lying": Tool(
        of_type(str),
        lambda _: in_stage(Code.INVALID_OUTPUT, "liar", 2, violations=WRONG),
        waits=True,
        is_chain=True,
    ),
    "nested": Tool(
        of_type(str),
        lambda _: in_stage(Code.TOOL_FAILED, "fails", 3, exit_code=3, stderr_tail="broken\n"),
        waits=True,
        is_chain=True,
    ),
    "late": Tool(
        of_type(str),
        lambda _: in_stage(Code.TIMEOUT, "brief", 2, limit_ms=200, stage="run"),
        waits=True,
        is_chain=True,
    ),
    "refusing": Tool(of_type(str), lambda _: in_stage(Code.INVALID_OUTPUT, "short", 2, violations=WRONG)),
    "dividing": Tool(of_type(int), divide),
    "silent": Tool(of_type(str), lambda _: in_stage(Code.TOOL_FAILED, "nothing", 2)),
    "grind": Tool(numbers, grind),
    "mirror": Tool(anything, mirror),
}


def info(docs: dict[str, str], others: dict[str, str]) -> Tool:
    """The built-in tool that gives texts by canonical names, and by those that a form shows."""
    described = {name: f"{name}\n\n{text}" for name, text in others.items()} | docs
    texts = {spelling: text for name, text in described.items() for spelling in spellings(name)}

    def is_name(value: object) -> list[str]:
        return [] if isinstance(value, dict) and list(value) == ["name"] and type(value["name"]) is str else [""]

    def give(value: object) -> object:
        assert isinstance(value, dict)
        return texts.get(value["name"], Fault(Code.INVALID_INPUT, "no text", {"source": value["name"]}))

    return Tool(is_name, give, missing={}, is_wrapped=False, provider=INFO)


class Configuration:
    """What one of the transcripts' files says, as far as a machine without a clock can mean it."""

    def __init__(self, path: Path) -> None:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        self.limits: dict[str, int] = table.get("limits", {})
        self.descriptions = {name: tool.get("description", "") for name, tool in table["tools"].items()}
        self._said = table["tools"]
        self.profiles = {
            name: Profile(name, tuple(spec["tools"]), spec.get("jobs", True), spec.get("token"))
            for name, spec in table["agents"].items()
        }
        self.is_protected = any(profile.token is not None for profile in self.profiles.values())
        self._call_s = {name: tool["call_s"] for name, tool in table["tools"].items() if "call_s" in tool}

    def limit(self, name: str, otherwise: int = FAR) -> int:
        """A limit of the file; where it states none, more than any transcript reaches, or what is told then."""
        return self.limits.get(name, DEFAULT_MAX_LINE_BYTES if name == "max_line_bytes" else otherwise)

    def limit_ms(self, tool: str, deadline_ms: float | None) -> float:
        """What a call may take; infinite where a transcript does not wait for it."""
        limits = [value for value in (deadline_ms, self._call_s.get(tool, FAR) * 1000) if value is not None]
        return min(limits)

    def title(self, name: str) -> str | None:
        """A tool's title, where it has one."""
        title: str | None = self._said.get(name, {}).get("title")
        return title

    def tags(self, name: str) -> tuple[str, ...]:
        """A tool's tags."""
        return tuple(self._said.get(name, {}).get("tags", ()))

    def instructions(self, profile: Profile) -> str | None:
        """The hints of a profile's tools."""
        hints = [self._said[name]["hint"] for name in profile.tools if "hint" in self._said[name]]
        return "\n".join(f"- {hint}" for hint in hints) or None

    def docs(self, profile: Profile) -> dict[str, str]:
        """The texts that `info` gives of a profile's tools."""
        return {name: self._said[name]["doc"] for name in profile.tools if "doc" in self._said[name]}

    def find(self, name: str, profile: Profile) -> Tool | Fault:
        """The tool of this profile, or why there is none."""
        if name in profile.tools:
            return TOOLS[name]
        docs = self.docs(profile)
        if name == INFO and docs:
            return info(docs, {each: self.descriptions[each] for each in profile.tools if each in self.descriptions})
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
    unknown = [key for key in wish if key not in {"tools", "mcp", "jobs"}] if isinstance(wish, dict) else []
    if not isinstance(wish, dict) or unknown:
        return Fault(Code.INVALID_REQUEST, "this is no spec", {"source": unknown[0]} if unknown else {})
    tools = tuple(wish.get("tools", profile.tools))
    refused = [name for name in (*tools, *wish.get("mcp", [])) if name not in profile.tools]
    refused += ["jobs"] if wish.get("jobs") and not profile.jobs else []
    if refused:
        return Fault(Code.NOT_ALLOWED, "the profile does not offer this", {"source": refused[0]})
    return msgspec.structs.replace(profile, tools=tools, jobs=wish.get("jobs", profile.jobs))


def read_input(tool: Tool, raw: Raw | UnsetType, dropped: list[str]) -> object:
    """The value of an input, or the fault that it is; `dropped` gets where something was taken as left out."""
    try:
        value = tool.missing if isinstance(raw, UnsetType) else msgspec.json.decode(raw)
    except msgspec.ValidationError:
        return Fault(Code.INVALID_INPUT, "no double holds this number", {"violations": []})
    if tool.is_wrapped and isinstance(value, dict) and list(value) == ["input"]:
        value = value["input"]
    elif tool.is_wrapped and tool.missing is None and value == {}:
        value = None
    if isinstance(value, UnsetType):
        return Fault(Code.INVALID_INPUT, "the input is missing", {"violations": []})
    mended = tool.mend(value) if tool.wrong(value) else []
    wrong = [{"path": path, "message": "wrong"} for path in tool.wrong(value)]
    if not wrong:
        dropped += mended
    return Fault(Code.INVALID_INPUT, "the input is wrong", {"violations": wrong}) if wrong else value


def run(tool: Tool, value: object, traceparent: str | None) -> object:
    """What the tool gives: a value to encode, or a fault."""
    if tool.wants_trace:
        return traceparent if traceparent is not None and is_traceparent(traceparent) else ""
    assert tool.run is not None
    return tool.run(value)


def encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
