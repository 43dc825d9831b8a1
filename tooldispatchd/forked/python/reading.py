"""The program that reads signatures: it imports what it is asked for, says what it found, and ends.

The last words of `argv` are two descriptors. The first is a file with the request, `{"place": directory, "functions":
["module:function", …], "seconds": n}`. To the second go lines: `{"ready": true}` or `{"refused": sentence}`, then one
for each function, in order: `{"signature": {…}}` or `{"why": sentence, "nearest": name or null}`, each with the
`threads` that its import has started; and then `{"code": {…}}`: the `files` of modules that are followed, with their
stamps, whether there are too many of them (`is_cut`), and the `digests` of the functions' modules. What modules print
goes to stdout and stderr, which are the daemon's.
"""

import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

from tooldispatchd.forked.python.codefiles import CodeFiles
from tooldispatchd.forked.python.followed import is_followed
from tooldispatchd.forked.python.functions import FunctionError, find_function

# A thread that has ended is in the kernel's list a moment longer.
_ENDING_S = 0.02
_TRIES = 5


def main(argv: Sequence[str]) -> NoReturn:
    """Serve the one request and end the process, whatever the modules have left running in it."""
    request_fd, answer_fd = map(int, argv[-2:])
    with os.fdopen(request_fd, "rb") as file:
        request = json.load(file)
    # Should the daemon be killed meanwhile, nothing else would end this process.
    signal.alarm(request["seconds"])
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The output of a module that fails should be read up to its last line.
        sys.stdout.reconfigure(line_buffering=True)
    # A process that a module starts must not hold it open.
    os.set_inheritable(answer_fd, False)  # noqa: FBT003  # its own way to say it
    with os.fdopen(answer_fd, "wb", buffering=0) as answers:
        try:
            # Imported now, since it needs what the interpreter may lack.
            from tooldispatchd.forked.python.signature import describe  # noqa: PLC0415
        except ImportError as error:
            _tell(answers, {"refused": str(error)})
            os._exit(0)
        # Behind everything else: a module beside the configuration can hide none of the interpreter's.
        sys.path.append(request["place"])
        _tell(answers, {"ready": True})
        started: dict[str, list[str]] = {}
        code = CodeFiles()
        for path in request["functions"]:
            module = path.partition(":")[0]
            before = _threads()
            try:
                answer: dict[str, object] = {"signature": describe(find_function(path))}
            except FunctionError as error:
                answer = {"why": f"{error.why}{_place_of(error.__cause__)}", "nearest": error.nearest}
                if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name is not None:
                    code.note_absent(error.__cause__.name)
            # Only the first import runs a module's code, whatever comes of the function then.
            started.setdefault(module, _new_threads(before))
            _tell(answers, {**answer, "threads": started[module]})
        digests = code.digests(started)
        _tell(answers, {"code": {"files": code.stamps, "is_cut": code.is_cut, "digests": digests}})
    # Without waiting for threads, or for what is registered for the end of the interpreter.
    os._exit(0)


def _tell(stream: IO[bytes], answer: dict[str, object]) -> None:
    # Half a surrogate pair in a docstring is nothing that JSON can say.
    left = memoryview(json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n")
    while left:
        left = left[stream.write(left) or 0 :]


def _place_of(error: BaseException | None) -> str:
    """Name the last line of followed code that an import came to, in brackets; empty where there is none."""
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    places = [(frame.filename, frame.lineno) for frame in frames]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
    of_author = (place for place in places[::-1] if place[0].startswith("/") and is_followed(place[0]))
    return next((f" ({Path(path).name}, line {line})" for path, line in of_author), "")


def _threads() -> set[str]:
    """The kernel's numbers of this process's threads, those of libraries too, of which Python knows nothing."""
    return {entry.name for entry in Path("/proc/self/task").iterdir()}


def _new_threads(before: set[str]) -> list[str]:
    """The names of threads that an import has started and that still run."""
    for _ in range(_TRIES):
        new = _threads() - before
        if not new:
            return []
        time.sleep(_ENDING_S)
    names = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    return sorted(names.get(number, "a library's") for number in new)
