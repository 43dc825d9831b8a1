"""A server that is what a document of OpenAPI says: it validates each request, and says what is wrong with it.

    python describing.py DOCUMENT.json

Run by an interpreter that has openapi-core. It prints its port, and answers every request with the list of what the
document does not admit, as JSON: an empty one where all is well.
"""

import json
import sys
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

warnings.simplefilter("ignore")

from jsonschema_path import SchemaPath  # noqa: E402
from openapi_core import Config, OpenAPI  # noqa: E402
from openapi_core.datatypes import RequestParameters  # noqa: E402
from openapi_core.exceptions import OpenAPIError  # noqa: E402
from werkzeug.datastructures import Headers, ImmutableMultiDict  # noqa: E402

SIGNS = ("is valid under each of", "is not valid under any of the given schemas")


class Asked:
    """A request as openapi-core reads it."""

    def __init__(self, handler: "Describing", body: bytes) -> None:
        target = urlsplit(handler.path)
        self.host_url = handler.host_url
        self.path = handler.base_path + target.path
        self.method = handler.command.lower()
        self.body = body
        self.content_type = handler.headers.get("Content-Type", "")
        cookies = [each.partition("=") for each in handler.headers.get("Cookie", "").split("; ") if each]
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(parse_qsl(target.query, keep_blank_values=True)),
            header=Headers(list(handler.headers.items())),
            cookie=ImmutableMultiDict([(name, value) for name, _, value in cookies]),
        )


class Describing(BaseHTTPRequestHandler):
    """Validates what it is asked."""

    protocol_version = "HTTP/1.1"
    api: OpenAPI
    host_url = ""
    base_path = ""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wrong: list[str] = []
        try:
            self.api.validate_request(Asked(self, body))
        except OpenAPIError as error:
            wrong = list(said_by(error))
        content = json.dumps(wrong).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


for method in ("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH"):
    setattr(Describing, f"do_{method}", Describing.answer)


def said_by(error: BaseException | None) -> Any:
    """What an error says, and its causes."""
    while error is not None:
        yield shortened(f"{type(error).__name__}: {error}")
        for each in getattr(error, "schema_errors", ()):
            yield shortened(f"    {'/'.join(map(str, each.absolute_path))}: {each.message}")
            # A long value, and a long schema, have it between them.
            yield from (sign for sign in SIGNS if sign in each.message)
        error = error.__cause__


def shortened(text: str) -> str:
    """The beginning, and the end: what is wrong with a value stands behind it."""
    return text if len(text) <= 300 else f"{text[:150]} … {text[-150:]}"


def read_as_json(document: Any) -> Any:
    """Readers for media types of bodies that may be JSON: by the end of their names, or since they are any.

    openapi-core reads the plain one alone.
    """
    found = {"*/*"}
    nodes = [document["paths"], document.get("components", {})]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict) and isinstance(node.get("content"), dict):
            found |= {kind for kind in node["content"] if kind.partition(";")[0].strip().endswith(("+json", "/json"))}
        nodes += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return {each.partition(";")[0].strip(): lambda value, **_: json.loads(value) for each in found}


def leave_to_the_caller(node: Any) -> None:
    """Forget what is a `deepObject` in forms, and in queries where it is no plain record: openapi-core cannot read it.

    Who asks reads it back.
    """
    if isinstance(node, dict) and isinstance(node.get("encoding"), dict) and isinstance(node.get("schema"), dict):
        deep = {name for name, said in node["encoding"].items() if said.get("style") == "deepObject"}
        schema = node["schema"]
        schema["required"] = [name for name in schema.get("required", []) if name not in deep]
        schema["properties"] = {name: each for name, each in schema.get("properties", {}).items() if name not in deep}
        node["encoding"] = {name: said for name, said in node["encoding"].items() if name not in deep}
    if isinstance(node, dict) and isinstance(node.get("parameters"), list):
        node["parameters"] = [
            each
            for each in node["parameters"]
            if each.get("style") != "deepObject" or each.get("schema", {}).get("type") == "object"
        ]
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        leave_to_the_caller(inner)


def ask_for_nothing_read_only(node: Any) -> None:
    """Require no property that is read-only: so 3.0 has it, and 3.1 says no more of it."""
    if isinstance(node, dict) and isinstance(node.get("required"), list) and isinstance(node.get("properties"), dict):
        kept = [name for name in node["required"] if not node["properties"].get(name, {}).get("readOnly")]
        node["required"] = kept
        if not kept:
            del node["required"]
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        ask_for_nothing_read_only(inner)


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_bytes())
    # What it needs is asked elsewhere; and the server is this one.
    document["servers"] = [{"url": "http://described.example"}]
    document.pop("security", None)
    for item in document["paths"].values():
        for operation in item.values() if isinstance(item, dict) else ():
            if isinstance(operation, dict):
                operation.pop("security", None)
                operation.pop("servers", None)
        item.pop("servers", None)
    ask_for_nothing_read_only(document)
    leave_to_the_caller(document["paths"])
    # Documents have slips that are nobody's business here.
    config = Config(spec_validator_cls=None, extra_media_type_deserializers=read_as_json(document))
    Describing.api = OpenAPI(SchemaPath.from_dict(document), config=config)
    Describing.host_url = "http://described.example"
    with ThreadingHTTPServer(("127.0.0.1", 0), Describing) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
