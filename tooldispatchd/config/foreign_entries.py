"""An entry of any known MCP client, in the keys that most of them have. Pure.

Values are not checked here: what has another shape than a rule below expects stays as it is, and is told of later.
"""

import re
from typing import Final, cast

from tooldispatchd.config.key_patterns import Table

# Windsurf, Gemini and Qwen, Cherry Studio, goose, opencode, Codex.
RENAMED: Final = {
    "serverUrl": "url",
    "httpUrl": "url",
    "baseUrl": "url",
    "uri": "url",
    "cmd": "command",
    "environment": "env",
    "envs": "env",
    "http_headers": "headers",
}
# Tables whose keys are the entry's own: Claude Code's older form, Continue.
_NESTED: Final = ("transport", "requestOptions", "requestInit")
# Say nothing of what a server may do: Gemini's `trust` asks nobody, and goose lists what it brings itself.
_IDLE: Final = frozenset({"trust", "bundled"})
# Of every request: the transport sets them, to what the protocol says.
_SET_ANYWAY: Final = frozenset({"accept", "content-type"})


def plain_entry(entry: Table) -> Table:
    """Write an entry with the keys that most clients have; null is the same as a key left out."""
    given = {key: value for key, value in entry.items() if value is not None and key not in _IDLE}
    _flatten(given)
    if "httpUrl" in given:
        given.setdefault("type", "streamable-http")
    for theirs, ours in RENAMED.items():
        if theirs in given and (value := given.pop(theirs)) != "":
            given.setdefault(ours, value)
    _split_command(given)
    _add_named_variables(given)
    if given.get("available_tools") == []:
        # For goose, which alone has this key, all tools.
        del given["available_tools"]
    for way in ("command", "url"):
        # Some clients write both and leave one empty; where both are full, the type says which counts.
        other = "url" if way == "command" else "command"
        if other in given and (given.get(way) == "" or (way in given and _way_of(given.get("type")) == other)):
            del given[way]
    for key in ("env", "headers"):
        if isinstance(given.get(key), dict):
            texts = {name: as_text(value) for name, value in cast("Table", given[key]).items()}
            given[key] = {name: text for name, text in texts.items() if key == "env" or name.lower() not in _SET_ANYWAY}
    if isinstance(given.get("args"), list):
        given["args"] = list(map(as_text, cast("list[object]", given["args"])))
    return given


def as_text(value: object) -> object:
    """Write a number or a boolean as JSON does; anything else stays."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def type_word(kind: object) -> str:
    """Reduce a type to its letters: `streamable_http` and `streamableHttp` are one."""
    return re.sub(r"[^a-z]", "", str(kind).lower())


def _way_of(kind: object) -> str | None:
    if kind is None:
        return None
    return "command" if type_word(kind) in {"stdio", "local"} else "url"


def _flatten(given: Table) -> None:
    if isinstance(given.get("transport"), str):
        given.setdefault("type", given.pop("transport"))
        given.pop("transport", None)
    for key in _NESTED:
        inner = given.get(key)
        if isinstance(inner, dict) and (key == "transport" or inner.keys() <= {"headers"}):
            del given[key]
            for name, value in cast("Table", inner).items():
                if value is not None:
                    given.setdefault(name, value)


def _split_command(given: Table) -> None:
    """Take apart a command that is a list with its arguments (opencode), or a table (older versions of Zed)."""
    command = given.get("command")
    if isinstance(command, list) and command and "args" not in given:
        given["command"], given["args"] = command[0], command[1:]
    elif isinstance(command, dict) and "path" in command:
        del given["command"]
        given.update({key: value for key, value in cast("Table", command).items() if value is not None})
        given["command"] = given.pop("path")


def _add_named_variables(given: Table) -> None:
    """Add what is taken from the environment by names alone: `env_vars`, `env_keys`, and Codex's for headers."""
    for key in ("env_vars", "env_keys"):
        names = given.get(key)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            del given[key]
            own = given.get("env", {})
            if names and isinstance(own, dict):
                given["env"] = {str(name): f"${{{name}}}" for name in names} | cast("Table", own)
    named = given.pop("env_http_headers", {})
    wanted = {name: f"${{{each}}}" for name, each in cast("Table", named).items()} if isinstance(named, dict) else {}
    token = given.pop("bearer_token_env_var", None)
    if isinstance(token, str) and token:
        wanted["Authorization"] = f"Bearer ${{{token}}}"
    headers = given.get("headers", {})
    if wanted and isinstance(headers, dict):
        given["headers"] = wanted | cast("Table", headers)
