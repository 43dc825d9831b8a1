"""Examine the places to listen: each could be bound, or a daemon answers there. A running one is not disturbed.

A Unix socket is asked with a `ping`, which opens no session; a daemon that does not answer is stopped, or hangs. That
a port is free is found out by binding it without listening, and only where nobody listens.
"""

import errno
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.client.reach import find_socket, reach
from tooldispatchd.config.listen_values import ListenAddress, ListenKind, parse_places, quote_path
from tooldispatchd.daemon.places.doors import peer_of
from tooldispatchd.doctor.diagnosis import Diagnosis, Examiner, fine, warning, wrong

# A daemon answers a ping within a turn of its loop.
ANSWER_S: Final = 3.0
_PING: Final = b'{"__port":"ping"}\n'
MAX_ANSWER: Final = 4096
# TCP_LISTEN of net/tcp_states.h.
LISTEN: Final = "0A"
RUNTIME: Final = ("/run", "/var/run")


def place_examiners(catalog: Catalog, environ: Mapping[str, str]) -> Iterator[Examiner]:
    """A check for each place that `serve` would listen on."""
    written = catalog.config.daemon.listen or (f"unix:{quote_path(find_socket(environ))}",)
    places, problems = parse_places(written, catalog.openable)
    for problem in problems:
        # The environment's: the file's own stop the start.
        yield Examiner("place", str(problem.value), partial(wrong, problem.why))
    for place in places:
        yield Examiner("place", place.text, partial(examine_place, place, environ, places))


def examine_place(place: ListenAddress, environ: Mapping[str, str], places: Sequence[ListenAddress] = ()) -> Diagnosis:
    """Examine one place of `places`, all those of the configuration; blocks for some seconds at most."""
    if place.kind is ListenKind.ABSTRACT:
        return _examine_socket(place, f"@{place.name}") or fine("free")
    if place.kind in {ListenKind.HTTP, ListenKind.HTTPS}:
        return _examine_port(place, places)
    if place.kind not in {ListenKind.UNIX, ListenKind.HTTP_UNIX}:
        return fine("handed over at the start: nothing to look at")
    return _examine_path(place, Path(place.name), environ)


# --- Unix sockets ---


def _examine_path(place: ListenAddress, path: Path, environ: Mapping[str, str]) -> Diagnosis:
    try:
        above = path.parent.stat()
    except FileNotFoundError:
        return _examine_missing(path.parent, environ)
    except OSError as error:
        return wrong(f"its directory cannot be looked at: {error.strerror}", "run this as the daemon's user")
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        advice = f"chmod o-w {path.parent}"
        return wrong("anyone may write its directory, and put a socket in its place", advice)
    try:
        status = path.lstat()
    except FileNotFoundError:
        status = None
    except OSError as error:
        return wrong(f"it cannot be looked at: {error.strerror}", "run this as the daemon's user")
    if status is not None and not stat.S_ISSOCK(status.st_mode):
        return wrong("something that is no socket stands there", "move it away, or choose another path")
    found = None if status is None else _examine_socket(place, str(path))
    if found is not None:
        return found
    if not os.access(path.parent, os.W_OK | os.X_OK):
        advice = "run the daemon as a user who may, or change the directory's owner"
        return wrong(f"user {os.geteuid()} may not write its directory", advice)
    if status is not None and status.st_uid != os.geteuid() and place.owner is None:
        return wrong(f"a stale socket of user {status.st_uid} stands there", f"rm {path}")
    return fine("free" if status is None else "free: the stale socket there is replaced at the start")


def _examine_missing(directory: Path, environ: Mapping[str, str]) -> Diagnosis:
    named = (environ.get("XDG_RUNTIME_DIR", ""), *environ.get("RUNTIME_DIRECTORY", "").split(":"))
    if str(directory.parent) not in {*RUNTIME, *(each for each in named if each)}:
        return wrong(f"there is no directory {directory}", f"mkdir -p {directory}")
    if os.access(directory.parent, os.W_OK | os.X_OK):
        return fine("free; its directory is made at the start")
    advice = "a unit of systemd has RuntimeDirectory=; else mkdir it for the daemon's user, or choose another path"
    return wrong(f"user {os.geteuid()} may not make its directory {directory}", advice)


