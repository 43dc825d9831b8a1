import os
import stat
from pathlib import Path

import pytest
import trio
import trio.testing

from tooldispatchd.http.oauth.tokens import (
    CREDENTIAL,
    LOCK_S,
    MAX_FILE_BYTES,
    Seal,
    SealError,
    Tokens,
    TokenStore,
    TokenStoreError,
    find_directory,
    find_seal,
)

KEY = bytes(range(32))
TOKENS = Tokens(access_token="secret-access", refresh_token="secret-refresh", scope="a")


def store_in(home: Path, **environ: str) -> TokenStore[Tokens]:
    return TokenStore({"XDG_STATE_HOME": str(home)} | environ, Tokens)


def file_in(home: Path, name: str = "entry") -> Path:
    return home / "tooldispatchd" / "oauth" / f"{name}.json"


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "HOME": "/home/u"}, "/var/lib/a/oauth"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/u"}, "/state/tooldispatchd/oauth"),
        ({"XDG_STATE_HOME": "state", "HOME": "/home/u"}, "/home/u/.local/state/tooldispatchd/oauth"),
        ({"HOME": "/home/u"}, "/home/u/.local/state/tooldispatchd/oauth"),
    ],
)
def test_the_directory_is_the_services_or_the_users(environ: dict[str, str], directory: str) -> None:
    assert find_directory(environ) == Path(directory)


def test_a_store_without_a_directory_says_so_when_it_is_used() -> None:
    with pytest.raises(TokenStoreError, match="no directory for tokens"):
        TokenStore({}, Tokens).read("entry")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    assert store_in(tmp_path).read("entry") == TOKENS
    assert store_in(tmp_path).read("other") is None


def test_who_only_reads_makes_nothing(tmp_path: Path) -> None:
    assert store_in(tmp_path).read("entry") is None
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "tooldispatchd").write_text("")
    with pytest.raises(TokenStoreError, match=r"cannot make .*/tooldispatchd/oauth: Not a directory"):
        store_in(tmp_path).write("entry", TOKENS)
    with pytest.raises(TokenStoreError, match=r"cannot read .*: Not a directory"):
        store_in(tmp_path).read("entry")


def test_a_directory_that_others_can_get_at_is_refused(tmp_path: Path) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    file_in(tmp_path).parent.chmod(0o750)
    for use in (
        store_in(tmp_path).read,
        store_in(tmp_path).forget,
        lambda name: store_in(tmp_path).write(name, TOKENS),
    ):
        with pytest.raises(TokenStoreError, match=r"others may get at it \(mode 0750\)"):
            use("entry")


