"""`tooldispatchd init`: write a commented example configuration, or one for coding agents."""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Final

from tooldispatchd.installation import install_words

_EXTRA: Final = re.compile(r'pip install "tooldispatchd\[(\w+)\]"')
DEFAULT_PATH: Final = Path("tooldispatchd.toml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.description = "Write an example configuration that explains every key and works as it stands."
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        default=DEFAULT_PATH,
        metavar="PATH",
        help=f"the file to write, - for standard output (default: ./{DEFAULT_PATH})",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--minimal", action="store_true", help="write a short one to keep: one program, one function, one server"
    )
    which.add_argument(
        "--coding-agent",
        action="store_true",
        help="write a configuration for coding agents: files, a shell and a clock, shut in to one directory",
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file if there is one")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and say what comes next, or print it; gives the exit code, 2 where the file cannot be written."""
    path: Path = arguments.path
    written = example("coding-agent" if arguments.coding_agent else "minimal" if arguments.minimal else "example")
    if str(path) == "-":
        # UTF-8, as TOML is, in every locale.
        sys.stdout.buffer.write(written)
        return 0
    try:
        # The kernel refuses an existing file, with no moment between a look and the write.
        with open(path, "wb" if arguments.force else "xb", opener=_open) as file:
            file.write(written)
    except FileExistsError:
        print(f"cannot write {path}: it exists already (--force overwrites it)", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cannot write {path}: {error.strerror}", file=sys.stderr)
        return 2
    if arguments.coding_agent:
        then, does = "check", "says whether this machine can do what it asks"
    else:
        then, does = "serve", "starts the daemon with it"
    print(f'wrote {path}; "tooldispatchd {then} --config {path}" {does}')
    return 0


def _open(path: str, flags: int) -> int:
    # Whatever the umask: a configuration that anybody may write is refused.
    return os.open(path, flags, 0o644)


def example(name: str = "example") -> bytes:
    """The example configuration, or the one of this name, UTF-8."""
    # Imported when it is called for, as it is slower than all that --help needs.
    from importlib.resources import files

    written = files("tooldispatchd.cli").joinpath(f"{name}.toml").read_text("utf-8")
    return _EXTRA.sub(lambda found: install_words(found[1]), written).encode()
