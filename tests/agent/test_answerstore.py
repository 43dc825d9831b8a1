"""Cached answers in a file: they survive, within the bound, whatever happens to the process or to the file."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from msgspec import Raw

from tests.agent.fakes import Ledger
from tooldispatchd.agent.answerstore import (
    AnswerFile,
    AnswerFileError,
    DamagedFileError,
    keep_answers,
    open_file,
    packed,
    path_of,
    unpacked,
)
from tooldispatchd.calls.answercache import AnswerCache, CachedAnswer
from tooldispatchd.calls.memory import Holding, Memory
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.wire.messages import ContentKind, QuotedText

BOUND: Final = 64 * 1024
# Far above what anything here takes.
SOON_S: Final = 20.0

# Writes answers one after the other, each in a transaction of two, and says when it has begun.
WRITER: Final = """
import sys, time
from pathlib import Path
from tooldispatchd.agent.answerstore import AnswerFile, packed
from tooldispatchd.calls.outcome import Answer
file = AnswerFile(Path(sys.argv[1]))
number, now = 0, time.time()
while True:
    text = packed(Answer(str(number) * 500))
    keys = [b"%d-a" % number, b"%d-b" % number]
    gone = dict.fromkeys([b"%d-a" % (number - 50), b"%d-b" % (number - 50)])
    file.write({key: (key, "t", "", now, now + 1e6, text) for key in keys} | gone, now)
    number += 1
    if number == 20:
        print("begun", flush=True)
