"""What a daemon leaves to the next one: names that both find, and descriptors of which none is lost."""

import os
import socket
from pathlib import Path

import msgspec

from tests.daemon.activated import Manager
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.listen_values import ListenAddress, ListenKind
from tooldispatchd.daemon.places.doors import close_all, open_doors
from tooldispatchd.daemon.places.inheritance import Inheritance, divide, names_of
from tooldispatchd.daemon.systemd import Notifier


def unix(path: Path) -> ListenAddress:
    return ListenAddress(f"unix:{path}", ListenKind.UNIX, str(path))


def catalog() -> Catalog:
    built = build_catalog(Config())
    assert isinstance(built, Catalog)
    return built


def test_a_name_is_that_of_the_place_and_not_of_what_it_admits(tmp_path: Path) -> None:
    place = unix(tmp_path / "s")
    assert names_of(msgspec.structs.replace(place, uids=("any",))) == names_of(place)
    assert names_of(unix(tmp_path / "s")) != names_of(unix(tmp_path / "t"))
    assert names_of(ListenAddress("x", ListenKind.ABSTRACT, "s")) != names_of(ListenAddress("x", ListenKind.UNIX, "s"))


def test_descriptors_of_a_unit_are_told_from_those_of_a_daemon() -> None:
    ours = names_of(unix(Path("/run/s")))
    handed = [(3, "default"), (4, ours[0]), (5, "place-of-mine"), (6, ours[1])]
    assert divide(handed) == ([(4, ours[0]), (6, ours[1])], [(3, "default"), (5, "place-of-mine")])


def test_a_socket_goes_from_one_daemon_to_the_next_with_its_queue(tmp_path: Path, nothing_left: None) -> None:
    place = unix(tmp_path / "s")
    (old,) = open_doors([place], (), catalog())
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(place.name)
        handed = [(os.dup(fd), name) for fd, name in old.handed]
        old.hand_over()
        old.close()
        (new,) = open_doors([place], (), catalog(), Inheritance(handed))
        new.doors[0].socket.accept()[0].close()
    new.close()
    assert list(tmp_path.iterdir()) == []


def test_a_socket_to_which_nothing_leads_any_more_is_not_taken(tmp_path: Path, nothing_left: None) -> None:
    place = unix(tmp_path / "s")
    (old,) = open_doors([place], (), catalog())
    handed = [(os.dup(fd), name) for fd, name in old.handed]
    old.hand_over()
    old.close()
    (tmp_path / "s").unlink()
    opened = open_doors([place], (), catalog(), Inheritance(handed))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(place.name)
    close_all(opened)


def test_what_is_no_listening_socket_is_closed(tmp_path: Path, nothing_left: None) -> None:
    place = unix(tmp_path / "s")
    names = names_of(place)
    inheritance = Inheritance([(os.open(tmp_path, os.O_RDONLY), names[0]), (os.open(tmp_path, os.O_RDONLY), names[1])])
    assert inheritance.take(place) is None
    assert inheritance.close() == []


def test_no_more_is_stored_than_the_manager_keeps(tmp_path: Path) -> None:
    manager = Manager(f"{tmp_path}/notify")
    notifier = Notifier({"NOTIFY_SOCKET": manager.address, "FDSTORE": "2"})
    assert notifier.store([(0, "place-a"), (1, "lock-a")])
    assert not notifier.store([(0, "place-b")])
    notifier.forget(["place-a", "lock-a"])
    assert notifier.store([(0, "place-b")])
    notifier.close()
    heard = [manager.hear() for _ in range(5)]
    assert heard[0] == ["FDSTORE=1", "FDNAME=place-a", "FDPOLL=0"]
    assert heard[2:4] == [["FDSTOREREMOVE=1", "FDNAME=place-a"], ["FDSTOREREMOVE=1", "FDNAME=lock-a"]]
    manager.socket.close()


def test_a_manager_without_a_store_is_given_nothing(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": f"{tmp_path}/notify"})
    assert not notifier.store([(0, "place-a")])
    notifier.close()
