"""An agent in plain Python: `python3 agent.py SOCKET`, or `tooldispatchd run -- python3 agent.py`."""
# ruff: noqa: T201  # what an agent does with an answer, an example prints

import json
import socket
import sys
import time
from itertools import count

if len(sys.argv) > 1:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(sys.argv[1])
    requests, answers = channel.makefile("wb"), channel.makefile("rb")
else:  # where `tooldispatchd run` puts an agent's channel, after it has said hello
    requests, answers = open(4, "wb"), open(5, "rb")  # noqa: SIM115  # a descriptor, open to the end
ids = map(str, count(1))


def say(**message: object) -> None:
    """Send one line."""
    requests.write(json.dumps(message).encode() + b"\n")
    requests.flush()


def hear(port: str, call_id: str | None = None) -> dict:
    """The next line of that port; a port that we do not know is none of our business."""
    for line in answers:
        said = json.loads(line)
        if said["__port"] == port and said.get("id") == call_id:
            return said
        if said["__port"] == "fault":
            sys.exit(f"{said['error']}: {said['detail']}")
    sys.exit("the daemon closed the channel")


# The codes after which the same call may succeed later.
LATER = {"server_unavailable", "queue_full", "rate_limited", "too_many", "draining"}


def call(name: str, value: object) -> dict:
    """The answer to a call. It is made again only if that may help, and if the tool cannot have done anything."""
    for wait_s in (0.1, 1, None):
        call_id = next(ids)
        say(__port="tool_req", id=call_id, name=name, input=value)
        answer = hear("tool_resp", call_id)
        fault = json.loads(answer["content"]) if answer.get("fault") else {}
        if fault.get("error") not in LATER or fault.get("ran") == "maybe" or wait_s is None:
            break
        time.sleep(fault.get("retry_after_ms", wait_s * 1000) / 1000)
    if fault.get("error") == "unknown_tool" and "did_you_mean" in fault:
        print(f"{name}: there is no such tool; trying {fault['did_you_mean']}")
        return call(fault["did_you_mean"], value)
    print(f"{name}: {'error: ' if answer['is_error'] else ''}{fault.get('detail', answer['content'])}")
    return answer


question, told = ("hello", "ready") if len(sys.argv) > 1 else ("tools", "tools")
say(__port=question)
print("tools:", *(tool["name"] for tool in hear(told)["tools"]))
call("echo", "hello")
call("gret", {"name": "Ada"})
call("greet", {"nom": "Ada"})
say(__port="bye")
hear("bye")