"""


def cache_of() -> AnswerCache:
    return AnswerCache(BOUND, Holding(Memory(100 * BOUND).share(None)))


def kept(text: str, *, lasts_s: float = 1000.0, tool: str = "t") -> CachedAnswer:
    now = trio.current_time()
    return CachedAnswer(Answer(text), tool, "s", now, now + lasts_s)


@asynccontextmanager
async def keeping(path: Path, log: Ledger | None = None) -> AsyncIterator[AnswerCache]:
    """A cache that is kept in the file."""
    cache, log = cache_of(), log or Ledger()
    with trio.fail_after(SOON_S):
        async with keep_answers(path, cache, log):
            yield cache


def put(cache: AnswerCache, key: bytes, cached: CachedAnswer) -> None:
    assert cache.put(key, cached, trio.current_time())


def found(cache: AnswerCache, key: bytes) -> object:
    cached = cache.get(key, trio.current_time())
    return None if cached is None else cached.answer.content


async def test_answers_survive_with_their_age_and_leave_with_their_time(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    async with keeping(path) as cache:
        put(cache, b"a", kept("one"))
        put(cache, b"b", kept("two", lasts_s=0.05))
        put(cache, b"c", kept("three"))
        cache.drop([b"c"])
    await trio.sleep(0.06)
    async with keeping(path) as cache:
        assert [found(cache, key) for key in (b"a", b"b", b"c")] == ["one", None, None]
        cached = cache.get(b"a", trio.current_time())
        assert cached is not None
        assert cached.server == "s"
        assert 0.05 < trio.current_time() - cached.made_at < SOON_S
        assert 900 < cached.until - trio.current_time() < 1000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_file_has_no_more_than_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    async with keeping(path) as cache:
        for number in range(40):
            put(cache, b"%d" % number, kept("x" * 6000))
        left = set(cache)
    assert len(left) < 10
    file = AnswerFile(path)
    assert file.keys() == left
    file.close()


async def test_who_clears_the_file_is_heard_and_what_is_new_stays(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    async with keeping(path) as cache:
        put(cache, b"a", kept("one", tool="a"))
        put(cache, b"b", kept("two", tool="b"))
        other = AnswerFile(path)
        while other.keys() != {b"a", b"b"}:
            await trio.sleep(0.01)
        assert other.clear(["a", "unknown"]) == 1
        assert [each.tool for each in other.tools(time.time())] == ["b"]
        other.close()
        while len(cache) > 1:
            await trio.sleep(0.01)
        put(cache, b"c", kept("three"))
        assert list(cache) == [b"b", b"c"]


def test_an_answer_is_the_same_when_it_is_read() -> None:
    for answer in (
        Answer("text", kind=ContentKind.TEXT, value='"text"', details=Raw(b'{"a":1}')),
        Answer("é", kind=ContentKind.BLOCKS, blocks=Raw(b'[{"type":"text","text":"e"}]'), largest_part=27),
    ):
        assert unpacked(packed(answer)) == answer
    large = unpacked(packed(Answer(QuotedText(bytearray(b'"x"'), 1), blocks=QuotedText(b"[]", 2))))
    assert isinstance(large.content, QuotedText)
    assert isinstance(large.blocks, QuotedText)
    assert (large.content.literal, large.content.size, large.blocks.literal) == (b'"x"', 1, b"[]")


@pytest.mark.parametrize("after_s", [0.0, 0.013])
def test_a_file_whose_writer_is_killed_opens_clean_with_whole_batches(tmp_path: Path, after_s: float) -> None:
    path = tmp_path / "cache.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begun\n"
        time.sleep(after_s)
        os.kill(writer.pid, signal.SIGKILL)
    opened = open_file(path, time.time())
    rows = {key: unpacked(text).content for key, _, _, _, _, text in opened.rows}
    opened.file.close()
    assert opened.aside is None
    numbers = {int(key.partition(b"-")[0]) for key in rows}
    assert numbers == set(range(max(min(numbers), 0), max(numbers) + 1))
    assert max(numbers) >= 19
    assert rows == {b"%d-%b" % (each, half): str(each) * 500 for each in numbers for half in (b"a", b"b")}


@pytest.mark.parametrize("damage", ["text", "page", "row"])
async def test_a_damaged_file_is_moved_aside_and_stops_nobody(tmp_path: Path, damage: str) -> None:
    path, log = tmp_path / "cache.db", Ledger()
    async with keeping(path) as cache:
        for number in range(8):
            put(cache, b"%d" % number, kept("x" * 6000))
    content = path.read_bytes()
    if damage == "row":
        database = sqlite3.connect(path)
        database.execute("UPDATE answers SET answer = x'c1' WHERE key = x'33'")
        database.commit()
        database.close()
    else:
        path.write_bytes(b"no database" if damage == "text" else content[:4096] + b"\xff" * (len(content) - 4096))
    async with keeping(path, log) as cache:
        assert len(cache) == 0
        put(cache, b"a", kept("one"))
    assert log.events == ["damaged cache moved aside"]
    assert path.with_name("cache.db.damaged").exists()
    async with keeping(path) as cache:
        assert found(cache, b"a") == "one"


@pytest.mark.parametrize("file", ["other.db", "directory", "missing/cache.db", "link.db"])
async def test_a_file_that_cannot_be_used_is_a_warning_and_stays_as_it_is(tmp_path: Path, file: str) -> None:
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("CREATE TABLE precious (a)")
    database.commit()
    database.close()
    (tmp_path / "directory").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere.db")
    before, log = (tmp_path / "other.db").read_bytes(), Ledger()
    async with keeping(tmp_path / file, log) as cache:
        put(cache, b"a", kept("one"))
        assert found(cache, b"a") == "one"
    assert log.events == ["cached answers not kept"]
    assert (tmp_path / "other.db").read_bytes() == before
    assert not (tmp_path / "elsewhere.db").exists()


async def test_where_the_file_breaks_later_the_daemon_goes_on_in_memory(tmp_path: Path) -> None:
    path, log = tmp_path / "cache.db", Ledger()
    async with keeping(path, log) as cache:
        other = sqlite3.connect(path)
        other.execute("DROP TABLE answers")
        other.commit()
        other.close()
        put(cache, b"a", kept("one"))
        while not log.events:
            await trio.sleep(0.01)
        assert log.events == ["cached answers no longer kept"]
        put(cache, b"b", kept("two"))
        assert found(cache, b"a") == "one"


def test_a_file_of_an_older_schema_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    AnswerFile(path).close()
    database = sqlite3.connect(path)
    database.execute("ALTER TABLE answers RENAME COLUMN tool TO name")
    database.execute("PRAGMA user_version = 0")
    database.close()
    file = AnswerFile(path)
    assert file.read(0.0) == []
    assert file.tools(0.0) == []
    file.close()


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    path.write_bytes(b"no database")
    with pytest.raises(DamagedFileError, match="not a database"):
        AnswerFile(path)
    with pytest.raises(AnswerFileError, match="No such file"):
        AnswerFile(tmp_path / "missing" / "cache.db")


def test_a_store_is_memory_or_a_file() -> None:
    assert path_of("memory") is None
    assert path_of("sqlite:/a/b:c.db") == Path("/a/b:c.db")
