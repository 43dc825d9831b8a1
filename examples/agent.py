#!/usr/bin/env python3
"""An `agent_command`: it runs the `prompt` and the `model` of an agent process against a model's API, with its tools.

    agent_command = ["env", "AGENT_URL=https://api.anthropic.com/v1", "AGENT_KEY_FILE=/etc/agent/key",
                     "/srv/agent/agent.py"]

The daemon adds one word, the file with the agent's spec; the message is on stdin, and the answer goes to stdout.
`AGENT_URL` ends before `/messages`, or before `/chat/completions` where AGENT_API=openai says that it is compatible.
The key is in `AGENT_KEY`, or in the file that `AGENT_KEY_FILE` names. `AGENT_MODEL` is for agents that name no model.
Of the spec's `options`, `max_tokens` and `turns` are read here; all others go into the request as they are.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

KEY_FILE = os.environ.get("AGENT_KEY_FILE")
KEY = Path(KEY_FILE).read_text(encoding="utf-8").strip() if KEY_FILE else os.environ.get("AGENT_KEY", "")
API = os.environ.get("AGENT_API", "anthropic")
URL = os.environ.get("AGENT_URL", "https://api.anthropic.com/v1").rstrip("/")
# A model that thinks may take minutes for one answer; the daemon ends the call at its own limit.
PATIENCE_S = 600


class Tools:
    """The agent's channel: requests to descriptor 4, answers from 5. Without tools there is none."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []
        if "TOOLDISPATCHD_CHANNEL" in os.environ:
            self._requests, self._answers = os.fdopen(4, "w", encoding="utf-8"), os.fdopen(5, encoding="utf-8")
            # The session is open; this asks for its tools as this model's API takes them.
            self._say({"__port": "hello", "schemas": API, "content": "text"})
            self.shown = self._hear("ready")["tools"]

    def call(self, calls: list[tuple[str, str, Any]]) -> dict[str, tuple[str, bool]]:
        """The answers to calls of one turn, which run at once: text and whether it is an error, by the calls' ids."""
        for call_id, name, value in calls:
            self._say({"__port": "tool_req", "id": call_id, "name": name, "input": value})
        answers = [self._hear("tool_resp") for _ in calls]
        return {answer["id"]: (answer["content"], answer["is_error"]) for answer in answers}

    def _say(self, message: dict[str, Any]) -> None:
        self._requests.write(json.dumps(message) + "\n")
        self._requests.flush()

    def _hear(self, port: str) -> dict[str, Any]:
        for line in self._answers:
            said: dict[str, Any] = json.loads(line)
            if said["__port"] == port:
                return said
            if said["__port"] == "fault":
                sys.exit(f"{said['error']}: {said['detail']}")
        sys.exit("the daemon closed the channel")


def post(path: str, headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    """The answer of the model's API; its error ends the program, and so the call."""
    headers = {"content-type": "application/json", **headers}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)  # noqa: S310  # the operator's URL
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            said: dict[str, Any] = json.load(answer)
            return said
    except urllib.error.HTTPError as error:
        sys.exit(f"the model's API answered {error.code}: {error.read(500).decode(errors='replace')}")
    except urllib.error.URLError as error:
        sys.exit(f"cannot reach the model's API at {URL}: {error.reason}")


def anthropic(body: dict[str, Any], system: str, messages: list[dict[str, Any]], tools: Tools) -> str | None:
    """One turn; the text of the last one, None after one with calls, whose results are in `messages` then."""
    body = {"max_tokens": 4096, **body, "system": system, "messages": messages, "tools": tools.shown}
    said = post("/messages", {"x-api-key": KEY, "anthropic-version": "2023-06-01"}, body)["content"]
    messages.append({"role": "assistant", "content": said})
    calls = [(part["id"], part["name"], part["input"]) for part in said if part["type"] == "tool_use"]
    if not calls:
        return "".join(part["text"] for part in said if part["type"] == "text")
    results = tools.call(calls)
    parts = [
        {"type": "tool_result", "tool_use_id": call_id, "content": results[call_id][0], "is_error": results[call_id][1]}
        for call_id, *_ in calls
    ]
    messages.append({"role": "user", "content": parts})
    return None


def openai(body: dict[str, Any], system: str, messages: list[dict[str, Any]], tools: Tools) -> str | None:
    """As `anthropic`."""
    body = {**body, "messages": [{"role": "system", "content": system}, *messages]}
    body |= {"tools": tools.shown} if tools.shown else {}
    said = post("/chat/completions", {"authorization": f"Bearer {KEY}"}, body)["choices"][0]["message"]
    messages.append(said)
    asked = [(call["id"], call["function"]) for call in said.get("tool_calls") or ()]
    if not asked:
        return said["content"] or ""
    results = tools.call([(call_id, each["name"], json.loads(each["arguments"] or "{}")) for call_id, each in asked])
    messages.extend({"role": "tool", "tool_call_id": call_id, "content": results[call_id][0]} for call_id, _ in asked)
    return None


def run(spec: dict[str, Any], message: Any) -> Any:
    """The agent's answer to one message: a value of its output's schema."""
    options = dict(spec.get("options", {}))
    turns, schema = options.pop("turns", 20), spec["output_schema"]
    body = {"model": spec.get("model") or os.environ.get("AGENT_MODEL", ""), **options}
    system = spec.get("prompt") or spec["description"]
    if schema != {"type": "string"}:
        system += f"\n\nAnswer with one JSON value of this schema, and with nothing else:\n{json.dumps(schema)}"
    said = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    messages: list[dict[str, Any]] = [{"role": "user", "content": said}]
    tools, turn = Tools(), openai if API == "openai" else anthropic
    for _ in range(turns):
        text = turn(body, system, messages, tools)
        if text is None:
            continue
        try:
            return text if schema == {"type": "string"} else json.loads(text)
        except ValueError as error:
            messages.append({"role": "user", "content": f"That is not JSON: {error}. Answer with the value alone."})
    sys.exit(f"no answer after {turns} turns")


if __name__ == "__main__":
    SPEC = json.loads(Path(sys.argv[-1]).read_text(encoding="utf-8"))
    json.dump(run(SPEC, json.load(sys.stdin)), sys.stdout)
