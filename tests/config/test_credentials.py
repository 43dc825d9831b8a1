"""Reading credentials out of a parsed configuration."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.config.credentials import Credentials, known_secrets, take_credentials
from tooldispatchd.config.key_patterns import Table


def taken(profile: Table, environ: dict[str, str] | None = None) -> Credentials:
    return take_credentials({"agents": {"a": profile}}, environ or {})


def whys(credentials: Credentials) -> list[str]:
    return [problem.why for problem in credentials.problems]


def digest(token: bytes) -> dict[str, bytes]:
    return {"a": sha256(token).digest()}


def test_a_token_is_taken_out_of_the_table() -> None:
    profile: Table = {"token": "s3cret", "tools": []}
    assert taken(profile) == Credentials(digest(b"s3cret"), (), ())
    assert profile == {"tools": []}


def test_a_token_that_is_refused_is_taken_out_too() -> None:
    profile: Table = {"token": "s3cret", "token_env": "X"}
    assert whys(taken(profile)) == ['"token" says already where the token is']
    assert profile == {"token_env": "X"}


def test_a_variable_holds_a_token() -> None:
    assert taken({"token_env": "X"}, {"X": "ä"}).tokens == digest("ä".encode())


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, "the environment has no such variable"),
        ({"X": ""}, "the token is empty"),
        ({"X": "\udcff"}, "the token is not UTF-8"),
        ({"X": "x" * 4097}, "the token has more than 4096 bytes"),
        ({"X": "ä" * 2049}, "the token has more than 4096 bytes"),
    ],
)
def test_a_variable_that_holds_none_is_a_problem(environ: dict[str, str], why: str) -> None:
    credentials = taken({"token_env": "X"}, environ)
    assert (credentials.tokens, whys(credentials)) == ({}, [why])


def test_a_token_may_have_4096_bytes() -> None:
    assert taken({"token": "x" * 4096}).tokens == digest(b"x" * 4096)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_newline_at_the_end_of_a_file_is_no_part_of_the_token(tmp_path: Path, end: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"x" * 4096 + end)
    file.chmod(0o600)
    assert taken({"token_file": str(file)}) == Credentials(digest(b"x" * 4096), (), ())


def test_only_one_newline_is_taken_off(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b" a\nb\n\n")
    assert taken({"token_file": str(file)}).tokens == digest(b" a\nb\n")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the token is empty"),
        (b"\n", "the token is empty"),
        (b"\xff", "the token is not UTF-8"),
        (b"x" * 4097, "the token has more than 4096 bytes"),
        (b"x" * 100_000, "the token has more than 4096 bytes"),
    ],
)
def test_a_file_that_holds_none_is_a_problem(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    credentials = taken({"token_file": str(file)})
    assert (credentials.tokens, whys(credentials)) == ({}, [why])


def test_what_is_no_file_is_refused_without_waiting_and_leaves_no_descriptor(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    why = "cannot read the token's file: "
    assert whys(taken({"token_file": str(tmp_path / "pipe")})) == [f"{why}it is not a regular file"]
    assert whys(taken({"token_file": str(tmp_path)})) == [f"{why}Is a directory"]
    assert whys(taken({"token_file": "/dev/zero"})) == [f"{why}it is not a regular file"]
    assert whys(taken({"token_file": str(tmp_path / "none")})) == [f"{why}No such file or directory"]
    assert whys(taken({"token_file": "a\0b"})) == [f"{why}no file can have this name"]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("mode", "warnings"),
    [(0o400, 0), (0o640, 0), (0o644, 1), (0o602, 1)],
)
def test_a_file_that_others_may_read_or_change_is_a_warning(tmp_path: Path, mode: int, warnings: int) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret")
    file.chmod(mode)
    credentials = taken({"token_file": str(file)})
    assert credentials.tokens == digest(b"s3cret")
    assert len(credentials.warnings) == warnings


def test_names_become_numbers_in_place() -> None:
    profile: Table = {"uid": ["root", 1001], "gid": "root"}
    assert taken(profile) == Credentials({}, (), ())
    assert profile == {"uid": [0, 1001], "gid": [0]}


@pytest.mark.parametrize("owner", ["s3-nobody", "", "a\0b", "\udcff", -1, 2**32 - 1, 2**70, 3.0])
def test_who_does_not_exist_is_a_problem_with_the_place(owner: object) -> None:
    credentials = taken({"uid": [0, owner], "gid": owner})
    assert [problem.path for problem in credentials.problems] == [("agents", "a", "uid", 1), ("agents", "a", "gid")]


@given(st.sampled_from(["token", "token_env", "token_file"]), st.text(min_size=8, max_size=30).map("§{}".format))
def test_no_problem_bears_what_was_written(key: str, text: str) -> None:
    profile: Table = {key: text + "${", "uid": "s3-nobody"}
    assert text not in repr(taken(profile))


def test_where_tokens_are_given_out_is_no_secret() -> None:
    oauth = {"token_url": "https://login.example/token", "client_id": "me"}
    table: Table = {"rest": {"a": {"base_url": "https://a.example", "auth": "oauth", "oauth": oauth}}}
    assert set(known_secrets(table, Credentials({}, (), ()), (), (), ())) == set()


def test_the_password_of_the_audits_store_is_known_in_both_its_forms() -> None:
    table: Table = {"audit": {"store": "postgresql://ada:p%40ssword@host/calls"}}
    assert set(known_secrets(table, Credentials({}, (), ()), (), (), ())) == {"p%40ssword", "p@ssword"}