def _examine_socket(place: ListenAddress, address: str) -> Diagnosis | None:
    """Tell who listens on a Unix socket, and whether a daemon answers there; None where nobody does."""
    began = time.monotonic()
    try:
        connection = reach(address, within_s=ANSWER_S)
    except OSError as error:
        if error.errno in {errno.ECONNREFUSED, errno.ENOENT}:
            return None
        if error.errno == errno.EAGAIN:
            return wrong("whoever listens there does not accept", "end that process: fuser, ss -xlp")
        advice = "run this as a user who may connect there"
        return wrong(f"it cannot be connected to: {error.strerror}", advice)
    with connection:
        pid = None
        with suppress(OSError):
            pid = peer_of(connection).pid
        whose = f"pid {pid}" if pid else "a process that cannot be seen"
        if place.kind is ListenKind.HTTP_UNIX:
            return fine(f"{whose} listens there", pid=pid)
        if _state_of(pid) == "T":
            said = f"the process that listens there ({whose}) is stopped (SIGSTOP)"
            return wrong(said, f"kill -CONT {pid}", pid=pid)
        connection.settimeout(ANSWER_S)
        try:
            connection.sendall(_PING)
            answer = connection.recv(MAX_ANSWER)
        except OSError:
            answer = b""
    if b'"pong"' in answer or b'"not_authenticated"' in answer or b'"too_many"' in answer:
        took_ms = (time.monotonic() - began) * 1000
        said = f"a daemon answers there ({whose}); serve cannot take it a second time"
        return msgspec.structs.replace(fine(said, pid=pid), took_ms=took_ms)
    if answer:
        return wrong(f"{whose} listens there, and is no daemon of this kind", "choose another path", pid=pid)
    said = f"the process that listens there ({whose}) does not answer within {ANSWER_S:g} s"
    return wrong(said, "look at its log; kill it, and start it anew", pid=pid)


def _state_of(pid: int | None) -> str:
    """The state of a process, as in proc(5): T is stopped; empty where it cannot be told."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


# --- ports ---


def _examine_port(place: ListenAddress, places: Sequence[ListenAddress]) -> Diagnosis:
    family = socket.AF_INET6 if ":" in place.name else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the daemon does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.name, place.port))
        except OSError as error:
            pid = _daemon_at(place.port, places) if error.errno == errno.EADDRINUSE else None
            if pid is not None:
                return fine(f"the daemon that answers at another place listens there (pid {pid})", pid=pid)
            return _unbound(error)
    return fine("free")


def _daemon_at(port: int, places: Sequence[ListenAddress]) -> int | None:
    """The daemon that answers at one of the Unix places and has a socket that listens on this port."""
    listening = {f"socket:[{inode}]" for inode in _listening_at(port)}
    for place in places if listening else ():
        if place.kind not in {ListenKind.UNIX, ListenKind.ABSTRACT}:
            continue
        address = f"@{place.name}" if place.kind is ListenKind.ABSTRACT else place.name
        # Who is not seen, or has gone, is told of where its own place is examined.
        with suppress(OSError), reach(address, within_s=ANSWER_S) as connection:
            pid = peer_of(connection).pid
            if any(str(fd.readlink()) in listening for fd in Path(f"/proc/{pid}/fd").iterdir()):
                return pid
    return None


def _listening_at(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on a port, as in proc_pid_net(5)."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *rest = line.split()
                if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                    yield rest[5]


def _unbound(error: OSError) -> Diagnosis:
    if error.errno == errno.EADDRINUSE:
        advice = "if that is not this daemon, end it, or choose another port: ss -tlnp says whose it is"
        return warning("somebody listens there", advice)
    if error.errno in {errno.EACCES, errno.EPERM}:
        advice = "choose a port from 1024 on, or give the daemon CAP_NET_BIND_SERVICE"
        return wrong(f"user {os.geteuid()} may not bind it", advice)
    if error.errno == errno.EADDRNOTAVAIL:
        return wrong("this machine has no such address", "correct the address: ip addr lists them")
    return wrong(f"it cannot be bound: {error.strerror}", "choose another place")
