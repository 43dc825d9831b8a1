"""The channel to the client: what is said there, and the questions that a request may put.

A question is put once, by `ask`: with a handshake it goes to the client as a request; without one the call ends as
`input_required`, and is made anew with the answers and a signed state.
"""

import base64
import hashlib
import hmac
import json
import os
import threading
from queue import SimpleQueue
from typing import Any, Final

Message = dict[str, Any]

META: Final = "io.modelcontextprotocol/"


class RefusedError(Exception):
    """Is answered as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Message | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class NeedsInputError(Exception):
    """Ends a request without a handshake: the client shall make it anew, with answers."""

    def __init__(self, result: Message) -> None:
        super().__init__()
        self.result = result


key = os.urandom(32)
writing = threading.Lock()
listening: dict[str | int, list[str]] = {}
waiting: dict[str, SimpleQueue[Message]] = {}
changes = {"tools": 0, "prompts": 0}


def send(**fields: Any) -> None:
    with writing:
        print(json.dumps({"jsonrpc": "2.0", **fields}), flush=True)


def list_changed(what: str) -> None:
    """Tell it to whoever wants to know: without a handshake only those that listen for it."""
    changes[what] += 1
    method = f"notifications/{what}/list_changed"
    if not listening:
        send(method=method)
    for listener, wanted in listening.items():
        if f"{what}ListChanged" in wanted:
            send(method=method, params={"_meta": {META + "subscriptionId": str(listener)}})


class Request:
    """One request, and what may be said while it is worked on."""

    def __init__(self, message: Message) -> None:
        self.id = message["id"]
        self.method: str = message["method"]
        self.params: Message = message.get("params") or {}
        self.meta: Message = self.params.get("_meta") or {}
        self.is_stateless = META + "protocolVersion" in self.meta

    def progress(self, progress: int, total: int) -> None:
        token = self.meta.get("progressToken")
        if token is not None:
            told = {"progressToken": token, "progress": progress, "total": total}
            send(method="notifications/progress", params=told)

    def log(self, words: str) -> None:
        if not self.is_stateless or META + "logLevel" in self.meta:
            send(method="notifications/message", params={"level": "info", "logger": "conforming", "data": words})

    def client_can(self, what: str) -> bool:
        """Whether the client said so; with a handshake it was said before, and is not kept."""
        return not self.is_stateless or what in self.meta.get(META + "clientCapabilities", {})

    def ask(self, **questions: Message) -> Message:
        """The answers to `questions`, under the same names."""
        if not self.is_stateless:
            return {name: asked(name, question) for name, question in questions.items()}
        answers = opened(self.params["requestState"]) if self.params.get("requestState") else {}
        given = self.params.get("inputResponses") or {}
        answers |= {name: answer for name, answer in given.items() if isinstance(answer, dict)}
        missing = {name: question for name, question in questions.items() if name not in answers}
        if missing:
            round_ = {"inputRequests": missing, "requestState": sealed(answers)}
            raise NeedsInputError({"resultType": "input_required", **round_})
        return {name: answers[name] for name in questions}


def asked(name: str, question: Message) -> Message:
    """The client's answer to a request of ours."""
    request_id = f"{name}-{os.urandom(8).hex()}"
    answers: SimpleQueue[Message] = SimpleQueue()
    waiting[request_id] = answers
    send(id=request_id, **question)
    answer = answers.get()
    if "error" in answer:
        raise RefusedError(-32603, f"the client refused {question['method']}: {answer['error']}")
    result: Message = answer["result"]
    return result


def sealed(answers: Message) -> str:
    """A state that only this process can have made."""
    text = base64.b64encode(json.dumps(answers).encode()).decode()
    return f"{text}.{hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}"


def opened(state: str) -> Message:
    text, _dot, seal = state.partition(".")
    if not hmac.compare_digest(seal, hmac.new(key, text.encode(), hashlib.sha256).hexdigest()):
        raise RefusedError(-32602, "this requestState was not given here")
    answers: Message = json.loads(base64.b64decode(text))
    return answers
