"""A server as other MCP clients write it, as a table of `[mcp]`; and what `[mcp.NAME]` beside it adds. Pure.

What restricts a server there must restrict it here. So the restricting keys of known clients are understood, and an
unknown key is an error where its name could mean a restriction, unless `[mcp.NAME]` itself says what holds.
"""

import json
import re
from pathlib import PurePath
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import KIB
from tooldispatchd.config.foreign_entries import RENAMED, plain_entry, type_word
from tooldispatchd.config.key_patterns import Table

# A server has one of these.
WAYS: Final = ("url", "command")
# Copied as they are. A server's table has many more keys, which no other client knows.
_COPIED: Final = ("command", "args", "env", "cwd", "url", "headers", "queue", "cache")
# Lists of tools, and what each is here.
LISTS: Final = {
    **dict.fromkeys(("toolsAllowed", "includeTools", "tools", "enabled_tools", "available_tools"), "tools"),
    **dict.fromkeys(("toolsDenied", "disabledTools", "excludeTools", "disabled_tools"), "deny"),
}
# Other names of a server's directory.
_DIRECTORIES: Final = ("workingDirectory", "workingDir", "working_directory")
# How long one call may take; the first that is there counts.
_TIMEOUTS: Final = ("requestTimeoutMs", "timeout", "tool_timeout_sec")
# What stands under another name than here.
SPELLINGS: Final = RENAMED | LISTS | dict.fromkeys(_DIRECTORIES, "cwd") | dict.fromkeys(_TIMEOUTS, "call_s")
# Each switches a server on or off, and is true where it is on unless it is the last.
_SWITCHES: Final = ("enabled", "active", "isActive", "disabled")
_KEYS: Final = (*_COPIED, *SPELLINGS, *_SWITCHES, "type", "envFile")
# Each says which tools a client does not ask a person about. So the others wait for a consent there, and here only
# where `approve` says so.
_CONSENT: Final = frozenset({"autoApprove", "alwaysAllow"})
# By their letters alone. `http` is whatever is behind the URL: some clients fall back to the older transport there, as
# `auto` does.
_TYPES: Final = {
    "stdio": ("command", "auto"),
    "local": ("command", "auto"),
    "http": ("url", "auto"),
    "remote": ("url", "auto"),
    "streamablehttp": ("url", "http"),
    "sse": ("url", "sse"),
    # The URL says so itself.
    "websocket": ("url", "auto"),
    "ws": ("url", "auto"),
}
# Whoever counts in milliseconds waits a second at least, and whoever counts in seconds an hour at most.
_LEAST_MS: Final = 1_000
# Of `max_output`.
LEAST_OUTPUT: Final = KIB
_MOST_S: Final = 3_600
# Looked for in a key without its capitals and signs: `auto_approve`, `readOnly`, `tool-filter`. A time-out is none,
# nor is what a client logs in with (`accessToken`, `selectedAuthType`).
_RESTRICTING: Final = re.compile(
    r"(?!.*timeout)(?:configs?$|.*(?:allow|den(?:y|ied)|disab|enab|exclu|inclu|block|only|approv|permi|restrict|forbid"
    r"|prohibit|filter|whitelist|blacklist|confirm|consent|sandbox|trust|hid(?:e|den)|tool|omit|without|suppress"
    r"|protect|guard|reject|refus|prevent|polic(?:y|ies)|network|access(?!token|key)|select(?!edauth)))"
)
# What `[mcp.NAME]` says for itself of what a server may do.
_DECIDING: Final = frozenset({"tools", "deny", "enabled", *KEYS})
_VARIABLE: Final = re.compile(
    r"(?P<literal>\$\$\{)|\$\{(?:env:)?(?P<body>[A-Za-z_][A-Za-z0-9_]*(?::-[^{}]*)?)\}|\$\{input:(?P<input>[^{}]+)\}"
    r"|\$\{\{\s*(?:secrets|inputs)\.(?P<secret>[A-Za-z_]\w*)\s*\}\}|\$\{/\}|\$\{"
    r"|\$(?P<bare>[A-Z_][A-Z0-9_]+)|(?P<braced>\{(?:env|file):[^{}$]+\})|%(?P<percent>[A-Z_][A-Z0-9_]{2,})%|\$"
)
# A text of such a form may be a secret: it is not shown itself.
_SHOWN: Final = {"bare": "$NAME", "braced": "{env:NAME}", "percent": "%NAME%"}
_DOLLAR: Final = re.compile(r"\$(?!\{)")
_ANY_VARIABLE: Final = re.compile(r"\$\{[^{}]*\}")


def may_restrict(key: str) -> bool:
    """Whether the name of an unknown key is one that could take something away from a server."""
    return _RESTRICTING.match(re.sub(r"[^a-z]", "", key.lower())) is not None


