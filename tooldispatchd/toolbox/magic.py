"""What a file is by its first bytes: a name may lie."""

from typing import Final

_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_KINDS: Final = (
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program"),
    (b"\xcf\xfa\xed\xfe", "a macOS program"),
    (b"\0asm", "a WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "a Java class"),
    (b"PK\x03\x04", "a zip archive, as also office documents and wheels are"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet table"),
    (b"\xd0\xcf\x11\xe0", "an old office document"),
    (b"BM", "a BMP image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"\0\0\x01\0", "an icon"),
    (b"wOF", "a font"),
    (b"OggS", "Ogg sound"),
    (b"ID3", "MP3 sound"),
    (b"fLaC", "FLAC sound"),
)
# Of those that begin with something else, such as a length.
_KINDS_WITHIN: Final = (
    (4, b"ftyp", "an MP4 film or HEIF image"),
    (8, b"WAVE", "WAV sound"),
    (257, b"ustar", "a tar archive"),
)


def image_type(head: bytes) -> str | None:
    """The media type of an image that models can see, by the first bytes of its file."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _IMAGES if head.startswith(magic)), None)


def is_pdf(head: bytes) -> bool:
    """Whether a file that begins so is a PDF."""
    return head.startswith(b"%PDF-")


def binary_kind(head: bytes) -> str:
    """What a file that is no text is, in words, by its first bytes."""
    kinds = [kind for magic, kind in _KINDS if head.startswith(magic)]
    kinds += [kind for at, magic, kind in _KINDS_WITHIN if head.startswith(magic, at)]
    return kinds[0] if kinds else "of an unknown kind"
