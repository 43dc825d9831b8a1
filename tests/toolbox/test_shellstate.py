from tooldispatchd.toolbox.shellstate import ShellState, left

BASE = {"PATH": "/bin", "HOME": "/here", "TOOLDISPATCHD_RUN_ID": "1"}


def test_what_differs_from_the_environment_is_kept() -> None:
    written = b"\0PATH=/bin\0A=1\0TOOLDISPATCHD_RUN_ID=2\0SHLVL=1\0_=/usr/bin/env\0PWD=/usr\0"
    assert left(written, BASE) == (ShellState("/usr", {"A": "1"}, ["HOME"]), [])


def test_of_what_was_written_twice_the_last_counts() -> None:
    first, second = b"\0PATH=/bin\0HOME=/here\0A=\0PWD=/\0", b"\0PATH=/bin\0HOME=/here\0B=2\0PWD=/usr\0"
    assert left(first + second, BASE) == (ShellState("/usr", {"B": "2"}, []), [])


def test_of_nothing_there_is_no_state() -> None:
    assert left(b"", BASE) is None
    assert left(b"\0", BASE) is None


def test_a_directory_that_is_no_text_is_not_kept() -> None:
    assert left(b"\0PATH=/bin\0HOME=/here\0PWD=/\xff\0", BASE) == (ShellState(), ["the directory"])


def test_the_next_shell_has_it_over_what_it_would_have() -> None:
    state = ShellState("/usr", {"A": "é", "PATH": "/usr/bin"}, ["HOME"])
    assert state.over(BASE) == {"PATH": "/usr/bin", "TOOLDISPATCHD_RUN_ID": "1", "A": "é"}
