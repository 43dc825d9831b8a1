"""The registry of the protocol is what the code does, and what the documents and schemas are written from."""

import json
import re
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest

from docs.generate import generated, registry
from tooldispatchd.wire import messages
from tooldispatchd.wire.opening import OpeningLine

PROTOCOL: Final = Path(__file__).parent.parent / "protocol"
SCHEMAS: Final = {path.name.partition(".")[0]: path for path in (PROTOCOL / "schema" / "1").glob("*.schema.json")}
# Each port and direction, and the Struct of it.
STRUCTS: Final[dict[tuple[str, str], type[msgspec.Struct]]] = {
    ("hello", "agent"): messages.Hello,
    ("ready", "daemon"): messages.ReadyLine,
    ("tool_req", "agent"): messages.ToolReq,
    ("tool_resp", "daemon"): messages.ToolResp,
    ("tool_cancel", "agent"): messages.ToolCancel,
    ("tool_background", "agent"): messages.ToolBackground,
    ("event", "daemon"): messages.EventLine,
    ("parse", "agent"): messages.Parse,
    ("parsed", "daemon"): messages.Parsed,
    ("tool_update", "daemon"): messages.ToolUpdate,
    ("tools", "agent"): messages.ToolsReq,
    ("select", "agent"): messages.Select,
    ("opening", "daemon"): OpeningLine,
    ("tools", "daemon"): messages.ToolsLine,
    ("tools_changed", "daemon"): messages.ToolsChangedLine,
    ("approve_req", "daemon"): messages.ApproveReq,
    ("approve_resp", "agent"): messages.ApproveResp,
    ("ask", "daemon"): messages.Ask,
    ("ask_resp", "agent"): messages.AskResp,
    ("server_note", "daemon"): messages.ServerNote,
    ("admin_req", "agent"): messages.AdminReq,
    ("admin_resp", "daemon"): messages.AdminResp,
    ("admin_note", "daemon"): messages.AdminNote,
    ("ping", "agent"): messages.Ping,
    ("pong", "daemon"): messages.Pong,
    ("bye", "agent"): messages.ByeSaid,
    ("bye", "daemon"): messages.Bye,
}
# A fault is a dict in the code; nothing of an agent's pong is read.
WITHOUT_STRUCT: Final = {("fault", "daemon"), ("pong", "agent")}


def ports() -> dict[tuple[str, str], dict[str, Any]]:
    return {(port["port"], port["from"]): port for port in registry("ports")["ports"]}


