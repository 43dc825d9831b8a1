"""Clients that come and go while servers die and the configuration is applied anew: `python -m tests.churn`.

Each call says a text of its own, and gets it back or a fault that its tool may give. What is looked for are answers
that are lost (no line came within `PATIENCE_S`), doubled (a second line for one id), or crossed (another call's text).
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from tests.daemon.forking import preloaded
from tests.daemon.spawned import MISBEHAVING, Daemon, Message, daemon_on, server, until

CLIENTS: Final = 250
PATIENCE_S: Final = 30.0
VANISHING: Final = 0.2
# A session that is killed with its server each time is a process each time: a tenth of them has one of its own.
OWNING: Final = 0.1
TOOLS: Final = ("echo", "echo", "shout", "extra", "docs:echo", "docs:echo", "rare:echo", "own:echo")
AT_SERVERS: Final = frozenset({"connection_dead", "server_unavailable"})
# Of a tool that only some of the configurations have, and of servers whose call was taken back or hangs.
MAY_BE: Final = {"extra": frozenset({"unknown_tool", "not_allowed"}), "own:echo": AT_SERVERS | {"unknown_tool"}}


def config(generation: int) -> str:
    """One of six configurations, each of which says something else of tools and servers."""
    extra = '[tools.extra]\ntype = "string -> string"\ninline = "id"\n' if generation % 2 else ""
    trace = f"trace = {json.dumps(generation % 3 == 0)}"
    tools = '"echo", "shout"' + (', "extra"' if extra else "")
    common = f'tools = [{tools}]\nmcp = ["docs", "rare"'
    return "\n".join(
        [
            '[tools.echo]\ntype = "string -> string"\ninline = "id"',
            '[tools.shout]\ncommand = ["/bin/cat"]\ninput_mode = "text"\noutput_mode = "text"',
            extra,
            server("docs", "echo", "shared = true", 'restart = "backoff"', trace if generation % 6 > 3 else ""),
            server("rare", "echo", "shared = true", "lazy = true", 'restart = "backoff"'),
            server("own", "echo", trace),
            f"[agents.default]\n{common}]\n[agents.owning]\n{common}, 'own']",
            f"[limits]\ncall_s = {50 + generation % 4}\n",
        ]
    )


class Churn:
    """What was done and what was found, for as long as it goes on."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.daemon = daemon
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.findings: list[str] = []
        self.is_over = False

    async def run(self, seconds: float, clients: int) -> None:
        """Go on for so many seconds, and wait for what was begun then."""
        async with trio.open_nursery() as nursery, trio.open_nursery() as coming:
            for number in range(clients):
                coming.start_soon(self._slot, number)
            nursery.start_soon(self._reload)
            nursery.start_soon(self._kill)
            await trio.sleep(seconds)
            self.is_over = True

    async def _slot(self, number: int) -> None:
        await trio.sleep(self.random.random())
        while not self.is_over:
            self.counts["clients"] += 1
            await Client(self, f"{number}.{self.counts['clients']}").run()

    async def _reload(self) -> None:
        stream = await trio.open_unix_socket(str(self.daemon.path))
        lines = Lines(stream)
        while not self.is_over:
            await trio.sleep(self.random.uniform(0.7, 3))
            self.counts["reloads"] += 1
            (self.daemon.path.parent / "config.toml").write_text(config(self.counts["reloads"]))
            asked = {"__port": "admin_req", "id": str(self.counts["reloads"]), "ask": "reload", "apply": True}
            with trio.move_on_after(PATIENCE_S):
                await stream.send_all(json.dumps(asked).encode() + b"\n")
                told = await lines.next()
                if told is None or told["__port"] != "admin_resp":
                    self.findings.append(f"reload {self.counts['reloads']}: {told}")
                continue
            self.findings.append(f"reload {self.counts['reloads']} was not answered")
        await stream.aclose()

    async def _kill(self) -> None:
        while not self.is_over:
            await trio.sleep(self.random.uniform(0.2, 1.5))
            for pid in self.random.sample(sorted(self.daemon.running(str(MISBEHAVING))), k=1):
                self.counts["kills"] += 1
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Lines:
    """The lines of a stream, None at its end."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._read = bytearray()

    async def next(self) -> Message | None:
        """The next line."""
        while b"\n" not in self._read:
            try:
                some = await self._stream.receive_some()
            except trio.BrokenResourceError:
                some = b""
            if not some:
                return None
            self._read += some
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read[:] = rest
        found: Message = json.loads(line)
        return found


class Client:
    """One channel: some batches of calls, the answers to each of which it waits for, then its end."""

    def __init__(self, churn: Churn, name: str) -> None:
        self._churn = churn
        self._name = name
        self._open: dict[str, tuple[str, str, frozenset[str]]] = {}
        self._said = 0

    async def run(self) -> None:
        """From its `hello` to its end."""
        churn, chance = self._churn, self._churn.random
        stream = await trio.open_unix_socket(str(churn.daemon.path))
        lines = Lines(stream)
        agent = {"agent": "a"} if chance.random() < 0.3 else {}
        profile = "owning" if chance.random() < OWNING else "default"
        async with stream:
            hello: Message = {"__port": "hello", "profile": profile, **agent}
            # Who calls before it has heard `ready` waits with its calls for servers that are opening.
            first = [hello, *self._batch(profile, agent)]
            await self._send(stream, first)
            for _ in range(chance.randrange(1, 12)):
                if chance.random() < VANISHING / 6:
                    churn.counts["vanished"] += 1
                    return
                if not await self._answered(lines):
                    return
                await trio.sleep(chance.random() * 0.3)
                await self._send(stream, self._batch(profile, agent))
            await stream.send_eof()
            is_whole = await self._answered(lines)
            while is_whole and (told := await lines.next()) is not None:
                if told["__port"] != "ready":  # for which nobody waited
                    churn.findings.append(f"doubled: {told}")

    async def _send(self, stream: trio.SocketStream, messages: list[Message]) -> None:
        with suppress(trio.BrokenResourceError):  # its answers end too, which is told
            await stream.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def _batch(self, profile: str, agent: Message) -> list[Message]:
        """Some calls, some of which are cancelled or have little time."""
        chance, messages = self._churn.random, list[Message]()
        for _ in range(chance.randrange(1, 6)):
            tool = chance.choice(TOOLS if profile == "owning" else TOOLS[:-1])
            self._said += 1
            call_id, text = str(self._said), f"{self._name}/{self._said}"
            may_be = MAY_BE.get(tool, AT_SERVERS if ":" in tool else frozenset())
            value: object = {"text": text} if ":" in tool else text
            call: Message = {"__port": "tool_req", "id": call_id, "name": tool, "input": value, **agent}
            if chance.random() < 0.05:
                call["deadline_ms"] = chance.randrange(1, 200)
                may_be |= {"timeout"}
            messages.append(call)
            if chance.random() < 0.05:
                messages.append({"__port": "tool_cancel", "id": call_id, **agent})
                may_be |= {"cancelled"}
            self._open[call_id] = tool, text, may_be
        return messages

    async def _answered(self, lines: Lines) -> bool:
        """Wait for the answers to all that is open; whether they came."""
        while self._open:
            told: Message | None = None
            with trio.move_on_after(PATIENCE_S) as scope:
                told = await lines.next()
            if told is None:
                why = "is lost" if scope.cancelled_caught else "is lost with its channel"
                calls = {call_id: tool for call_id, (tool, _, _) in self._open.items()}
                self._churn.findings.append(f"{self._name}: the answer {why}: {calls}")
                return False
            if told["__port"] == "tool_resp":
                self._check(told)
            elif told["__port"] != "ready":
                self._churn.findings.append(f"{self._name}: {told}")
        return True

    def _check(self, told: Message) -> None:
        churn = self._churn
        asked = self._open.pop(told["id"], None)
        churn.counts["answers"] += 1
        if asked is None:
            churn.findings.append(f"{self._name}: doubled: {told}")
            return
        tool, text, may_be = asked
        if told.get("fault"):
            error = json.loads(told["content"])["error"]
            churn.faults[f"{tool} {error}"] += 1
            if error not in may_be:
                churn.findings.append(f"{self._name}: {tool}: {told['content']}")
        elif told["content"] not in {text, json.dumps(text)}:
            churn.findings.append(f"{self._name}: crossed: {text}: {told}")


def churn(seconds: float, *, seed: int, clients: int = CLIENTS) -> Churn:
    """Play it on a daemon of its own, which must leave nothing."""
    with tempfile.TemporaryDirectory() as directory, daemon_on(Path(directory), config(0)) as daemon:
        played = Churn(daemon, seed)
        trio.run(played.run, seconds, clients)
        until(lambda: daemon.logged("session opened") == daemon.logged("session closed"))
        daemon.process.send_signal(signal.SIGTERM)
        if (code := daemon.process.wait(PATIENCE_S)) != 0:
            played.findings.append(f"the daemon has exited with {code}")
        played.findings += [line for line in daemon.log.read_text().splitlines() if '"incident' in line]
    return played


def main() -> int:
    """0 where nothing was lost, doubled or crossed."""
    parser = argparse.ArgumentParser(prog="python -m tests.churn", description=__doc__)
    parser.add_argument("--seconds", type=float, default=200, help="how long it goes on (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="so many at a time (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="choose as another run did (default: another each time)")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    with preloaded():
        played = churn(args.seconds, seed=seed, clients=args.clients)
    print(dict(played.counts), dict(played.faults), *played.findings[:50], sep="\n")
    print(f"{len(played.findings)} findings")
    return 1 if played.findings else 0


if __name__ == "__main__":
    sys.exit(main())
