"""Write the JSON Schemas of this directory from the Structs: `python -m protocol.generate`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from protocol.forms import FORMS
from tooldispatchd.catalog.specs import Config
from tooldispatchd.wire import messages

HERE: Final = Path(__file__).parent
REF: Final = "#/$defs/{name}"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

FROM_AGENT: Final = (
    messages.Hello,
    messages.ToolReq,
    messages.NestedReq,
    messages.ShortReq,
    messages.ToolCancel,
    messages.ToolsReq,
    messages.ApproveResp,
    messages.AskResp,
    messages.Ping,
    messages.PongSaid,
    messages.ByeSaid,
)
FROM_DAEMON: Final = (
    messages.Ready,
    messages.ToolResp,
    messages.NestedResp,
    messages.ShortResp,
    messages.Tools,
    messages.ToolsChanged,
    messages.ToolUpdate,
    messages.ApproveReq,
    messages.Ask,
    messages.Pong,
    messages.Bye,
    messages.FaultLine,
)


def schemas() -> dict[str, bytes]:
    """The content of each generated file, by its name."""
    return {
        "agent.schema.json": _union("A line from an agent", FROM_AGENT),
        "daemon.schema.json": _union("A line from the daemon", FROM_DAEMON),
        "configuration.schema.json": _pretty(
            {
                "$schema": DIALECT,
                "title": "A configuration, read as TOML",
                **msgspec.json.schema(Config, schema_hook=_any),
            }
        ),
    }


def _any(_kind: type) -> dict[str, object]:
    """What is only passed on may be any JSON."""
    return {"description": "any JSON"}


def _union(title: str, structs: tuple[type, ...]) -> bytes:
    refs, components = msgspec.json.schema_components(structs, schema_hook=_any, ref_template=REF)
    if messages.Ready in structs:
        components |= _shown(components)
    return _pretty({"$schema": DIALECT, "title": title, "anyOf": list(refs), "$defs": components})


def _shown(components: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The components whose lists of tools may be in any form, and the forms."""
    refs, forms = msgspec.json.schema_components(FORMS, schema_hook=_any, ref_template=REF)
    entry = {"anyOf": [{"$ref": REF.format(name="ToolView")}, *refs]}
    lists = {name: _with_entries(components[name], entry) for name in ("Ready", "Tools", "ToolsChanged")}
    return forms | lists


def _with_entries(component: dict[str, object], entry: Mapping[str, object]) -> dict[str, object]:
    properties = component["properties"]
    assert isinstance(properties, dict)
    return component | {"properties": properties | {"tools": {"type": "array", "items": entry}}}


def _pretty(schema: dict[str, object]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2) + b"\n"


if __name__ == "__main__":
    for name, text in schemas().items():
        (HERE / name).write_bytes(text)
        sys.stdout.write(f"{name}\n")
