"""Names and sockets by the test's own rule, through the seams that trio has for it."""

import socket
from dataclasses import dataclass, field
from typing import NoReturn

import trio

Address = tuple[str, int]
Found = tuple[int, int, int, str, tuple[str, int]]


@dataclass
class Names(trio.abc.HostnameResolver):
    """A name server: for each name a list of answers, of which the last stays."""

    answers: dict[str, list[list[str]]]
    asked: list[str] = field(default_factory=list)

    # The signature is the socket module's.
    async def getaddrinfo(  # type: ignore[override]  # noqa: PLR0917
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as in the socket module
        proto: int = 0,
        flags: int = 0,
    ) -> list[Found]:
        assert host is not None
        name = host.decode()
        self.asked.append(name)
        if name not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self.answers[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        assert isinstance(port, int)
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    async def getnameinfo(self, sockaddr: object, flags: int) -> NoReturn:
        raise NotImplementedError


@dataclass
class Sockets(trio.abc.SocketFactory):
    """Sockets that connect nowhere; `tried` is where they were to."""

    tried: list[object] = field(default_factory=list)

    def socket(self, family: int = 0, type: int = 0, proto: int = 0) -> "Refusing":  # noqa: A002 - as in the module
        return Refusing(self.tried)


class Refusing(trio.socket.SocketType):
    """A socket that is refused wherever it connects to."""

    def __init__(self, tried: list[object]) -> None:
        super().__init__()
        self._tried = tried

    async def connect(self, address: object) -> None:
        self._tried.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    def close(self) -> None:
        pass


def answer_names(**answers: list[list[str]]) -> Names:
    """Let trio ask this name server for the rest of the test; `_` stands for a dot."""
    names = Names({name.replace("_", "."): found for name, found in answers.items()})
    trio.socket.set_custom_hostname_resolver(names)
    return names


def refuse_connections() -> Sockets:
    """Let no socket connect for the rest of the test."""
    sockets = Sockets()
    trio.socket.set_custom_socket_factory(sockets)
    return sockets