def restricts(key: str) -> bool:
    """Whether a key of an entry takes something away from its server, or may."""
    known = key in {*LISTS.values(), *LISTS, *_SWITCHES, *_CONSENT}
    return known or (key not in {*_KEYS, *SPELLINGS} and may_restrict(key))


def is_off(entry: Table) -> bool:
    """Whether any switch of an entry turns its server off."""
    return any(entry.get(key) is (key == "disabled") for key in _SWITCHES)


def is_decided(own: Table) -> bool:
    """Whether `[mcp.NAME]` says for itself what the server may do."""
    return not _DECIDING.isdisjoint(own)


class FileContext(msgspec.Struct, frozen=True):
    """Where a file lies: relative paths of its servers start at `directory`, where that is not the configuration's."""

    directory: PurePath
    is_elsewhere: bool
    call_s: float | None = None
    """Seconds for a call of a server that says nothing else, where the file says it."""
    dialect: frozenset[str] = frozenset()
    """What its client expands besides `${NAME}`: `bare` ($NAME), `braced` ({env:NAME}), `percent` (%NAME%)."""
    max_output: int | None = None
    """How many bytes of an answer a model should get, likewise."""

    @property
    def workspace(self) -> PurePath:
        """What editors call the workspace: the file lies in it, or in its `.vscode`, `.cursor` or the like."""
        return self.directory.parent if self.directory.name.startswith(".") else self.directory


class ForeignServer(msgspec.Struct, frozen=True):
    """A table of `[mcp]`, the problems of its source, and the source's keys that mean nothing here."""

    table: Table
    problems: list[Problem]
    unknown: list[str]
    env_file: str | None = None
    """The file with more of its variables, as the configuration writes it."""
    literal: tuple[str, ...] = ()
    """The forms of what looks like a variable, and is none in the files of its client."""


def translate(entry: Table, own: Table, path: Path, places: FileContext) -> ForeignServer:
    """An entry as a table of `[mcp]`; what has a problem is left out.

    `own` is what `[mcp.NAME]` beside it says, and `path` leads to that.
    """
    return _Translation(own, path, places).translate(entry)


def complete(table: Table, own: Table, path: Path, shown: str) -> list[Problem]:
    """Add what `[mcp.NAME]` says to a server's table, in place: neither takes back what the other restricts.

    A problem for each key that both say and that has no stricter one of two; `shown` is where the table was written.
    """
    problems: list[Problem] = []
    for key, value in own.items():
        other = table.get(key)
        if key == "enabled" and isinstance(other, bool) and isinstance(value, bool):
            table[key] = other and value
        elif key in {"tools", "deny"} and isinstance(other, list) and isinstance(value, list):
            table[key] = _combined(key, cast("list[object]", other), cast("list[object]", value))
        else:
            if key in table:
                problems.append(Problem((*path, key), f"{shown} says it already"))
            table[key] = value
    return problems


