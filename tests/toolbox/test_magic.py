import pytest

from tooldispatchd.toolbox.magic import binary_kind, image_type, is_pdf


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", None),
        (b"\x89PNG", None),
        (b"", None),
    ],
)
def test_an_image_is_known_by_its_first_bytes(head: bytes, media_type: str | None) -> None:
    assert image_type(head) == media_type


@pytest.mark.parametrize(("head", "is_one"), [(b"%PDF-1.7\n", True), (b"%PDF", False), (b"% PDF-1.7", False)])
def test_a_pdf_is_known_by_its_first_bytes(head: bytes, is_one: bool) -> None:
    assert is_pdf(head) is is_one


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x7fELF\x02", "an ELF program or library"),
        (b"\x1f\x8b\x08", "gzip data"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\0\0\0\x18ftypmp42", "an MP4 film or HEIF image"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "WAV sound"),
        (b"\0" * 257 + b"ustar", "a tar archive"),
        (b"\0\0\0\0", "of an unknown kind"),
        (b"", "of an unknown kind"),
    ],
)
def test_what_is_no_text_is_named_by_its_first_bytes(head: bytes, kind: str) -> None:
    assert binary_kind(head) == kind
