"""The tool `python`: code in an interpreter of its own, whose variables may live on between an agent's calls."""

import json
import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.toolbox import evaluating
from tooldispatchd.toolbox.excerpt import listed
from tooldispatchd.toolbox.memfiles import content_of, memfile
from tooldispatchd.toolbox.running import Run, run

# As for the shell: see `bash`.
TOOLDISPATCHD_ATTENDED: Final = True
# With isolated settings (`-I`) nothing of the environment or the workspace changes what the program itself does; and
# without a buffer what is written to stdout and to stderr comes in its order.
WORDS: Final = (sys.executable, "-I", "-u", "-X", "utf8", str(Path(evaluating.__file__)))
MAX_CODE: Final = 1024 * 1024
# The state, and the names of any number of variables.
MAX_REPLY: Final = 4 * 1024 * 1024


class EvaluationReply(msgspec.Struct, frozen=True):
    """What `evaluating` writes where variables live on."""

    state: Annotated[str, Meta(max_length=evaluating.MAX_STATE)]
    dropped: dict[str, str]


def python(
    code: Annotated[str, Meta(max_length=MAX_CODE, description="Statements; the last may be an expression.")],
    ctx: ToolContext,
    timeout_s: Annotated[int, Meta(ge=1, le=3600, description="Seconds after which it is stopped.")] = 120,
) -> str:
    """Run Python code; the answer is what it prints, the repr of its last expression, and its exit code.

    Modules of the workspace can be imported. All that it starts ends with it.
    """
    is_lasting = bool(ctx.options.get("session"))
    asked: dict[str, str | None] = {"code": code}
    if is_lasting:
        asked["state"] = ctx.state.get("pickle")
    with memfile(json.dumps(asked).encode()) as stdin, memfile() as reply:
        done = run([*WORDS, str(reply)], ctx=ctx, limit_s=timeout_s, stdin=stdin, pass_fds=(reply,))
        written = content_of(reply, MAX_REPLY)
    return done.text(*(_keep(ctx, done, written) if is_lasting else ()))


def _keep(ctx: ToolContext, done: Run, written: bytes) -> list[str]:
    """Keep what the code left; the notes on it."""
    unchanged = "The variables are as before this call."
    if done.stopped is not None or done.code != 0 or not written:
        return [unchanged]
    try:
        left = msgspec.json.decode(written, type=EvaluationReply)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # The code has written to a descriptor that is not its own.
        return [unchanged]
    ctx.state["pickle"] = left.state
    named = [f"{name} ({why})" for name, why in left.dropped.items()]
    return [f"Not kept for the next call: {listed(named)}."] if named else []
