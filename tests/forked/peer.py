"""The daemon's part of the conversation with a forker, one word at a time."""

import json
import marshal
import socket
import subprocess
import sys
from array import array

GIVE = """
import os, sys
fd = int(sys.argv[1])
if fd != 3:
    os.dup2(fd, 3)
    os.close(fd)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Peer:
    """Starts `argv` with a control socket as its descriptor 3."""

    def __init__(self, argv: list[str]) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        with theirs:
            words = [sys.executable, "-I", "-S", "-c", GIVE, str(theirs.fileno()), *argv]
            self.process = subprocess.Popen(words, stderr=subprocess.PIPE, pass_fds=[theirs.fileno()])

    def say(self, request: object, *fds: int) -> None:
        self.send(marshal.dumps(request, 2), *fds)  # type: ignore[arg-type]  # of what it takes

    def send(self, chunk: bytes, *fds: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        self.socket.sendmsg([chunk], rights)

    def hear(self) -> object:
        return json.loads(self.socket.recv(65536))

    def ask(self, request: object, *fds: int) -> object:
        self.say(request, *fds)
        return self.hear()

    def end(self) -> tuple[int, str]:
        self.socket.close()
        said = self.process.communicate(timeout=20)[1]
        return self.process.returncode, said.decode()