def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(SCHEMAS[name].read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", sorted(generated()), ids=lambda path: path.name)
def test_what_is_generated_is_as_the_registry_and_the_structs_say(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated()[path]


def test_every_port_of_the_registry_has_its_struct() -> None:
    assert set(ports()) == set(STRUCTS) | WITHOUT_STRUCT


@pytest.mark.parametrize("key", sorted(STRUCTS), ids="-".join)
def test_a_struct_has_the_fields_of_its_port(key: tuple[str, str]) -> None:
    fields = {field["name"]: field.get("required", False) for field in ports()[key]["fields"]}
    assert {field.encode_name: field.required for field in msgspec.structs.fields(STRUCTS[key])} == fields


def test_levels_are_documents() -> None:
    documents = {path.stem for path in (PROTOCOL / "extensions").glob("*.md")} | {"core", "product"}
    rows = [*registry("ports")["ports"], *registry("faults")["faults"], *registry("capabilities")["capabilities"]]
    levels = {row["level"] for row in rows}
    levels |= {field.get("level", "core") for port in registry("ports")["ports"] for field in port["fields"]}
    assert levels <= documents


@pytest.mark.parametrize("path", sorted((PROTOCOL / "transcripts").glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_transcript_is_as_its_schema_says(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").strip("\n").split("\n")]
    assert [line for line in lines if not validator("transcript").is_valid(line)] == []


def test_fixtures_have_the_behaviours_of_the_registry_and_show_each() -> None:
    behaviours = {each["name"]: set(each["parameters"]) for each in registry("behaviours")["behaviours"]}
    sets = [json.loads(path.read_text(encoding="utf-8")) for path in (PROTOCOL / "fixtures").glob("*.json")]
    tools = [fixtures["tools"] for fixtures in sets]
    tools += [server.get("tools", {}) for fixtures in sets for server in fixtures.get("servers", {}).values()]
    used = [tool["behaviour"] for each in tools for tool in each.values()]
    assert {each["name"] for each in used} == set(behaviours)
    assert [each for each in used if not each.keys() - {"name"} <= behaviours[each["name"]]] == []


def test_the_core_is_small_and_so_is_each_extension() -> None:
    assert (PROTOCOL / "core.md").read_text(encoding="utf-8").count("\n") <= 350
    lengths = {path.stem: path.read_text("utf-8").count("\n") for path in (PROTOCOL / "extensions").glob("*.md")}
    assert {name: lines for name, lines in lengths.items() if not 40 <= lines <= 120} == {}


def test_every_fault_in_the_documents_has_the_fields_that_its_code_demands() -> None:
    fault = validator("fault")
    texts = [path.read_text(encoding="utf-8") for path in PROTOCOL.rglob("*.md")]
    contents = [json.loads(found) for text in texts for found in re.findall(r'"content":("\{\\"error.*?\}")', text)]
    faults = [json.loads(content) for content in contents]
    assert faults
    assert [seen for seen in faults if not fault.is_valid(seen)] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("agent", {"__port": "dance", "id": "1", "name": "echo"}),
        ("agent", {"__port": "hello", "id": ""}),
        ("agent", {"__port": "hello", "agent": 5}),
        ("agent", {"__port": "tool_req", "id": "1"}),
        ("agent", {"id": "1", "name": "echo", "deadline_ms": 0}),
        ("agent", {"__port": "hello", "spec": {"frob": 1}}),
        ("agent", {"__port": "tool_resp", "id": "1", "content": "", "is_error": False}),
        ("daemon", {"__port": "fault", "error": "draining", "category": "unavailable", "detail": "why"}),
        ("daemon", {"__port": "fault", "error": "draining", "category": "invalid", "detail": "why", "line": 1}),
        ("daemon", {"__port": "tool_resp", "id": "1", "content": {}, "is_error": False}),
        ("daemon", {"__port": "tool_req", "id": "1", "name": "echo"}),
        ("fault", {"error": "too_many", "category": "unavailable", "detail": "why", "what": "sessions"}),
        ("fault", {"error": "unsupported_version", "category": "invalid", "detail": "why", "supported": "1"}),
        ("job", {"job": "job-1", "name": "echo", "state": "done"}),
    ],
)
def test_a_schema_refuses_what_the_protocol_has_not(name: str, line: object) -> None:
    assert not validator(name).is_valid(line)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("agent", {"__port": "example.com/thing", "any": 1}),
        ("agent", {"__port": "ping", "t": None, "more": 1}),
        ("agent", {"id": "1", "name": "echo", "input": None, "agent": None, "deadline_ms": None}),
        ("agent", {"__port": "tool_req", "msg": {"id": "1", "name": "echo"}, "agent": "a"}),
        ("agent", {"__port": "hello", "protocol": [1, 2], "capabilities": ["value", "example.com/x"]}),
        ("daemon", {"__port": "fault", "error": "draining", "category": "unavailable", "detail": "why", "line": 0}),
        ("daemon", {"__port": "fault", "error": "new_code", "category": "denied", "detail": "why", "line": 3, "x": 1}),
        ("daemon", {"__port": "tool_resp", "id": "1", "content": "1", "is_error": False, "value": 1}),
        ("fault", {"error": "draining", "category": "unavailable", "detail": "why", "ran": "no"}),
        ("job", {"job": "job-1", "name": "echo", "state": "running", "progress": 0.5}),
    ],
)
def test_a_schema_takes_what_the_protocol_has(name: str, line: object) -> None:
    assert validator(name).is_valid(line)
