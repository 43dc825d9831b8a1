"""Requests as netdata's ai-agent writes them, `[restTools.NAME]` or `restTools` of a file, as tools with `rest`.

From here on they are tools like any other: each has the keys that its author could have written.
"""

from typing import Final, cast

from tooldispatchd.catalog.caching import OFF
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.rest.placeholders import BEGIN, lone_slot, parse_parts
from tooldispatchd.config.key_patterns import Table
from tooldispatchd.config.made_tools import MadeTools

SECTION: Final = "restTools"
# Where each key stands in the tool's table.
_PLACES: Final[dict[str, Path]] = {
    "description": ("description",),
    "parametersSchema": ("input_schema",),
    "queue": ("queue",),
    **{key: ("rest", key) for key in ("method", "url", "headers")},
    "queryParamNames": ("rest", "query"),
    "streaming": ("rest", "stream"),
    "cache": ("cache",),
}
# The queue of requests that name none.
_QUEUE: Final = "default"
_JSON: Final = "application/json"


def take_requests(table: Table) -> MadeTools:
    """Write each request of a table that is well formed out as a tool, in place."""
    places: dict[Path, Path] = {}
    problems: list[Problem] = []
    tools = cast("Table", table.setdefault("tools", {}))
    for name, given in cast("dict[str, Table]", table.pop(SECTION)).items():
        path: Path = (SECTION, name)
        if name in tools:
            problems.append(Problem(path, f"a tool {name} is declared already"))
            continue
        tool, body_key = _tool(name, given)
        queue = given.get("queue", _QUEUE)
        is_named = queue != _QUEUE or queue in cast("Table", table.get("queues", {}))
        tools[name] = {**tool, "queue": queue} if is_named else tool
        places["tools", name] = path
        for key, place in (*_PLACES.items(), ("bodyTemplate", ("rest", body_key))):
            if key in given:
                places["tools", name, *place] = (*path, key)
    return MadeTools(places, tuple(problems))


def _tool(name: str, given: Table) -> tuple[Table, str]:
    """The table of a tool, and under which key of its request the body stands."""
    request: Table = {key: given[key] for key in ("method", "url", "headers") if key in given}
    body, body_key = given.get("bodyTemplate"), "body"
    if isinstance(body, str) and lone_slot(parse_parts(body)) is None:
        body_key = "text"
        request["content_type"] = _JSON
    if body is not None:
        request[body_key] = body
    if given.get("hasComplexQueryParams"):
        names = cast("list[str]", given.get("queryParamNames", []))
        request["query"] = {name: f"{BEGIN}{name}}}" for name in names}
        request["styles"] = dict.fromkeys(names, "brackets")
    tool: Table = {
        "description": given.get("description", ""),
        # As it is called there.
        "aliases": [f"rest__{name}"],
        "input_schema": {"type": "object", **cast("Table", given.get("parametersSchema", {}))},
        "rest": request,
    }
    streaming = given.get("streaming")
    if given.get("cache", OFF) not in {OFF, 0}:
        # Whoever lets its answers be given again says that it changes nothing, also where it is a POST.
        tool |= {"cache": given["cache"], "read_only": True}
    if isinstance(streaming, dict):
        request["stream"] = {"format": "json-lines"} | {
            _snake(key): value for key, value in streaming.items() if key not in {"mode", "timeoutMs"}
        }
        if "timeoutMs" in streaming:
            tool["call_s"] = streaming["timeoutMs"] / 1_000
    return tool, body_key


def _snake(key: str) -> str:
    """`linePrefix` as `line_prefix`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
