from tooldispatchd.cli.top import keys


def test_keys_have_names_whatever_the_terminals_mode_is() -> None:
    assert keys(b"\x1b[A\x1bOBq\x1b") == ["up", "down", "q", "escape"]
    assert keys(b"\r<\x7f\x1b[5~\xc3\xa4") == ["enter", "<", "backspace", "\x1b[5~"]
