"""What a file's bytes are as text, and back without losing one.

`text_of` and `bytes_of` are inverse to each other: what an editing tool does not change stays as it is, byte for byte,
with its encoding, its byte order mark and its line endings.
"""

import codecs
import re
from contextlib import suppress
from typing import Final, Literal

import msgspec

# As much as is looked at to tell text from binary data and one old encoding from another.
SAMPLE_BYTES: Final = 64 * 1024
# With fewer characters beyond ASCII there is nothing to count, and the western encoding is the likeliest.
_COUNTABLE: Final = 16
# Old encodings of files on a Unix machine; with all that there are French and Polish look like what a Macintosh wrote.
_USUAL: Final = [
    *("cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
# UTF-32 first: its mark in little endian begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# All but those that texts have: tab, line and page ends, backspace, bell, and the escape of terminals.
_CONTROLS: Final = re.compile(r"[\x00-\x06\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")
_ESCAPED: Final = re.compile(r"[\udc80-\udcff]")


class Encoding(msgspec.Struct, frozen=True):
    """How characters are written: the name of Python's codec, and the mark in front, if there is one."""

    name: str = "utf-8"
    mark: bytes = b""

    def __str__(self) -> str:
        return self.name.upper().replace("_", "-") + (" with BOM" if self.mark else "")


class Text(msgspec.Struct, frozen=True):
    r"""A file's text with what is needed to write it as it was.

    With `newline` "\r\n" every line ended so, and ends with "\n" in `text`. A file in which both occur keeps them in
    `text`, as its "\r\n" and "\n" are. Bytes that are no UTF-8 in a file that else is stand in `text` as the surrogates
    of `surrogateescape`: pass what is shown to a model through `shown`.
    """

    text: str
    encoding: Encoding = Encoding()
    newline: Literal["\n", "\r\n"] = "\n"


def text_of(data: bytes) -> Text | None:
    """The text of a whole file; None for what is binary."""
    encoding = encoding_of(data)
    if encoding is None:
        return None
    body = data[len(encoding.mark) :]
    try:
        text = body.decode(encoding.name, _errors(encoding))
        if text.encode(encoding.name, _errors(encoding)) != body:
            raise UnicodeError  # noqa: TRY301  # a codec that writes some characters otherwise than it read them
    except UnicodeError:
        if encoding.name.startswith("utf"):
            return None
        encoding, text = Encoding("latin-1"), body.decode("latin-1")
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        return Text(text.replace("\r\n", "\n"), encoding, "\r\n")
    return Text(text, encoding)


def bytes_of(text: Text) -> bytes:
    """What to write; raises UnicodeEncodeError for a character that the encoding does not have."""
    body = text.text if text.newline == "\n" else text.text.replace("\n", "\r\n")
    return text.encoding.mark + body.encode(text.encoding.name, _errors(text.encoding))


def shown(text: str) -> str:
    """The text for a model: a replacement character for each byte that is none."""
    return _ESCAPED.sub("\N{REPLACEMENT CHARACTER}", text)


def encoding_of(data: bytes) -> Encoding | None:
    """That of a file, or of its head as far as a line goes; None for what is binary."""
    sample = data[:SAMPLE_BYTES]
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return Encoding(name, mark)
    wide = _wide(sample)
    if wide is None and 0 in sample:
        return None
    name = wide or ("utf-8" if _is_utf8(data) else _legacy(data))
    text = codecs.getincrementaldecoder(name)("replace").decode(sample)
    # Binary data has one in ten; a log may have some.
    return None if len(_CONTROLS.findall(text)) * 50 > len(text) else Encoding(name)


def _errors(encoding: Encoding) -> str:
    return "surrogateescape" if encoding.name == "utf-8" else "strict"


def _wide(sample: bytes) -> str | None:
    """UTF-16 without a mark: of text in most languages one of the two bytes of a character is often zero.

    The other one is so in a few, such as the commonest of the faces (U+1F600).
    """
    high, low = sample[1::2].count(0), sample[::2].count(0)
    most = max(high, low)
    if min(high, low) * 20 > most or most * 5 < len(sample) // 2 or not most:
        return None
    return "utf-16-le" if high > low else "utf-16-be"


def _is_utf8(data: bytes) -> bool:
    """Whether this is UTF-8 but for a stray byte here and there, as a log has that two programs write."""
    text = data.decode("utf-8", "surrogateescape")
    if text.isascii():
        return True
    strays = len(_ESCAPED.findall(text))
    return strays * 5 <= sum(map(len, re.findall(r"[^\x00-\x7f]+", text)))


def _legacy(data: bytes) -> str:
    for name in (_likeliest(data), "cp1252"):
        with suppress(UnicodeDecodeError):
            data.decode(name)
            return name
    return "latin-1"


def _likeliest(data: bytes) -> str:
    # Few files need it, and its import takes 20 ms.
    from charset_normalizer import from_bytes  # noqa: PLC0415

    # A long head in ASCII says nothing, and half a character at the end would speak against the right encoding.
    first = _BEYOND_ASCII.search(data)
    start = max(0, first.start() - 1024) if first else 0
    sample = data[start : start + SAMPLE_BYTES]
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    if len(_BEYOND_ASCII.findall(sample)) < _COUNTABLE:
        return "cp1252"
    matches = list(from_bytes(sample, cp_isolation=_USUAL))
    best = [match for match in matches if match.chaos == matches[0].chaos]
    names = [name for match in best for name in (match.encoding, *match.could_be_from_charset)]
    # Of those that read the sample equally well the western one is the likeliest.
    return names[0] if names and "cp1252" not in names else "cp1252"
