"""Secrets out of files; `test_credentials` has what may be wrong with one."""

from pathlib import Path

import pytest

from tooldispatchd.config.credentials import SecretError, read_secret_file


def test_a_file_is_read_without_the_newline_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"hunter2\r\n")
    file.chmod(0o640)
    assert read_secret_file(str(file), 100, what="secret") == ("hunter2", 0o640)


def test_no_more_is_read_than_shows_that_it_is_too_long(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x" * 1000)
    assert read_secret_file(str(file), 10, what="secret")[0] == "x" * 13


def test_an_error_names_what_was_looked_for_and_not_the_file(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"^cannot read the key's file: No such file or directory$"):
        read_secret_file(str(tmp_path / "none"), 10, what="key")
