"""What an agent's program is told of itself, where it is the configured `agent_command` that runs it."""

from collections.abc import Mapping

import msgspec

from tooldispatchd.catalog.meanings import Declared, strip_stream, to_schema
from tooldispatchd.catalog.processes import Process
from tooldispatchd.catalog.servers import Binding, binding_of
from tooldispatchd.catalog.types import JSON


def agent_spec(process: Process, declared: Declared, servers: Mapping[str, Binding]) -> bytes:
    """The spec as a JSON object, with the keys of the process's table that say what the agent is.

    `input_schema` and `output_schema` are of one message; `tools` and `mcp` name what its profile offers, and are left
    out where it has none. Nothing of how a server is reached stands in it, and so no credential.
    """
    spec = process.spec
    source, target = process.arrow or (JSON, JSON)
    told: dict[str, object] = {
        "name": process.name,
        "type": process.type_text,
        "description": spec.description,
        "prompt": spec.prompt,
        "model": spec.model,
        "input_schema": to_schema(strip_stream(source, declared), declared),
        "output_schema": to_schema(strip_stream(target, declared), declared),
        "tools": None if spec.tools is None else list(spec.tools),
        "mcp": None if spec.mcp is None else [binding_of(server, servers) for server in spec.mcp],
        "options": spec.options,
    }
    return msgspec.json.encode({key: value for key, value in told.items() if value is not None})
