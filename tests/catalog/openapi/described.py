"""Small documents of OpenAPI, and what is made of them."""

from typing import Any

import msgspec

from tooldispatchd.catalog.openapi.adapter import AdaptedApi, ApiSource, adapt
from tooldispatchd.catalog.openapispec import OpenApiSpec
from tooldispatchd.catalog.rest.declared import RestApi
from tooldispatchd.catalog.rest.requestchecks import compile_template
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.catalog.specs import ToolSpec

Row = dict[str, Any]
BASE = "https://api.example/v1"


def document(paths: Row, version: str = "3.1.0", **more: Any) -> Row:
    """A document with these paths, at `BASE`."""
    return {"openapi": version, "info": {"title": "T"}, "servers": [{"url": BASE}], "paths": paths, **more}


def adapted(content: Row, files: Row | None = None, url: str | None = None, **keys: Any) -> AdaptedApi:
    """What a table with these keys makes of a document."""
    spec = msgspec.convert({"spec": "x", **keys}, OpenApiSpec)
    texts = {name: msgspec.json.encode(file) for name, file in (files or {}).items()}
    return adapt(ApiSource(msgspec.json.encode(content), texts, url), "t", spec)


def the_tool(operation: Row, path: str = "/x", method: str = "get", version: str = "3.1.0", **keys: Any) -> Row:
    """The table of the one tool of a document with one operation."""
    components = operation.pop("components", {})
    made = adapted(document({path: {method: operation}}, version, components=components), **keys)
    assert made.left_out == ()
    assert made.problems == ()
    (tool,) = made.tools.values()
    return tool


def sent(tool: Row, values: Row) -> tuple[str, str, Row, list[str], bytes, str | None]:
    """The request that a tool makes of an input: path, query, headers, cookies, body and its media type."""
    spec = msgspec.convert(tool, ToolSpec)
    assert spec.rest is not None
    assert spec.input_schema is not None
    api = RestApi("t", "https://api.example", "", RestApiSpec(base_url="https://api.example"))
    builder, problems = compile_template(spec.rest, api, spec.input_schema, ())
    assert problems == []
    assert builder is not None
    made = builder.build(values)
    return made.path, made.query, dict(made.headers), list(made.cookies), made.body, made.media_type
