"""The file of what servers said of themselves: what one daemon has heard, the next one knows."""

from pathlib import Path

import pytest

from tooldispatchd.agent.tools.introductionfile import NAME, IntroductionFile
from tooldispatchd.providers.mcp.remembered import Introductions
from tooldispatchd.providers.mcp.server import Server, ServerOffer

KIT = Server(name="kit", argv=("kit",), max_line_bytes=1, max_content_bytes=1)
OTHER = Server(name="other", argv=("other",), max_line_bytes=1, max_content_bytes=1)


def opened(state: Path) -> tuple[Introductions, IntroductionFile]:
    introductions = Introductions()
    return introductions, IntroductionFile(introductions, {"STATE_DIRECTORY": str(state)})


async def test_the_next_daemon_knows_what_one_has_heard_and_keeps_what_others_have(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (first, its), (second, others) = opened(state), opened(state)
    first.keep(KIT, ServerOffer(said_name="Kit", instructions="Be kind."))
    second.keep(OTHER, ServerOffer(instructions="Be quick."))
    for file in (its, others):
        await file.write()
    later, _ = opened(state)
    assert later.get(KIT) == ServerOffer(said_name="Kit", instructions="Be kind.")
    assert later.get(OTHER) == ServerOffer(instructions="Be quick.")
    assert ((state / NAME).stat().st_mode & 0o777, state.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("written", [b"", b"{", b'{"a":1}', b"\xff", b'{"a":{"capabilities":{"b":[' + b"[" * 100_000])
async def test_a_file_that_cannot_be_read_is_written_anew(tmp_path: Path, written: bytes) -> None:
    (tmp_path / NAME).write_bytes(written)
    introductions, file = opened(tmp_path)
    introductions.keep(KIT, ServerOffer(instructions="Be kind."))
    await file.write()
    assert opened(tmp_path)[0].get(KIT) == ServerOffer(instructions="Be kind.")


async def test_without_a_directory_nothing_is_kept(tmp_path: Path) -> None:
    introductions = Introductions()
    file = IntroductionFile(introductions, {})
    introductions.keep(KIT, ServerOffer(instructions="Be kind."))
    await file.write()
    assert list(tmp_path.iterdir()) == []
