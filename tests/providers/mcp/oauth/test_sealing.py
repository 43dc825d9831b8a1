from pathlib import Path

import pytest

from tooldispatchd.providers.mcp.oauth.sealing import CREDENTIAL, Seal, SealError, find_seal, is_sealed

KEY = bytes(range(32))


def test_what_is_sealed_is_opened_by_an_equal_key() -> None:
    sealed = Seal(KEY).close(b"content", "a.json")
    assert is_sealed(sealed)
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