class _Translation:
    def __init__(self, own: Table, path: Path, places: FileContext) -> None:
        self._own = own
        self._path = path
        self._places = places
        self._problems: list[Problem] = []
        # The server's own variables, which stand before those of the environment in its other texts.
        self._env: dict[str, str] = {}
        self._dialect = places.dialect
        self._literal: dict[str, None] = {}

    def translate(self, entry: Table) -> ForeignServer:
        given = plain_entry(entry)
        if "httpUrl" in entry:
            # Gemini and Qwen, wherever their file lies.
            self._dialect |= {"bare"}
        unknown = [key for key in given if key not in _KEYS and (given[key] or key not in _CONSENT)]
        # Whether the server is wanted, by each switch that says it.
        said: list[bool] = []
        for key in _SWITCHES:
            value = given.get(key)
            if isinstance(value, bool):
                said.append(value != (key == "disabled"))
            elif key in given:
                self._problems.append(Problem((*self._path, key), "wrong kind of value", allowed="true or false"))
        if unknown and not any(way in given for way in WAYS):
            # Other clients have `serverUrl`, and a way may be misspelt. Its other keys belong to the missing way.
            meant = {key: next((way for way in WAYS if way in key.lower()), nearest(key, WAYS)) for key in unknown}
            problems = [Problem((*self._path, key), "unknown key", nearest=way) for key, way in meant.items() if way]
            why = f"a server has command or url, this one has neither; unknown: {listed(unknown)}"
            return ForeignServer({}, [*self._problems, *(problems or [Problem(self._path, why)])], [])
        if not all(said) or self._own.get("enabled") is False:
            # It is never started: nothing is asked of the environment for it.
            ways = {way: given[way] for way in WAYS if way in given}
            blank = {way: _ANY_VARIABLE.sub("x", text) if isinstance(text, str) else text for way, text in ways.items()}
            return ForeignServer(blank | {"enabled": False}, self._problems, unknown)
        if not is_decided(self._own):
            where = f"[mcp.{toml_key(str(self._path[1]))}]"
            for key in _CONSENT.intersection(unknown) if "approve" not in self._own else ():
                why = "here no tool is asked about unless approve says so"
                consent = f'approve in {where} ("always", "destructive", …), or enabled = true there, to ask about none'
                self._problems.append(Problem((*self._path, key), why, allowed=consent))
            allowed = f'"tools", "deny" or "enabled" in {where}, which then says what holds here'
            for key in (each for each in unknown if each not in _CONSENT and may_restrict(each)):
                close = nearest(key, (*LISTS, *_SWITCHES))
                why = "unknown key, which may restrict the server"
                self._problems.append(Problem((*self._path, key), why, allowed=allowed, nearest=close))
        table = self._table(given)
        if said:
            table["enabled"] = True
        return ForeignServer(table, self._problems, unknown, self._env_file(given), tuple(self._literal))

    def _table(self, given: Table) -> Table:
        env = self._rewritten(given.get("env", {}))
        if isinstance(env, dict):
            self._env = {key: text for key, text in cast("Table", env).items() if isinstance(text, str)}
        table: Table = {key: self._rewritten(given[key]) for key in _COPIED if key in given and key != "env"}
        table |= {"env": env} if "env" in given else {}
        for key in ("queue", "cache"):
            if table.get(key) == "":
                del table[key]
        self._add_respelt(table, given)
        if self._places.is_elsewhere:
            # The relative paths of a server start where its file lies.
            command, cwd = table.get("command"), table.get("cwd")
            prefix = str(self._places.directory).replace("$", "$$")
            if isinstance(command, str) and command.startswith(("./", "../")):
                table["command"] = f"{prefix}/{command}"
            if isinstance(cwd, str) and cwd and not cwd.startswith(("/", "${")):
                table["cwd"] = f"{prefix}/{cwd}"
        for key, ours in LISTS.items():
            names = ["*"] if given.get(key) == "*" and ours == "tools" else given.get(key)
            if isinstance(names, list):
                # A star by itself allows all.
                if ours == "deny" or names != ["*"]:
                    table[ours] = _combined(ours, cast("list[object]", table[ours]), names) if ours in table else names
            elif key in given:
                allowed = "an array of tools' names"
                self._problems.append(Problem((*self._path, key), "wrong kind of value", allowed=allowed))
        if "type" in given:
            self._add_transport(table, str(given["type"]))
        return table

    def _add_respelt(self, table: Table, given: Table) -> None:
        """The directory and the time-out, which have many names, and the size, which all servers have in common."""
        directory = next((key for key in ("cwd", *_DIRECTORIES) if key in given), None)
        if directory is not None:
            table["cwd"] = self._rewritten(given[directory])
        timeout = next((key for key in _TIMEOUTS if key in given), None)
        # [mcp.NAME] may say otherwise: a time-out takes no right away.
        if "call_s" not in self._own:
            if timeout is not None:
                self._add_seconds(table, timeout, given[timeout])
            elif self._places.call_s is not None:
                table["call_s"] = self._places.call_s
        if self._places.max_output is not None and "max_output" not in self._own:
            table["max_output"] = self._places.max_output

    def _add_transport(self, table: Table, kind: str) -> None:
        path = (*self._path, "type")
        way, transport = _TYPES.get(word := type_word(kind), ("", "auto"))
        if not way:
            allowed = ", ".join(f'"{each}"' for each in _TYPES)
            close = nearest(kind, _TYPES)
            self._problems.append(Problem(path, "no such type", allowed=allowed, nearest=close))
        elif way not in table:
            self._problems.append(Problem(path, f'a server of type "{kind}" has a {way}'))
        elif word in {"websocket", "ws"} and str(table["url"]).startswith(("http://", "https://")):
            self._problems.append(Problem(path, f'the url of a server of type "{kind}" begins with ws:// or wss://'))
        elif transport != "auto":
            table["transport"] = transport

    def _add_seconds(self, table: Table, key: str, value: object) -> None:
        """How long a call may take, where that can be told."""
        seconds = seconds_of(key, value)
        if seconds is not None:
            table["call_s"] = seconds
            return
        why, allowed = "wrong kind of value", "a number over 0"
        if seconds_of("timeoutMs", value) is not None:
            why = "seconds for some clients, and milliseconds for others"
            allowed = f"call_s in [mcp.{toml_key(str(self._path[1]))}], in seconds"
        self._problems.append(Problem((*self._path, key), why, allowed=allowed))

    def _env_file(self, given: Table) -> str | None:
        named = given.get("envFile")
        if named is None or (isinstance(named, str) and named):
            return cast("str | None", self._rewritten(named))
        self._problems.append(Problem((*self._path, "envFile"), "wrong kind of value", allowed="the path of a file"))
        return None

    def _rewritten(self, value: object) -> object:
        """A value with its texts as the configuration writes them; in these files a dollar alone is a dollar."""
        if isinstance(value, str):
            return _VARIABLE.sub(self._variable, value)
        if isinstance(value, list):
            return [self._rewritten(item) for item in cast("list[object]", value)]
        if isinstance(value, dict):
            return {key: self._rewritten(item) for key, item in cast("Table", value).items() if item is not None}
        return value

    def _variable(self, found: re.Match[str]) -> str:
        if found["input"] is not None:
            # Editors ask a person for it; a daemon takes it from its environment.
            return f"${{INPUT_{re.sub(r'[^A-Za-z0-9]', '_', found['input']).upper()}}}"
        if found["body"] is None:
            # Broken variables are told of where variables are expanded. An editor's command is one: it is no program.
            if found.string.startswith("command:", found.end()):
                return "${}"
            return self._of_dialect(found)
        workspace = self._places.workspace
        known = {
            "workspaceFolder": str(workspace),
            "workspaceFolderBasename": workspace.name,
            "pathSeparator": "/",
        }
        if found.group() == "${userHome}":
            return "${HOME}"
        name = found["body"].partition(":-")[0]
        if name in self._env:
            return self._env[name]
        text = known.get(found["body"]) if not found.group().startswith("${env:") else None
        return f"${{{found['body']}}}" if text is None else text.replace("$", "$$")

    def _of_dialect(self, found: re.Match[str]) -> str:
        """A sign that is a variable for some clients, and itself for all others."""
        text = found.group()
        if found["secret"] is not None:
            return f"${{{found['secret']}}}"
        kind = next((key for key in ("bare", "braced", "percent") if found[key] is not None), None)
        if kind is None:
            return {"${": "${", "${/}": "/", "$${": "$${"}.get(text, "$$")
        name = found[kind]
        if kind not in self._dialect:
            self._literal.setdefault(_SHOWN[kind])
            return text.replace("$", "$$")
        if kind == "braced":
            return f"${{{name[5:-1]}}}" if name.startswith("{env:") else f"${name}"
        # Without such a variable these clients leave the text alone; it may be a part of a password, and is not shown.
        return self._env.get(name, f"${{{name}:-{text}}}")


