"""A program that tries to get out of where it is shut in, and says how each attempt ended.

It runs with the standard library alone. Its one argument is JSON, of what there is to attack; it prints a JSON object:
for each attempt `refused ERRNO`, or what was got. The attempts are in modules of their own, by what they are after.
"""

# It uses the system's own calls, not what Path makes of them.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH118, PTH123

import encodings.idna  # noqa: F401  # which addresses need, and which is not to be had later
import errno
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tests.forked.sandbox import attacks_on_files, attacks_on_others, target
from tests.forked.sandbox.target import FIELD, mine, read

FAR: Final = "refused "
MODULES: Final = (target, attacks_on_files, attacks_on_others)
"""Those that are needed beside this one."""


def main(field: str) -> None:
    """Try everything on what `field` describes, and print what came of it."""
    print(json.dumps(attack(json.loads(field))))


def attack(field: dict[str, Any]) -> dict[str, str]:
    FIELD.update(field)
    return {name: outcome(attempt) for name, attempt in attempts().items()}


def attempts() -> dict[str, Callable[[], object]]:
    """What may be done first, then what may not."""
    named = [globals(), *(vars(module) for module in MODULES)]
    return {name: value for names in named for name, value in names.items() if name.startswith(("try_", "may_"))}


def outcome(attempt: Callable[[], object]) -> str:
    try:
        return f"got {attempt()!r}"[:200]
    except OSError as error:
        return FAR + errno.errorcode.get(error.errno or 0, str(error))


# What it may do.


def may_read_readable() -> str:
    return read(FIELD["readable"])


def may_write_and_change_its_own() -> None:
    path = mine("own")
    with open(path, "w") as file:
        file.write("mine")
    os.chmod(path, 0o700)
    os.utime(path, (1, 1))
    os.mkdir(mine("directory"))
    os.rename(path, mine("directory/own"))
    os.truncate(mine("directory/own"), 1)
    os.unlink(mine("directory/own"))
    os.rmdir(mine("directory"))


def may_use_its_scratch() -> None:
    with open(os.path.join(FIELD["scratch"], "file"), "w") as file:
        file.write("x" * 100_000)


def may_run_programs() -> str:
    return subprocess.run(["/bin/sh", "-c", "echo $(echo ran)"], capture_output=True, text=True, check=True).stdout


def may_have_a_pair_of_sockets() -> bytes:
    one, other = socket.socketpair()
    one.sendall(b"x")
    return other.recv(1)


def may_start_threads() -> bool:
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()
    return True


def may_stand_back() -> int:
    return os.nice(1)


def may_discard() -> None:
    with open("/dev/null", "w") as file:
        file.write("x")


def may_look_at_itself() -> str:
    return read("/proc/self/status")
