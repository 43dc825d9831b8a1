"""Functions that are called as tools, each of which does one thing right or wrong."""

import ctypes
import errno
import importlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

CALLS: list[int] = []


def add(a: int, b: int = 1) -> int:
    return a + b


def echo(value: Any) -> Any:
    return value


def pids() -> list[int]:
    """This process, its parent, its group."""
    return [os.getpid(), os.getppid(), os.getpgrp()]


def who() -> list[Any]:
    """User, group, further groups."""
    return [os.getuid(), os.getgid(), os.getgroups()]


def count() -> int:
    CALLS.append(1)
    return len(CALLS)


def descriptors() -> list[int]:
    return sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir() if entry.exists())


def fail(message: str) -> None:
    print("printed before")
    raise ValueError(message)


def fail_oddly() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even that")

    raise OddError


def leave(code: int) -> None:
    os._exit(code)


def leave_politely(code: int) -> None:
    sys.exit(code)


def die(signum: int) -> None:
    print("about to die")
    os.kill(os.getpid(), signum)


def wait_for(begun: str, go: str) -> str:
    """Write our parent's pid to `begun`, and wait for `go`."""
    Path(begun).write_text(f"{os.getppid()}\n")
    while not Path(go).exists():
        time.sleep(0.002)
    return "went"


def append(path: str) -> str:
    with Path(path).open("a") as file:
        file.write("x")
    return "appended"


def hang(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    time.sleep(60)


def hang_deaf(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang(path)


def chatter(lines: int) -> str:
    for _ in range(lines):
        print("x" * 1000)
        print("y" * 1000, file=sys.stderr)
    return "done"


def unencodable() -> Any:
    return object()


def wrong_type() -> int:
    return "no number"  # type: ignore[return-value]  # it is wrong


def large(size: int) -> str:
    return "x" * size


def write_nonsense() -> None:
    os.write(channel(), b"{}" * 20)
    time.sleep(60)


def write_half() -> None:
    os.write(channel(), b"\x05\x10\0\0\0\0\0\0\0" + b"12")
    os._exit(0)


def close_channel() -> int:
    os.close(channel())
    return 1


def channel() -> int:
    """The socket of this call."""
    return max(fd for fd in descriptors() if f"/proc/self/fd/{fd}" and _is_socket(fd))


def _is_socket(fd: int) -> bool:
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink()).startswith("socket:")
    except OSError:
        return False


def fork_and_return() -> int:
    os.fork()
    return os.getpid()


def leave_grandchild(path: str) -> str:
    child = subprocess.Popen(["sleep", "60"])
    Path(path).write_text(f"{child.pid}\n")
    return "left"


def hold_pipes(path: str) -> str:
    """Leave a process of another group that has our stdout and stderr."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    Path(path).write_text(f"{child.pid}\n")
    return "held"


def escape(path: str) -> str:
    """Leave a copy of this process in a session of its own, which has executed nothing."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path).write_text(f"{os.getpid()}\n")
            time.sleep(60)
        os._exit(0)
    while not Path(path).exists():
        time.sleep(0.001)
    return "escaped"


def tell(ctx: Any) -> dict[str, Any]:
    return {"id": ctx.id, "agent": ctx.agent, "left_s": ctx.left_s, "on": ctx.deadline - time.monotonic()}


def progress(steps: int, ctx: Any) -> str:
    for step in range(steps):
        ctx.progress(step + 1, total=steps, message=f"step {step + 1}")
    return "done"


def progress_and_wait(path: str, ctx: Any) -> None:
    ctx.progress(1, message="waiting")
    hang(path)


def progress_wrongly(ctx: Any) -> None:
    ctx.progress("half")


def temporary(ctx: Any, *, private: bool) -> bool:
    if private:
        (ctx.scratch / "note").write_text("x")
    with tempfile.NamedTemporaryFile() as file:
        return file.name.startswith(os.environ.get("TOOLDISPATCHD_SCRATCH", "/nowhere"))


def scratch(ctx: Any) -> list[str]:
    (ctx.scratch / "note").write_text("x")
    return [str(ctx.scratch), os.environ["TMPDIR"], os.environ["TOOLDISPATCHD_SCRATCH"], tempfile.gettempdir()]


def read_file(path: str) -> str:
    fd = os.open(path, os.O_RDONLY)
    return os.read(fd, 1000).decode()


def load_late(module: str) -> str:
    return importlib.import_module(module).__name__


def import_late(module: str) -> str:
    """Import what nobody has imported yet, and write where a restricted function may."""
    importlib.import_module(module)
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")
        return str(Path(file.name).parent)


def allocate(size: int) -> int:
    return len(bytearray(size))


def open_many(count: int) -> int:
    return len([Path("/dev/null").open() for _ in range(count)])


def write_file(path: str, size: int) -> int:
    return Path(path).write_bytes(bytes(size))


def spin() -> None:
    while True:
        pass


def spin_deaf() -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    spin()


def spin_for(cpu_s: float) -> None:
    until = time.process_time() + cpu_s
    while time.process_time() < until:
        pass


def cannot_fork() -> None:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def crash_for_memory() -> None:
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def crash() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def start_thread() -> str:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return "started"


def grow(size: int) -> int:
    """Keep so much memory."""
    KEPT.append(b"x" * size)
    return os.getpid()


KEPT: list[bytes] = []
