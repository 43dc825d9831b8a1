"""How the places of a daemon become others while it listens on them."""

import socket
from collections.abc import Iterable
from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from tests.agent.fakes import OUT_BUFFER_BYTES, Ledger
from tests.daemon.places.test_inheritance import catalog
from tooldispatchd.agent.session.entrance import Entrance
from tooldispatchd.config.listen_values import ListenAddress, parse_places
from tooldispatchd.daemon.places.doors import Door, open_doors
from tooldispatchd.daemon.places.inheritance import Handed
from tooldispatchd.daemon.places.openplaces import OpenPlaces
from tooldispatchd.front.front import Front
from tooldispatchd.front.timer import Timer


class Store:
    """A service manager that keeps all sockets."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def store(self, handed: Handed) -> bool:
        self.kept |= {name for _, name in handed}
        return True

    def forget(self, names: Iterable[str]) -> None:
        self.kept -= set(names)


class Listening:
    """Places that are served, and what came in at them."""

    def __init__(self, *texts: str) -> None:
        self.accepted: list[str] = []
        self.renewed: list[tuple[str, str]] = []
        self.store = Store()
        self.timer = Timer(Ledger())
        self.front = Front(self.timer, Ledger(), out_buffer_bytes=OUT_BUFFER_BYTES, stalled_s=10)
        self.places = OpenPlaces(self.front, (), self.store, self._accept, self._renew)
        self.places.serve(open_doors(addresses(*texts), (), catalog()))

    def _accept(self, door: Door, connection: socket.socket) -> None:
        self.accepted.append(f"{door.where} metrics" if door.metrics is not None else door.entrance.profile)
        connection.close()

    def _renew(self, before: Entrance, entrance: Entrance) -> None:
        self.renewed.append((before.profile, entrance.profile))

    def become(self, *texts: str) -> list[str]:
        """Listen on these from now on; what cannot be had before a restart."""
        change = self.places.prepare(addresses(*texts), catalog())
        self.places.take(change)
        return change.warnings

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.front.run)
            await wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()


def addresses(*texts: str) -> list[ListenAddress]:
    found, problems = parse_places(texts, {"default": None, "other": None})
    assert not problems
    return found


async def test_a_place_that_stays_keeps_who_waits_there_and_has_its_new_entrance(tmp_path: Path) -> None:
    listening = Listening(f"unix:{tmp_path}/s")
    with socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(f"{tmp_path}/s")
        assert listening.become(f"unix:{tmp_path}/s?profile=other") == []
        await listening.run()
    assert listening.accepted == ["other"]
    assert listening.renewed == [("default", "other")]
    listening.places.close()


async def test_places_of_metrics_come_and_go_as_those_of_agents_do(tmp_path: Path) -> None:
    own, metrics = f"unix:{tmp_path}/s", f"http+unix:{tmp_path}/m?path=/metrics"
    listening = Listening(own)
    assert listening.become(own, metrics) == []
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.connect(f"{tmp_path}/m")
        await listening.run()
    assert listening.accepted == [f"{metrics} metrics"]
    assert listening.become(own) == []
    assert not (tmp_path / "m").exists()
    assert (tmp_path / "s").exists()
    listening.places.close()


def test_places_for_mcp_clients_come_and_go_too(tmp_path: Path) -> None:
    own, first, second = (f"unix:{tmp_path}/s", f"http+unix:{tmp_path}/one", f"http+unix:{tmp_path}/two")
    listening = Listening(own, first)
    (before,) = listening.places.web
    assert listening.become(own, second) == []
    (after,) = listening.places.web
    assert (after.place.text, after.name == before.name) == (second, False)
    assert [(tmp_path / name).exists() for name in ("one", "two")] == [False, True]
    listening.places.close()


def test_what_is_not_to_be_after_all_leaves_no_place(tmp_path: Path) -> None:
    listening = Listening(f"unix:{tmp_path}/s")
    listening.places.prepare(addresses(f"unix:{tmp_path}/s", f"unix:{tmp_path}/t"), catalog()).drop()
    assert not (tmp_path / "t").exists()
    assert listening.places.texts == (f"unix:{tmp_path}/s",)
    listening.places.close()


def test_a_manager_keeps_the_sockets_of_places_that_are_there(tmp_path: Path) -> None:
    listening = Listening(f"unix:{tmp_path}/s")
    before = set(listening.store.kept)
    listening.become(f"unix:{tmp_path}/s", f"unix:{tmp_path}/t")
    assert (len(before), len(listening.store.kept)) == (2, 4)
    listening.become(f"unix:{tmp_path}/s")
    assert listening.store.kept == before
    listening.places.close()


def test_once_it_is_over_nothing_is_opened_again(tmp_path: Path) -> None:
    listening = Listening(f"unix:{tmp_path}/s")
    listening.places.close()
    listening.become(f"unix:{tmp_path}/s", f"unix:{tmp_path}/t")
    assert not listening.places
    assert not (tmp_path / "t").exists()
