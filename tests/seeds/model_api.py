"""A model's API that answers what it was told to, in turn, and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

Body = dict[str, Any]


class ModelApi:
    """`answers` are given one after the other, an int as a status; `asked` are the requests: path, headers, body."""

    def __init__(self, answers: list[Body | int]) -> None:
        self.answers: Final = answers
        self.asked: Final[list[tuple[str, dict[str, str], Body]]] = []
        self.url = ""

    def body(self, number: int) -> Body:
        return self.asked[number][2]


@contextmanager
def model_api(*answers: Body | int) -> Iterator[ModelApi]:
    """It listens on the loopback while this is entered."""
    api = ModelApi(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            api.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            answer = api.answers.pop(0)
            said = json.dumps(answer if isinstance(answer, dict) else {"error": "as asked"}).encode()
            self.send_response(200 if isinstance(answer, dict) else answer)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        api.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


def says(text: str) -> Body:
    """A turn of Anthropic's that is an answer."""
    return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}


def uses(*calls: tuple[str, str, object]) -> Body:
    """A turn of Anthropic's with calls: id, name, input."""
    parts = [{"type": "tool_use", "id": call_id, "name": name, "input": value} for call_id, name, value in calls]
    return {"content": [{"type": "text", "text": "Let me look."}, *parts], "stop_reason": "tool_use"}
