"""`tooldispatchd call`: one call, for people and scripts."""

import argparse
import sys

EPILOG = """\
examples:
  tooldispatchd call echo '"hello"'
  echo '{"timezone": "UTC"}' | tooldispatchd call time:get_current_time -
  tooldispatchd call double 21 --config tooldispatchd.toml

The answer's content is printed as it is, errors too.

exit codes: 0 answered; 1 the answer is an error; 2 usage or configuration; 3 the daemon cannot be reached
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    from tooldispatchd.cli import dialogue

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"{dialogue.SOCKETS}\n{EPILOG}"
    parser.add_argument("name", metavar="NAME", help="the tool")
    parser.add_argument("input", metavar="JSON", nargs="?", help="its input as JSON; - reads it from stdin")
    dialogue.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Call and print; the exit code."""
    import msgspec

    from tooldispatchd.cli import dialogue
    from tooldispatchd.client.blocking import Client
    from tooldispatchd.client.errors import FaultError

    text = (
        sys.stdin.buffer.read() if arguments.input == "-" else (arguments.input or "").encode(errors="surrogateescape")
    )
    try:
        # Encoded anew: the text may stand on several lines, a request may not.
        value = msgspec.Raw(msgspec.json.encode(msgspec.json.decode(text))) if text.strip() else msgspec.UNSET
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        print(f"tooldispatchd: the input is not JSON: {error}", file=sys.stderr)
        return 2

    def call(client: Client) -> int:
        for warning in client.hello(arguments.profile, token=arguments.token).warnings:
            print(f"tooldispatchd: warning: {warning}", file=sys.stderr)
        try:
            answer = client.call(arguments.name, value)
        except FaultError as fault:
            if fault.answer is None:
                raise
            answer = fault.answer
        print(answer.content)
        return 1 if answer.is_error else 0

    return dialogue.talk(arguments, call)
