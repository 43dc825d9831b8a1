"""`tooldispatchd run`: an agent and its tool channel, from its start to its exit."""

import argparse
import os
from pathlib import Path
from typing import Final

from tooldispatchd.cli.dialogue import TIMEOUT_S, add_daemon_arguments, read_token
from tooldispatchd.cli.tools import FORMS

EPILOG: Final = """\
The agent gets its tools on descriptor 4 (it writes requests) and 5 (it reads answers). Its session is open when it
starts: it need not say hello. What it finds in its environment:
  TOOLDISPATCHD_CHANNEL  4,5, or stdio with --mux
  TOOLDISPATCHD_TOOLS    a file with a JSON list of its tools: name, description, input_schema; gone when it has ended.
                         With --schemas it is the list that this provider's API takes, and its names may be called
  PLUMB_MCP_TOOLS        the same of tools of servers alone, by the colon in their names; not there with --schemas
TOOLDISPATCHD_TOKEN is taken out. All else, its standard streams too, is as it was for run.

With --mux the agent's stdout carries requests and its stdin answers, beside whatever else they carry. Lines of its
stdout that are JSON objects with a __port of an agent's (tool_req, tool_cancel, tools, approve_resp, ask_resp, hello,
ping, pong, bye) go to the daemon; every other byte goes to run's stdout as it is. The short form, which has no __port,
is no request here: it passes through too. The daemon's lines and those of run's stdin come to the agent's stdin, whole
lines; the end of run's stdin is not told to the agent. A line of more than 8 MiB is a request only if its __port and
its id stand in its first 4 KiB.

The daemon: --socket or $TOOLDISPATCHD_SOCKET names a running one, --config starts a private one for this agent. Without
them: the one at $RUNTIME_DIRECTORY/dispatch.sock, $XDG_RUNTIME_DIR/tooldispatchd/dispatch.sock or
/run/tooldispatchd/dispatch.sock, the first whose directory is told; where none listens, a private one with the
configuration that serve would find. A private daemon ends with the agent.

The agent's exit is its end, also where what it started still holds its descriptors: its calls are cancelled. What it
started is left alone. If the daemon ends before, the agent reads the end of its answers and goes on.

Signals (TERM, HUP, USR1, USR2, INT, QUIT, WINCH, CONT) are passed on to the agent, but for those that a terminal sends
to both. Those that were ignored stay ignored.

examples:
  tooldispatchd run -- ./agent.py --task "list the files"
  tooldispatchd run --profile coder --config tooldispatchd.toml -- node agent.js
  tooldispatchd run --schemas openai -- ./agent.py
  echo '{"task": "sum"}' | tooldispatchd run --mux -- ./agent

exit codes: 0 and any other: the agent's; 128 + n: signal n ended it; 127 no such program, 126 it cannot be executed;
before the agent starts: 1 refused, 2 usage or configuration, 3 the daemon cannot be reached or does not admit us
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Run an agent with a tool channel of its own to a daemon, and exit as it does."
    parser.usage = "tooldispatchd run [--profile P] [--socket PATH | --config FILE] [--mux] [options] -- COMMAND ..."
    parser.epilog = EPILOG
    add_daemon_arguments(parser, f"give up on a running daemon that is silent for so long ({TIMEOUT_S:g})")
    parser.add_argument("--mux", action="store_true", help="share the agent's stdin and stdout with its tool channel")
    parser.add_argument(
        "--schemas",
        choices=FORMS,
        metavar="FORM",
        help=f"show the tools in the form that a model's provider takes: {', '.join(FORMS)}",
    )
    parser.add_argument(
        "--max-output",
        type=bytes_of_output,
        metavar="BYTES",
        help="how much of an answer the agent gets where no table says it (256 KiB); 1,024 at least",
    )
    parser.add_argument("--updates", action="store_true", help="ask for tool_update and tools_changed lines")
    parser.add_argument("--meta", action="store_true", help="ask for meta in answers")
    parser.add_argument(
        "--answers",
        action="append",
        choices=("approve", "sampling", "elicitation", "url"),
        default=[],
        help="what the agent can be asked by the daemon; may be repeated",
    )
    parser.add_argument("--verbose", action="store_true", help="say on stderr which daemon is used")
    # Not "command": that is the name of this one.
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the agent and its arguments")


def bytes_of_output(text: str) -> int:
    """A size of the command line."""
    from tooldispatchd.wire.messages import MIN_OUTPUT_BYTES

    value = int(text)
    if value < MIN_OUTPUT_BYTES:
        raise ValueError(text)
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run the agent; its exit code, or ours where it did not start."""
    import msgspec

    from tooldispatchd.runner.daemons import tell
    from tooldispatchd.runner.run import Order
    from tooldispatchd.runner.run import run as run_agent
    from tooldispatchd.wire.messages import Hello

    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        tell("no agent to run: tooldispatchd run [options] -- COMMAND ...")
        return 2
    try:
        token = read_token(arguments.token_file)
    except (OSError, ValueError) as error:
        tell(f"cannot read the token from {arguments.token_file}: {getattr(error, 'strerror', None) or error}")
        return 2
    hello = Hello(
        profile=arguments.profile,
        token=token,
        schemas=arguments.schemas,
        meta=msgspec.Raw(b"true") if arguments.meta else msgspec.UNSET,
        updates=arguments.updates,
        max_output=arguments.max_output,
        answers=arguments.answers,
    )
    order = Order(
        words,
        hello,
        socket=arguments.socket,
        config=arguments.config and Path(arguments.config),
        shares_streams=arguments.mux,
        is_verbose=arguments.verbose,
        timeout_s=arguments.timeout,
    )
    return run_agent(order, os.environ)
