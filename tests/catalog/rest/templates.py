"""Templates of requests for the tests of this folder."""

from collections.abc import Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.rest.declared import BuiltRequest, RestApi
from tooldispatchd.catalog.rest.requestchecks import compile_template
from tooldispatchd.catalog.rest.requests import RequestMade, RequestTemplate, build_request
from tooldispatchd.catalog.restspecs import RestApiSpec, RestSpec

API: Final = RestApi("api", "https://x.example", "/v3", RestApiSpec(base_url="https://x.example/v3"))


def compiled(
    spec: Mapping[str, object], *names: str, schemas: Mapping[str, object] | None = None
) -> tuple[RequestTemplate | None, list[Problem]]:
    """The template of a table, for a tool with these parameters; a name with a `?` may be left out."""
    properties = {name.removesuffix("?"): {} for name in names} | dict(schemas or {})
    required = [name for name in names if not name.endswith("?")]
    schema = {"type": "object", "properties": properties, "required": required}
    return compile_template(msgspec.convert(spec, RestSpec), API, schema, ("tools", "t", "rest"))


def template(spec: Mapping[str, object], *names: str, schemas: Mapping[str, object] | None = None) -> RequestTemplate:
    """As `compiled`, where nothing is wrong."""
    found, problems = compiled(spec, *names, schemas=schemas)
    assert problems == []
    assert found is not None
    return found


def built(made: RequestTemplate, values: Mapping[str, object]) -> BuiltRequest:
    """The request of an input, which a checker makes as well."""
    request = made.build(values)
    head, body = build_request(made.job(), bytearray(msgspec.json.encode(values)))
    other = msgspec.msgpack.decode(head, type=RequestMade).request
    assert other is not None
    assert msgspec.structs.replace(other, body=body) == request
    return request