def test_nobody_else_can_get_at_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store_in(tmp_path).write("entry", TOKENS)
    finally:
        os.umask(before)
    file = file_in(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["entry.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_get_at_is_refused(tmp_path: Path, mode: int) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    file_in(tmp_path).chmod(mode)
    with pytest.raises(TokenStoreError, match=rf"others may get at it \(mode 0{mode:o}\)"):
        store_in(tmp_path).read("entry")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    os.chown(file_in(tmp_path), 65534, 65534)
    with pytest.raises(TokenStoreError, match="it belongs to another user"):
        store_in(tmp_path).read("entry")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    store_in(tmp_path).write("other", TOKENS)
    file_in(tmp_path).symlink_to(file_in(tmp_path, "other"))
    with pytest.raises(TokenStoreError, match="cannot read"):
        store_in(tmp_path).read("entry")


@pytest.mark.parametrize("content", [b"", b"{", b'{"access_token":5,"refresh_token":"secret"}', b"\xff", b"[" * 9000])
def test_a_file_that_is_none_of_ours_is_said_and_not_shown(tmp_path: Path, content: bytes) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    file_in(tmp_path).write_bytes(content)
    with pytest.raises(TokenStoreError, match="it is not a token file") as caught:
        store_in(tmp_path).read("entry")
    assert "secret" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_over_the_bound_is_not_read(tmp_path: Path) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    file_in(tmp_path).write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(TokenStoreError, match="over 512 KiB"):
        store_in(tmp_path).read("entry")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    store_in(tmp_path).write("other", TOKENS)
    os.mkfifo(file_in(tmp_path))
    with pytest.raises(TokenStoreError, match="not a regular file"):
        store_in(tmp_path).read("entry")


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    with pytest.raises(TokenStoreError, match="over 512 KiB"):
        store_in(tmp_path).write("entry", Tokens(scope="x" * MAX_FILE_BYTES))
    assert store_in(tmp_path).read("entry") == TOKENS
    assert len(list(file_in(tmp_path).parent.iterdir())) == 1


def test_what_is_forgotten_is_gone(tmp_path: Path) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    assert store_in(tmp_path).forget("entry")
    assert not store_in(tmp_path).forget("entry")
    assert store_in(tmp_path).read("entry") is None


# --- sealed ---


def key_in(home: Path, key: bytes = KEY) -> dict[str, str]:
    (home / "tooldispatchd-token-key").write_bytes(key)
    return {"CREDENTIALS_DIRECTORY": str(home)}


def test_with_a_key_nothing_is_readable_on_disk(tmp_path: Path) -> None:
    environ = key_in(tmp_path)
    store_in(tmp_path, **environ).write("entry", TOKENS)
    assert b"secret" not in file_in(tmp_path).read_bytes()
    assert store_in(tmp_path, **environ).read("entry") == TOKENS


def test_a_sealed_file_without_its_key_is_said(tmp_path: Path) -> None:
    store_in(tmp_path, **key_in(tmp_path)).write("entry", TOKENS)
    with pytest.raises(TokenStoreError, match="it is sealed, and there is no credential tooldispatchd-token-key"):
        store_in(tmp_path).read("entry")


def test_a_sealed_file_under_another_name_is_refused(tmp_path: Path) -> None:
    environ = key_in(tmp_path)
    store_in(tmp_path, **environ).write("entry", TOKENS)
    file_in(tmp_path).rename(file_in(tmp_path, "other"))
    with pytest.raises(TokenStoreError, match="or changed"):
        store_in(tmp_path, **environ).read("other")


def test_an_open_file_is_read_with_a_key_and_sealed_by_the_next_write(tmp_path: Path) -> None:
    store_in(tmp_path).write("entry", TOKENS)
    sealing = store_in(tmp_path, **key_in(tmp_path))
    assert sealing.read("entry") == TOKENS
    sealing.write("entry", TOKENS)
    assert b"secret" not in file_in(tmp_path).read_bytes()


def test_a_key_that_is_none_is_said_when_the_store_is_used(tmp_path: Path) -> None:
    store = store_in(tmp_path, **key_in(tmp_path, b"short"))
    with pytest.raises(TokenStoreError, match="shorter than 32 bytes"):
        store.write("entry", TOKENS)


def test_what_cannot_be_opened_can_be_forgotten(tmp_path: Path) -> None:
    store_in(tmp_path, **key_in(tmp_path)).write("entry", TOKENS)
    assert store_in(tmp_path, **key_in(tmp_path, b"short")).forget("entry")


def test_what_is_sealed_is_opened_by_an_equal_key() -> None:
    sealed = Seal(KEY).close(b"content", "a.json")
    assert b"content" not in sealed
    assert Seal(KEY).open(sealed, "a.json") == b"content"


def test_the_same_content_is_never_sealed_the_same() -> None:
    assert Seal(KEY).close(b"content", "a") != Seal(KEY).close(b"content", "a")


def test_another_key_another_name_or_another_byte_opens_nothing() -> None:
    sealed = Seal(KEY).close(b"content", "a.json")
    for seal, content, name in (
        (Seal(KEY[::-1]), sealed, "a.json"),
        (Seal(KEY), sealed, "b.json"),
        (Seal(KEY), sealed[:-1] + bytes([sealed[-1] ^ 1]), "a.json"),
        (Seal(KEY), sealed[:30], "a.json"),
    ):
        with pytest.raises(SealError, match="another key than the credential tooldispatchd-token-key, or changed"):
            seal.open(content, name)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(SealError, match="shorter than 32 bytes"):
        Seal(KEY[:31])


def test_the_credential_is_found_where_the_manager_puts_it(tmp_path: Path) -> None:
    (tmp_path / CREDENTIAL).write_bytes(KEY)
    seal = find_seal({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert seal is not None
    assert Seal(KEY).open(seal.close(b"content", "a"), "a") == b"content"


def test_without_a_credential_nothing_is_sealed(tmp_path: Path) -> None:
    assert find_seal({}) is None
    assert find_seal({"CREDENTIALS_DIRECTORY": str(tmp_path)}) is None


def test_a_credential_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / CREDENTIAL).mkdir()
    with pytest.raises(SealError, match="cannot read the credential tooldispatchd-token-key: Is a directory"):
        find_seal({"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_a_credential_that_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / CREDENTIAL).write_bytes(b"x" * 65_537)
    with pytest.raises(SealError, match="longer than 65536 bytes"):
        find_seal({"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_no_key_is_shown() -> None:
    assert repr(Seal(KEY)) == "Seal(…)"


# --- locks ---


async def test_who_holds_the_lock_keeps_others_out(tmp_path: Path) -> None:
    events: list[str] = []
    one, another = store_in(tmp_path), store_in(tmp_path)

    async def wait() -> None:
        async with another.lock("entry"):
            events.append("another has it")

    async with trio.open_nursery() as nursery, one.lock("entry"):
        nursery.start_soon(wait)
        async with another.lock("other"):
            events.append("another one is free")
        await trio.testing.wait_all_tasks_blocked()
        events.append("one gives it up")
    assert events == ["another one is free", "one gives it up", "another has it"]


async def test_a_lock_that_is_never_given_up_is_waited_for_no_longer_than_a_flow(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    async with store_in(tmp_path).lock("entry"):
        with pytest.raises(TokenStoreError, match="another process has held it for 35 s"):
            async with store_in(tmp_path).lock("entry"):
                pass
    assert trio.current_time() - began == pytest.approx(LOCK_S, abs=0.1)


def test_no_repr_shows_a_token() -> None:
    assert repr(TOKENS) == "Tokens(access_token, refresh_token, scope)"
