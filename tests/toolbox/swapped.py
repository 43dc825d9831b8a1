"""Call tools of files while a link takes a directory's place at every moment before they act on the file system.

No kernel keeps this process to its workspace. Prints how many moments there were, and what came of a wrong one.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.toolbox.callers import Caller, inventory
from tooldispatchd.forked.python.context import InvalidInputError, Shutting, ToolContext, ToolFailedError
from tooldispatchd.toolbox.editing import edit
from tooldispatchd.toolbox.grep import grep
from tooldispatchd.toolbox.listing import glob, list_directory, tree
from tooldispatchd.toolbox.look import introspect
from tooldispatchd.toolbox.moving import copy, delete, move
from tooldispatchd.toolbox.reading import read
from tooldispatchd.toolbox.writing import write


def free() -> ToolContext:
    return Caller().ctx(guard="off")


CALLS: dict[str, Callable[[], object]] = {
    "read": lambda: read("within/text", free()),
    "write": lambda: write(free(), "within/text", "x"),
    "write-new": lambda: write(free(), "within/below/new/er/file", "x"),
    "edit": lambda: edit(free(), "within/text", "a", "x"),
    "list": lambda: list_directory("within"),
    "tree": lambda: tree(free(), "."),
    "glob": lambda: glob(free(), "**/*"),
    "introspect": lambda: introspect(free(), "all"),
    "grep": lambda: grep(free(), "c.nary"),
    "grep-one": lambda: grep(free(), "c.nary", "within/text"),
    "delete": lambda: delete(free(), "within/text"),
    "delete-all": lambda: delete(free(), "within/below", recursive=True),
    "delete-within": lambda: delete(free(), "within", recursive=True),
    "move": lambda: move(free(), "within/text", "taken"),
    "move-all": lambda: move(free(), "within/below", "taken"),
    "move-into": lambda: move(free(), "own", "within/taken"),
    "move-over": lambda: move(free(), "own", "within/text", overwrite=True),
    "copy": lambda: copy(free(), "within/text", "taken"),
    "copy-link": lambda: copy(free(), "within/link", "taken"),
    "copy-all": lambda: copy(free(), "within", "taken"),
    "copy-into": lambda: copy(free(), "own", "within/new/taken"),
    "copy-tree-into": lambda: copy(free(), "tree", "within/taken"),
}
EVENTS = ("open", "os.", "shutil.", "subprocess.")


class Swap:
    """Put a link in the place of the directory before the event of that number; `seen` counts them."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.seen = 0

    def __call__(self, event: str, _arguments: tuple[object, ...]) -> None:
        if self.at is None or not event.startswith(EVENTS):
            return
        self.seen += 1
        if self.seen == self.at:
            self.at = None
            with contextlib.suppress(OSError):
                Path("within").rename("kept")
                Path("within").symlink_to("../outside")


def fill(home: Path, canary: str) -> None:
    (home / "below/deep").mkdir(parents=True)
    for name in ("text", "below/text", "below/deep/text", f"{canary}-name"):
        (home / name).write_text(f"{canary}\n")
    (home / "link").symlink_to(canary)


def main() -> None:
    swap, moments = Swap(), 0
    sys.addaudithook(swap)
    for name, call in CALLS.items():
        number = 0
        while swap.seen >= number:
            number += 1
            with tempfile.TemporaryDirectory() as made:
                home = Path(made).resolve()
                fill(home / "outside", "canary")
                fill(home / "workspace/within", "harmless")
                shutil.copytree(home / "workspace/within", home / "workspace/tree", symlinks=True)
                (home / "workspace/own").write_text("own\n")
                os.chdir(home / "workspace")
                before = inventory(home / "outside")
                Shutting.is_kept, Shutting.read = False, (str(home / "workspace"),)
                Shutting.write = Shutting.read
                swap.seen, swap.at = 0, number
                try:
                    told = str(call())
                except (ToolFailedError, InvalidInputError) as error:
                    told = str(error)
                swap.at = None
                taken = inventory(home / "workspace")
                if "canary" in told or "canary" in str(taken) or inventory(home / "outside") != before:
                    print(f"{name} before its event {number}: {told}")
                os.chdir("/")
            moments += 1
    print(moments)


if __name__ == "__main__":
    main()
