"""Write the JSON Schemas of this directory from the Structs: `python -m protocol.generate`."""

import sys
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.catalog.specs import Config
from tooldispatchd.wire import messages

HERE: Final = Path(__file__).parent
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
    refs, components = msgspec.json.schema_components(structs, schema_hook=_any, ref_template="#/$defs/{name}")
    return _pretty({"$schema": DIALECT, "title": title, "anyOf": list(refs), "$defs": components})


def _pretty(schema: dict[str, object]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2) + b"\n"


if __name__ == "__main__":
    for name, text in schemas().items():
        (HERE / name).write_bytes(text)
        sys.stdout.write(f"{name}\n")
