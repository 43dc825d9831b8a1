"""Write the completions and man pages below share/ from the parsers of the commands: `python -m docs.manual`.

The wheel installs share/ as it stands, and `make install-user` for one user.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import shtab

from tooldispatchd.__main__ import COMMANDS

SHARE: Final = Path(__file__).parent.parent / "share"
COMPLETIONS: Final = {
    "bash": "bash-completion/completions/tooldispatchd",
    "zsh": "zsh/site-functions/_tooldispatchd",
    "fish": "fish/vendor_completions.d/tooldispatchd.fish",
}
_FILES: Final = {"FILE", "PATH"}


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, by name."""
    parsers = {}
    for name, summary in COMMANDS.items():
        # The description is as `--help` has it, unless the command says its own.
        parser = argparse.ArgumentParser(f"tooldispatchd {name}", description=f"{summary[0].upper()}{summary[1:]}.")
        import_module(f"tooldispatchd.cli.{name}").add_arguments(parser)
        parsers[name] = parser
    return parsers


def files() -> Iterator[tuple[str, str]]:
    """Yield the path below share/ and the text of each file."""
    parsers = commands()
    whole = argparse.ArgumentParser("tooldispatchd")
    whole.add_argument("--version", action="store_true", help="print the version and exit")
    choices = whole.add_subparsers(metavar="COMMAND")
    for name, parser in parsers.items():
        for action in parser._actions:  # argparse has no other list of them
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # as shtab reads it
        # It makes one of its own, which the one that is there replaces.
        choices.add_parser(name, help=COMMANDS[name])
        choices.choices[name] = parser
    for shell, path in COMPLETIONS.items():
        # Bash's loop has no end where it is called for the first word, as `compgen -F` does.
        yield path, shtab.complete(whole, shell).replace("$word_index -ne $COMP_CWORD", "$word_index -lt $COMP_CWORD")
    yield "man/man1/tooldispatchd.1", _overview(parsers)
    for name, parser in parsers.items():
        yield f"man/man1/tooldispatchd-{name}.1", page(name, parser)


def _overview(parsers: dict[str, argparse.ArgumentParser]) -> str:
    listed = "".join(f".TP\n.BR tooldispatchd-{_roff(name)} (1)\n{_roff(COMMANDS[name])}\n" for name in parsers)
    return (
        f"{_head('tooldispatchd', 'one daemon through which many LLM agents call their tools')}"
        ".SH SYNOPSIS\n.B tooldispatchd\n.I COMMAND\n[\\fIoptions\\fR]\n.SH COMMANDS\n" + listed
    )


def page(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the man page of a command: its description, its options, and what its help says below them."""
    actions = parser._actions  # as above
    words = " ".join(["[\\fIoptions\\fR]", *(_value(action) for action in actions if not action.option_strings)])
    listed = "".join(
        f".TP\n{_heading(action)}\n{_roff(_help(action))}\n" for action in actions if action.help != argparse.SUPPRESS
    )
    # Examples and tables have line breaks of their own.
    below = f".SH NOTES\n.nf\n{_roff(parser.epilog)}\n.fi\n" if parser.epilog else ""
    return (
        f"{_head(f'tooldispatchd-{name}', COMMANDS[name])}"
        f".SH SYNOPSIS\n.B tooldispatchd {name}\n{words}\n"
        f".SH DESCRIPTION\n{_roff(parser.description or '')}\n.SH OPTIONS\n{listed}{below}"
        ".SH SEE ALSO\n.BR tooldispatchd (1)\n"
    )


def _head(name: str, summary: str) -> str:
    return f'.TH {_roff(name.upper())} 1 "" tooldispatchd\n.SH NAME\n{_roff(name)} \\- {_roff(summary)}\n'


def _heading(action: argparse.Action) -> str:
    flags = [f"\\fB{_roff(flag)}\\fR" for flag in action.option_strings]
    value = _value(action)
    return f"{', '.join(flags)} {value}".strip()


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    metavar = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest)
    shown = f"\\fI{_roff(metavar if isinstance(metavar, str) else ' '.join(metavar))}\\fR"
    return {"?": f"[{shown}]", "*": f"[{shown} ...]", "+": f"{shown} ...", "A...": f"[{shown} ...]"}.get(
        str(action.nargs), shown
    )


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": "tooldispatchd"}


def _roff(text: str) -> str:
    """Return plain text as roff has it: no escape, no request at a line's start, hyphens that can be searched for."""
    escaped = text.strip("\n").replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    for path, text in files():
        (SHARE / path).parent.mkdir(parents=True, exist_ok=True)
        (SHARE / path).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
