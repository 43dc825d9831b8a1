import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tooldispatchd.toolbox.encodings import Encoding, Text, bytes_of, shown, text_of

GERMAN = "Ein Stück Käse für die Bäckerei, und größere Öfen.\n" * 20
RUSSIAN = "Привет, как дела? Это обычный текст на русском языке.\n" * 5
JAPANESE = "これは日本語のテキストです。文字コードを調べます。\n" * 5
FRENCH = "L\u2019été dernier, à l\u2019hôtel, il a mangé des gâteaux.\n" * 9


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", Text("")),
        (b"one\ntwo", Text("one\ntwo")),
        (b"one\r\ntwo\r\n", Text("one\ntwo\n", newline="\r\n")),
        (b"one\r\ntwo\n", Text("one\r\ntwo\n")),
        (b"one\rtwo\r", Text("one\rtwo\r")),
        ("é\n".encode(), Text("é\n")),
        (b"\xef\xbb\xbfone\n", Text("one\n", Encoding("utf-8", b"\xef\xbb\xbf"))),
        (b"\xff\xfeo\0\r\0\n\0", Text("o\n", Encoding("utf-16-le", b"\xff\xfe"), "\r\n")),
        (b"\xfe\xff\0o\0\n", Text("o\n", Encoding("utf-16-be", b"\xfe\xff"))),
        (b"\xff\xfe\0\0o\0\0\0", Text("o", Encoding("utf-32-le", b"\xff\xfe\0\0"))),
        (b"\0\0\xfe\xff\0\0\0o", Text("o", Encoding("utf-32-be", b"\0\0\xfe\xff"))),
        ("one\n".encode("utf-16-le"), Text("one\n", Encoding("utf-16-le"))),
        ("one\n".encode("utf-16-be"), Text("one\n", Encoding("utf-16-be"))),
        (f"{FRENCH}😀\n".encode("utf-16-le"), Text(f"{FRENCH}😀\n", Encoding("utf-16-le"))),
        (b"caf\xe9\n", Text("café\n", Encoding("cp1252"))),
        (b"caf\xe9", Text("café", Encoding("cp1252"))),
        (b"a\x81\xe9\n", Text("a\x81é\n", Encoding("latin-1"))),
        (GERMAN.encode("cp1252"), Text(GERMAN, Encoding("cp1252"))),
        (b"x\n" * 90_000 + GERMAN.encode("cp1252"), Text("x\n" * 90_000 + GERMAN, Encoding("cp1252"))),
        (RUSSIAN.encode("cp1251"), Text(RUSSIAN, Encoding("cp1251"))),
        (FRENCH.encode("cp1252"), Text(FRENCH, Encoding("cp1252"))),
        (RUSSIAN.encode("koi8_r"), Text(RUSSIAN, Encoding("koi8_r"))),
        (JAPANESE.encode("cp932"), Text(JAPANESE, Encoding("cp932"))),
        (JAPANESE.encode("euc_jp"), Text(JAPANESE, Encoding("euc_jp"))),
        ((JAPANESE * 300).encode("cp932"), Text(JAPANESE * 300, Encoding("cp932"))),
        (GERMAN.encode() + b"\xff\n", Text(GERMAN + "\udcff\n")),
        (b"\x1b[31mred\x1b[0m\n", Text("\x1b[31mred\x1b[0m\n")),
    ],
)
def test_a_text_is_read_in_its_encoding_and_written_in_it(data: bytes, text: Text) -> None:
    assert text_of(data) == text
    assert bytes_of(text) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\x7fELF\x02\x01\x01\0\0\0\0",
        b"text\nand a \0 in it\n",
        b"\x01\0\x02\0\x03\0\x04\0",
        bytes(range(1, 256)),
        b"\xff\xfeo",
    ],
)
def test_what_is_binary_is_no_text(data: bytes) -> None:
    assert text_of(data) is None


@given(st.binary())
@example(b"\r\n\r\r\n")
@example(b"\xff\xfe\r\0\n\0")
@example("ÄÖÜ äöü ß, ÄÖÜ äöü ß, ÄÖÜ äöü ß".encode("cp1252"))
def test_no_byte_of_any_text_is_lost(data: bytes) -> None:
    text = text_of(data)
    assert text is None or bytes_of(text) == data


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])))
def test_any_text_without_control_characters_is_read_as_utf8(text: str) -> None:
    assert text_of(text.encode()) == Text(text) or text.startswith("\ufeff")


def test_a_changed_text_keeps_what_it_was_written_in() -> None:
    text = text_of(b"\xff\xfe" + "one\r\n".encode("utf-16-le"))
    assert text is not None
    changed = msgspec.structs.replace(text, text="one\ntwo\n")
    assert bytes_of(changed) == b"\xff\xfe" + "one\r\ntwo\r\n".encode("utf-16-le")


def test_a_character_that_the_encoding_lacks_is_an_error() -> None:
    with pytest.raises(UnicodeEncodeError):
        bytes_of(Text("日本", Encoding("cp1252")))


def test_bytes_that_are_no_text_are_shown_as_replacement_characters() -> None:
    assert shown("a\udcff\udc80b") == "a��b"


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        (Encoding(), "UTF-8"),
        (Encoding("utf-16-le", b"\xff\xfe"), "UTF-16-LE with BOM"),
        (Encoding("koi8_r"), "KOI8-R"),
    ],
)
def test_an_encoding_is_named_as_people_write_it(encoding: Encoding, name: str) -> None:
    assert str(encoding) == name
