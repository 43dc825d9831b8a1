"""When files that are watched are read anew, by a clock of the tests' own."""

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
import trio.testing

from tests.agent.fakes import Ledger
from tooldispatchd.config.stamps import stamp_of
from tooldispatchd.daemon.reload.watching import MAX_BACKOFF_S, MAX_WRITING_S, FileWatch

SETTLED_S = 5.0


class Reader:
    """Reads a file whenever its watch says so."""

    def __init__(self, path: Path, read: Callable[[], object], *, may_write: bool) -> None:
        self._path = path
        self._read = read
        self._may_write = may_write
        self.log = Ledger()
        # In seconds from the first one.
        self.times: list[float] = []
        self._asked = trio.Event()
        self._watch = FileWatch(self.log, self._ask)

    def _ask(self) -> None:
        self._asked.set()

    async def run(self) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch.run)
            while True:
                self._asked = trio.Event()
                stamps = {self._path: stamp_of(self._path)}
                self._read()
                self.times.append(trio.current_time() - began)
                self._watch.follow(stamps, may_write=self._may_write)
                await self._asked.wait()


def watched(
    path: Path, read: Callable[[], object], act: Callable[[Reader], Awaitable[None]], *, may_write: bool = False
) -> Reader:
    """What became of a reader while the test acted."""

    async def live() -> Reader:
        reader = Reader(path, read, may_write=may_write)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            await act(reader)
            nursery.cancel_scope.cancel()
        return reader

    return trio.run(live, clock=trio.testing.MockClock(autojump_threshold=0.02))


def test_a_reading_that_changes_its_files_is_made_ever_more_seldom(tmp_path: Path) -> None:
    file, written = tmp_path / "token", iter(range(1000))
    reader = watched(file, lambda: file.write_text("x" * next(written)), lambda _: trio.sleep(300.0), may_write=True)
    pauses = [after - before for before, after in zip(reader.times, reader.times[1:], strict=False)]
    assert pauses[0] < 1
    assert MAX_BACKOFF_S <= max(pauses) < MAX_BACKOFF_S + 2
    assert 10 < len(pauses) < 20
    assert reader.log.events == ["reading changes its own files"]


def test_a_file_that_somebody_saves_again_and_again_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("")

    async def act(reader: Reader) -> None:
        for count in range(1, 8):
            await trio.sleep(0.7)
            assert len(reader.times) == count
            file.write_text("x" * count)

    assert watched(file, lambda: None, act).log.events == []


def test_a_file_that_is_being_written_is_read_when_it_is_closed_and_not_waited_for_without_end(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("all of it")
    read: list[str] = []

    async def act(_: Reader) -> None:
        await trio.sleep(SETTLED_S)
        with file.open("w") as begun:
            await trio.sleep(1)
            (tmp_path / ".config.toml.swp").touch()
            await trio.sleep(SETTLED_S)
            assert read == ["all of it"]
            begun.write("half")
            begun.flush()
            await trio.sleep(SETTLED_S)
            assert read == ["all of it"]
            begun.write(" and more")
        await trio.sleep(SETTLED_S)
        assert read == ["all of it", "half and more"]
        with file.open("a") as kept:
            for _more in range(2):
                kept.write(".")
                kept.flush()
                await trio.sleep(MAX_WRITING_S + SETTLED_S)
            assert read[2:] == ["half and more.", "half and more.."]

    watched(file, lambda: read.append(file.read_text()), act)


def test_a_directory_that_is_made_anew_is_watched_again(tmp_path: Path) -> None:
    directory = tmp_path / "of" / "secrets"
    file = directory / "token"
    directory.mkdir(parents=True)
    file.write_text("first")

    async def act(reader: Reader) -> None:
        async def look(times: int) -> None:
            await trio.sleep(SETTLED_S)
            assert len(reader.times) == times

        await look(1)
        shutil.rmtree(directory.parent)
        await look(2)
        directory.mkdir(parents=True)
        await look(2)
        file.write_text("second")
        await look(3)
        file.write_text("third, and longer")
        await look(4)
        directory.rename(tmp_path / "old")
        directory.mkdir()
        file.write_text("fourth")
        await look(5)
        file.write_text("fifth, and longer")
        await look(6)

    watched(file, lambda: None, act)


def test_a_file_that_is_moved_away_is_read_when_another_one_has_its_place(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("first")
    read: list[str] = []

    async def act(reader: Reader) -> None:
        await trio.sleep(SETTLED_S)
        file.rename(tmp_path / "tools.py~")
        await trio.sleep(0.2)
        file.write_text("second")
        await trio.sleep(0.1)
        assert len(reader.times) == 2

    watched(file, lambda: read.append(file.read_text()), act)
    assert read == ["first", "second"]


def test_what_others_write_in_its_directory_delays_no_reading(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("first")

    async def act(reader: Reader) -> None:
        await trio.sleep(SETTLED_S)
        with (tmp_path / "log").open("a") as log:
            file.write_text("second")
            for _ in range(10):
                await trio.sleep(0.01)
                log.write("a line")
                log.flush()
        assert len(reader.times) == 2

    watched(file, lambda: None, act)


def test_a_change_that_only_the_clock_of_changes_shows_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("first")

    async def act(reader: Reader) -> None:
        await trio.sleep(SETTLED_S)
        at = file.stat().st_mtime_ns
        file.write_text("other")
        os.utime(file, ns=(at, at))
        await trio.sleep(SETTLED_S)
        assert len(reader.times) == 2

    watched(file, lambda: None, act)
