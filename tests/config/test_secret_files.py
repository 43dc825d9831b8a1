"""Secrets out of files; `test_credentials` has what may be wrong with one."""

from pathlib import Path

import pytest

from tooldispatchd.config.credentials import SecretError, read_secret_file, read_variable


def test_a_file_is_read_without_the_newline_at_its_end_and_shown_by_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"hunter2\r\n")
    file.chmod(0o640)
    read = read_secret_file(str(file), 100, what="secret")
    assert (read.text, read.is_exposed, repr(read)) == ("hunter2", False, "SecretFile(mode=0640)")


def test_no_more_is_read_than_shows_that_it_is_too_long(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x" * 1000)
    assert read_secret_file(str(file), 10, what="secret").text == "x" * 13


def test_an_error_names_what_was_looked_for_and_neither_file_nor_variable(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"^cannot read the key's file: No such file or directory$"):
        read_secret_file(str(tmp_path / "none"), 10, what="key")
    with pytest.raises(SecretError, match=r"^the environment has no such variable$"):
        read_variable("NONE", {})
