"""Write each set of fixtures as a configuration of tooldispatchd: `python -m docs.render`.

`protocol/fixtures/NAME.json` says what its tools take, give and do, in terms of the protocol; `NAME.toml` beside it is
the same for this daemon. What no declared tool can do here is done by an MCP server, the script `behaviours.py`.
"""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

FIXTURES: Final = Path(__file__).parent.parent / "protocol" / "fixtures"
TRACE: Final = """cat >/dev/null; printf '"%s"' "$TRACEPARENT\""""
# What only a server can do: it asks, and says that its tools have changed.
SERVED: Final = frozenset({"ask", "own_error", "change_tools"})
DECLARABLE: Final = re.compile(r"(?!.*__)[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*")

Tool = dict[str, object]


def renderings() -> dict[str, str]:
    """The content of each configuration, by its file's name."""
    sets = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FIXTURES.glob("*.json"))}
    return {f"{path.stem}.toml": rendering(path.name, fixtures) for path, fixtures in sets.items()}


def rendering(file: str, fixtures: dict[str, dict[str, Tool]]) -> str:
    """One set of fixtures as a configuration."""
    tools = fixtures["tools"]
    served = [name for name, tool in tools.items() if is_served(name, tools)]
    parts = [f"# Made of {file} by `make protocol`. {fixtures['about']}\n"]
    if "limits" in fixtures:
        parts.append("[limits]\n" + "".join(f"{name} = {value}\n" for name, value in fixtures["limits"].items()))
    parts += [_tool(name, tool) for name, tool in tools.items() if name not in served]
    parts += [_server(name, server) for name, server in fixtures.get("servers", {}).items()]
    if served:
        parts.append(
            f'[mcp.behaviours]\ncommand = "python3"\nargs = ["behaviours.py", "{file}"]\ncwd = "."\nprefix = ""\n'
        )
    parts += [_profile(name, profile, served) for name, profile in fixtures["profiles"].items()]
    return "\n".join(parts)


def is_served(name: str, tools: dict[str, Tool]) -> bool:
    """Whether this tool must be a server's."""
    changed = {one.get("tool") for one in map(behaviour, tools.values())}
    is_declarable = all(DECLARABLE.fullmatch(one) for one in tools)
    return behaviour(tools[name])["name"] in SERVED or name in changed or not is_declarable


def behaviour(tool: Tool) -> dict[str, object]:
    """What the tool does, and its parameters."""
    said = tool["behaviour"]
    assert isinstance(said, dict)
    return said


def _tool(name: str, tool: Tool) -> str:
    types = f"{type_text(tool['input'])} -> {type_text(tool['output'])}"
    does = behaviour(tool)
    lines = [f"[tools.{name if name.isidentifier() or '.' not in name else text(name)}]", f"type = {text(types)}"]
    lines.append(BEHAVIOURS[str(does["name"])](does))
    if "limit_ms" in tool:
        lines.append(f"call_s = {int(str(tool['limit_ms'])) / 1000}")
    lines += [
        f"{key} = {text(tool[key])}"
        for key in ("title", "description", "hint", "doc", "tags", "overflow")
        if key in tool
    ]
    return "\n".join(lines) + "\n"


def _server(name: str, server: Tool) -> str:
    """A server, which the script `greeter.sh` is, or a program that is nowhere."""
    runs = 'command = "sh"\nargs = ["greeter.sh"]\ncwd = "."'
    lines = [f"[mcp.{name}]", runs if server.get("starts", True) else 'command = "./no-such-program"']
    lines += [] if server.get("passes", True) else ["mcp_resources = false"]
    lines += ["shared = true"] if "shared" in server else []
    return "\n".join(lines) + "\n"


def _profile(name: str, profile: Tool, served: list[str]) -> str:
    wanted = profile["tools"]
    assert isinstance(wanted, list)
    lines = [f"[agents.{name}]", f"tools = {text([one for one in wanted if one not in served])}"]
    lines += ['mcp = ["behaviours"]'] if any(one in served for one in wanted) else []
    lines += [f"mcp = {text(profile['servers'])}"] if "servers" in profile else []
    lines += ['workspaces = ["./"]'] if "workspace" in profile else []
    keys = ("jobs", "token", "admin", "catalog", "max_output", "budget", "turn_budget")
    lines += [f"{key} = {text(profile[key])}" for key in keys if key in profile]
    return "\n".join(lines) + "\n"


def text(value: object) -> str:
    """A value in TOML, which has strings, lists, numbers and booleans in common with JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {text(one)}' for key, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def type_text(schema: object) -> str:
    """The type that a schema of the fixtures states."""
    match schema:
        case {"type": "array", "prefixItems": list(items)}:
            return f"({', '.join(map(type_text, items))})"
        case {"type": "object", "properties": dict(properties), **more}:
            required = more.get("required", [])
            assert isinstance(required, list)
            fields = [f"{name}{'' if name in required else '?'}: {type_text(one)}" for name, one in properties.items()]
            return f"{{{', '.join(fields)}}}"
        case {"type": str(kind), **more} if not more:
            return {"null": "unit", "integer": "int", "boolean": "bool"}.get(kind, kind)
        case {}:
            return "json"
    raise ValueError(f"there is no type for {schema}")


def _program(*words: str) -> str:
    return f"command = {text(list(words))}"


def _shell(line: str) -> str:
    return _program("sh", "-c", line)


def _fail(_does: dict[str, object]) -> str:
    return _shell("echo broken >&2; exit 3")


def _update(does: dict[str, object]) -> str:
    said = {"__port": "tool_update", **{key: value for key, value in does.items() if key != "name"}}
    return _shell(f'[ -z "$TOOLDISPATCHD_UPDATES_FD" ] || echo {shlex.quote(json.dumps(said))} >&3; cat')


BEHAVIOURS: Final[dict[str, Callable[[dict[str, object]], str]]] = {
    "give_back": lambda _: 'inline = "id"',
    "twice": lambda _: 'inline = "copy"',
    "discard": lambda _: 'inline = "discard"',
    "double": lambda _: 'map = "input * 2"',
    "upper": lambda _: _program("tr", "a-z", "A-Z") + '\ninput_mode = "text"\noutput_mode = "text"',
    "never": lambda _: _program("sleep", "1000"),
    "after_ms": lambda does: _shell(f"sleep {int(str(does['ms'])) / 1000}; cat"),
    "fail": _fail,
    "wrong_output": lambda does: _shell(f"cat >/dev/null; echo {shlex.quote(json.dumps(does['gives']))}"),
    "update": _update,
    "trace": lambda _: _shell(TRACE),
}


if __name__ == "__main__":
    for file, content in renderings().items():
        (FIXTURES / file).write_text(content, encoding="utf-8")