def rewritten_request(entry: object) -> object:
    """A request of such a file, its texts as the configuration writes them; null is the same as left out."""
    if not isinstance(entry, dict):
        return entry
    given = {key: value for key, value in cast("Table", entry).items() if value is not None}
    texts = {key: _with_dollars(given[key]) for key in ("url", "headers", "bodyTemplate") if key in given}
    method = given.get("method")
    return given | texts | ({"method": method.upper()} if isinstance(method, str) else {})


def _with_dollars(value: object) -> object:
    """A value with a dollar that begins no variable as two: in these files it is itself."""
    if isinstance(value, str):
        return _DOLLAR.sub("$$", value)
    if isinstance(value, list):
        return [_with_dollars(item) for item in cast("list[object]", value)]
    return (
        {key: _with_dollars(item) for key, item in cast("Table", value).items()} if isinstance(value, dict) else value
    )


def seconds_of(key: str, value: object) -> float | None:
    """The seconds that a time-out of another client means; None where it means none, or could mean two things.

    A `timeout` is in seconds for some clients (Cline, Roo Code: up to an hour) and in milliseconds for others (Claude
    Code, Gemini, Copilot, LibreChat), any other key in milliseconds.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        return None
    if key == "tool_timeout_sec":
        return value
    if key != "timeout" or value > _MOST_S:
        return value / 1_000
    return value if value < _LEAST_MS else None


def size_of(value: object) -> int | None:
    """The bytes of an answer that a model should get; None where that is no such number."""
    return value if isinstance(value, int) and value >= LEAST_OUTPUT else None


def _combined(key: str, one: list[object], other: list[object]) -> list[object]:
    """What two lists of tools allow, or deny, together."""
    return [each for each in one if each in other] if key == "tools" else [*one, *(x for x in other if x not in one)]


def toml_key(name: str) -> str:
    """A binding's name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def listed(keys: list[str]) -> str:
    """The first five: a client's own settings may be many."""
    return ", ".join(map(quoted, keys[:5])) + (", …" if len(keys) > 5 else "")


def quoted(name: str) -> str:
    """A name of a file as it may be shown: in one line, and not endless."""
    text = json.dumps(name)
    return text if len(text) <= 60 else f'{text[:60]}…"'
