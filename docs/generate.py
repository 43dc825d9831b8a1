"""Write what follows from the registry of the protocol and from the Structs: `python -m docs.generate`.

From `protocol/registry/`: the tables in `protocol/core.md`, the JSON Schemas in `protocol/schema/1/`, and the enums of
`wire/faults.py`; with the texts of `tooldispatchd explain` the pages of `docs/faults.md`. From the Structs of the
configuration: its JSON Schema. A table stands between two comments, the first of which names it, and so do the enums.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from tooldispatchd.catalog.specs import Config
from tooldispatchd.cli.faultpages import markdown, read_pages

ROOT: Final = Path(__file__).parent.parent
PROTOCOL: Final = ROOT / "protocol"
CORE: Final = PROTOCOL / "core.md"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FAULT_PAGES: Final = """\
# Faults

Every fault code: its cause, and who can do what about it. `tooldispatchd explain CODE` shows the same on a terminal,
and explains a fault that is pasted as it was seen. [The protocol](../protocol/core.md#6-faults) says what a fault is.
`make protocol` writes this file, of `tooldispatchd/cli/faults.toml` and `protocol/registry/faults.json`.

"""
TABLE: Final = re.compile(r"(<!-- table of ([\w: ]+) -->\n).*?(<!-- end of table -->\n)", re.DOTALL)
FAULTS: Final = ROOT / "tooldispatchd" / "wire" / "faults.py"
WRITTEN: Final = re.compile(r"(# --- written from .*? ---\n).*?(# --- end of what is written ---\n)", re.DOTALL)
# Explained in one sentence for all messages that have them.
EVERYWHERE: Final = frozenset({"id", "agent"})

Row = dict[str, Any]


def registry(name: str) -> Row:
    """One file of the registry."""
    content: Row = json.loads((PROTOCOL / "registry" / f"{name}.json").read_text(encoding="utf-8"))
    return content


def generated() -> dict[Path, str]:
    """The content of each file that is generated, or has generated tables, by its path."""
    ports, faults = registry("ports"), registry("faults")
    schemas = {
        "agent": agent_schema(ports),
        "daemon": daemon_schema(ports, faults),
        "fault": fault_schema(faults),
        "job": job_schema(),
        "transcript": transcript_schema(),
    }
    files = {PROTOCOL / "schema" / "1" / f"{name}.schema.json": _pretty(schema) for name, schema in schemas.items()}
    configuration = {
        "$schema": DIALECT,
        "title": "A configuration, read as TOML",
        **msgspec.json.schema(Config, schema_hook=lambda _kind: {"description": "any JSON"}),
    }
    files[ROOT / "docs" / "configuration.schema.json"] = _pretty(configuration)
    tables = {
        "ports: core": ports_table(ports["ports"]),
        "fields: core": fields_table(ports["ports"]),
        "categories": _table(
            ("category", "meaning"), ((f"`{name}`", text) for name, text in faults["categories"].items())
        ),
        "faults": faults_table(faults["faults"]),
    }
    enums = fault_enums(faults)
    files[FAULTS] = WRITTEN.sub(lambda found: found[1] + enums + found[2], FAULTS.read_text(encoding="utf-8"))
    files[CORE] = TABLE.sub(lambda found: found[1] + tables[found[2]] + found[3], CORE.read_text(encoding="utf-8"))
    files[ROOT / "docs" / "faults.md"] = FAULT_PAGES + "\n".join(markdown(read_pages()))
    return files


# --- tables ---


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def ports_table(ports: list[Row]) -> str:
    """Every port, those of extensions too: which of them a daemon knows its capabilities say."""
    rows = ((f"`{port['port']}`", port["from"], port["level"], port["about"], port.get("answer", "")) for port in ports)
    return _table(("port", "from", "level", "meaning", "answered by"), rows)


def fields_table(ports: list[Row]) -> str:
    """The fields of the core, without those that every message may have."""
    rows = (
        (
            f"`{port['port']}`, {port['from']}",
            f"`{field['name']}`{_mark(field)}",
            _type(field["schema"]),
            field["about"],
        )
        for port in ports
        if port["level"] == "core"
        for field in port["fields"]
        if field["name"] not in EVERYWHERE and field.get("level", "core") == "core"
    )
    return _table(("message", "field", "type", "meaning"), rows)


def _mark(field: Row) -> str:
    return "" if field.get("required") else "?"


def _type(schema: Row) -> str:
    match schema:
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"type": "array", "items": {"type": str(of)}}:
            return f"list of {of}s"
        case {"type": "array"}:
            return "list of tools"
        case {"type": "object"} | {"$ref": _}:
            return "object"
        case {"type": str(of)}:
            return of
    return "any JSON"


def faults_table(faults: list[Row]) -> str:
    """Every code."""
    rows = (
        (f"`{fault['code']}`", fault["category"], fault["retry"], fault["when"] + _reserved(fault), _extras(fault))
        for fault in faults
    )
    return _table(("code", "category", "retry", "when", "extras"), rows)


def _reserved(fault: Row) -> str:
    return " (never sent yet)" if fault.get("reserved") else ""


def _extras(fault: Row) -> str:
    always = [f"`{name}`" for name in fault.get("extras", ())]
    return ", ".join([*always, *(f"`{name}`?" for name in fault.get("optional", ()))])


# --- enums ---


def fault_enums(faults: Row) -> str:
    """Categories and codes, and which code is of which category and may pass."""
    rows = faults["faults"]
    parts = (
        'class Category(StrEnum):\n    """What can be done about a fault."""\n',
        *(f'    {name.upper()} = "{name}"' for name in faults["categories"]),
        '\n\nclass Code(StrEnum):\n    """Every fault code of the protocol; none is ever removed."""\n',
        *(f'    {row["code"].upper()} = "{row["code"]}"' for row in rows),
        "\n\nCATEGORY: Final[dict[Code, Category]] = {",
        *(f"    Code.{row['code'].upper()}: Category.{row['category'].upper()}," for row in rows),
        "}\n# Codes after which the same call may succeed, if nothing of it has run.",
        "LATER: Final = frozenset(\n    {",
        *(f"        Code.{row['code'].upper()}," for row in rows if row["retry"] == "later"),
        "    }\n)\n",
    )
    return "\n".join(parts)


# --- schemas ---


def _schema(name: str, about: str, **rest: object) -> Row:
    return {"$schema": DIALECT, "$id": f"urn:tooldispatchd:protocol:1:{name}", "title": about, **rest}


def _object(port: Row, *, is_tagged: bool = True) -> Row:
    """The lines of one port."""
    # Null is the same as left out, but where it may be a value.
    is_from_agent = port["from"] == "agent"
    fields = {
        field["name"]: _nullable(field["schema"]) if is_from_agent and not field.get("required") else field["schema"]
        for field in port["fields"]
    }
    required = [field["name"] for field in port["fields"] if field.get("required")]
    if is_tagged:
        fields = {"__port": {"const": port["port"]}, **fields}
        required = ["__port", *required]
    return {"title": port["port"], "type": "object", "properties": fields, "required": required, **port.get("also", {})}


def _in_each_form(port: Row, **beside: Row) -> tuple[Row, Row, Row]:
    """A request or its answer: plain, nested, with what may stand `beside` its `msg`, and short."""
    plain, short = _object(port), _object(port, is_tagged=False)
    nested = {
        "title": f"{port['port']}, nested",
        "type": "object",
        "properties": {"__port": {"const": port["port"]}, "msg": short, **beside},
        "required": ["__port", "msg"],
    }
    return plain, nested, short | {"title": f"{port['port']}, short", "not": {"required": ["__port"]}}


def _nullable(schema: Row) -> Row:
    return schema if not schema or "$ref" in schema else {"anyOf": [schema, {"type": "null"}]}


def agent_schema(ports: Row) -> Row:
    """What an agent may send: by its port, or in the short or the nested form."""
    kinds = [port for port in ports["ports"] if port["from"] == "agent"]
    [request] = (port for port in kinds if port["port"] == "tool_req")
    plain, nested, short = _in_each_form(request, agent=_object(request)["properties"]["agent"])
    private = {
        "title": "a private port",
        "type": "object",
        "properties": {"__port": {"type": "string", "pattern": "/"}},
        "required": ["__port"],
    }
    others = [_object(port) for port in kinds if port is not request]
    has_msg = {"required": ["msg"], "properties": {"msg": {"type": "object"}}}
    lines = [*others, plain | {"not": has_msg}, nested, short, private]
    about = (
        "A line from an agent. Lengths are in characters here; the protocol counts bytes in UTF-8, which are no fewer."
    )
    return _schema("agent", "A line from an agent", description=about, oneOf=lines, **{"$defs": ports["definitions"]})


def daemon_schema(ports: Row, faults: Row) -> Row:
    """What the daemon may send."""
    kinds = [port for port in ports["ports"] if port["from"] == "daemon"]
    [answer] = (port for port in kinds if port["port"] == "tool_resp")
    lines = [
        *(_object(port) for port in kinds if port["port"] not in {"tool_resp", "fault"}),
        *_in_each_form(answer),
        _object(next(port for port in kinds if port["port"] == "fault")) | {"$ref": "#/$defs/fault"},
    ]
    definitions = {**ports["definitions"], "fault": _any_fault(faults)}
    return _schema("daemon", "A line from the daemon", oneOf=lines, **{"$defs": definitions})


def fault_schema(faults: Row) -> Row:
    """A fault, by its code: what `content` holds where `fault` is true."""
    return _schema("fault", "A fault", **_any_fault(faults))


def _any_fault(faults: Row) -> Row:
    """The fields of every fault, and what each known code demands beside them."""
    kinds = faults["extras"]
    rules = [
        {
            "if": {"properties": {"error": {"const": fault["code"]}}},
            "then": {
                "properties": {
                    "category": {"const": fault["category"]},
                    **{name: kinds[name] for name in (*fault.get("extras", ()), *fault.get("optional", ()))},
                },
                "required": fault.get("extras", []),
            },
        }
        for fault in faults["faults"]
    ]
    return {
        "type": "object",
        "properties": {
            "error": {"type": "string"},
            "category": {"enum": list(faults["categories"])},
            "detail": {"type": "string", "minLength": 1},
            "ran": kinds["ran"],
        },
        "required": ["error", "category", "detail"],
        "allOf": rules,
    }


def job_schema() -> Row:
    """A job as its tools give it."""
    text, number, flag = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
    fields = {
        "job": text,
        "name": text,
        "state": {"enum": ["running", "done"]},
        "progress": number,
        "total": number,
        "message": text,
        "is_error": flag,
        "fault": {"const": True},
        "content": text,
        "is_read": flag,
    }
    done = {"if": {"properties": {"state": {"const": "done"}}}, "then": {"required": ["is_error"]}}
    required = ["job", "name", "state"]
    return _schema("job", "A job", type="object", properties=fields, required=required, **done)


def transcript_schema() -> Row:
    """One line of a transcript: its head, or a step."""
    text, number, line = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "object"}
    texts = {"type": "array", "items": text}
    head = {
        "title": "the head",
        "type": "object",
        "properties": {
            "about": {"type": "string", "pattern": r"\.$"},
            "level": text,
            "since": {"enum": ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"]},
            "fixtures": text,
            "musts": {"type": "array", "items": {"type": "string", "pattern": "^M[1-9][0-9]*$"}},
            "needs": texts,
        },
        "required": ["about", "level", "since", "fixtures"],
        "additionalProperties": False,
    }
    repeat = {"before": text, "text": text, "times": number, "after": text}
    steps: dict[str, Row] = {
        "agent": line,
        "agent_text": text,
        "agent_base64": text,
        "agent_repeat": {"type": "object", "properties": repeat, "required": ["text", "times"]},
        "daemon": line,
        "daemon_any_order": {"type": "array", "items": line},
        "daemon_repeat": {
            "type": "object",
            "properties": {"line": line, "times": number},
            "required": ["line", "times"],
        },
        "silence_ms": number,
        "agent_reads": {"type": "boolean"},
        "agent_ends": {"enum": ["input", "gone"]},
        "daemon_ends": {"const": True},
        "daemon_drains": {"const": True},
        **dict.fromkeys(("daemon_asks", "daemon_withdraws", "daemon_changes_tools"), line),
        "daemon_is_told": {"type": ["object", "null"]},
    }
    kinds = [
        {
            "title": name,
            "type": "object",
            "properties": {name: value, "channel": text, "within_ms": number},
            "required": [name],
            "additionalProperties": False,
        }
        for name, value in steps.items()
    ]
    return _schema("transcript", "One line of a transcript", oneOf=[head, *kinds])


def _pretty(schema: Row) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
