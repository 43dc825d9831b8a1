"""Documents that are kept between starts: one file for each origin, trusted as far as it is what was written."""

import os
from pathlib import Path

import pytest

from tooldispatchd.config.kept_documents import KeptDocument, KeptDocumentError, KeptDocuments, digest_of

URL = "https://docs.example/openapi.json?key=s3cret"
DOCUMENT = KeptDocument(b'{"openapi":"3.1.0"}', digest_of(b"openapi: 3.1.0"))


def test_what_is_written_is_read_again_and_by_its_owner_alone(tmp_path: Path) -> None:
    kept = KeptDocuments({"STATE_DIRECTORY": str(tmp_path)})
    assert kept.read(URL) is None
    path = kept.write(URL, DOCUMENT)
    assert kept.read(URL) == DOCUMENT
    assert kept.read("https://docs.example/other") is None
    assert path.parent == tmp_path / "openapi"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "s3cret" not in str(path)


def test_a_document_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    kept = KeptDocuments({"STATE_DIRECTORY": str(tmp_path)})
    kept.write(URL, DOCUMENT)
    path = kept.write(URL, KeptDocument(b"{}", "x"))
    assert kept.read(URL) == KeptDocument(b"{}", "x")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"{}\n{}", b"not json\n{}", b'{"source":"a","document":"b"}\n{"x":1}'])
def test_a_file_that_is_not_what_was_written_is_none(tmp_path: Path, content: bytes) -> None:
    kept = KeptDocuments({"XDG_STATE_HOME": str(tmp_path)})
    kept.write(URL, DOCUMENT).write_bytes(content)
    assert kept.read(URL) is None


def test_a_file_that_anybody_may_write_is_none(tmp_path: Path) -> None:
    kept = KeptDocuments({"HOME": str(tmp_path)})
    path = kept.write(URL, DOCUMENT)
    assert path.is_relative_to(tmp_path / ".local/state/tooldispatchd")
    path.chmod(0o602)
    assert kept.read(URL) is None


def test_without_a_directory_nothing_is_kept() -> None:
    assert KeptDocuments({}).read(URL) is None
    with pytest.raises(KeptDocumentError, match="names a directory"):
        KeptDocuments({}).write(URL, DOCUMENT)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "openapi").touch()
    with pytest.raises(KeptDocumentError, match=f"cannot write {tmp_path}/openapi/"):
        KeptDocuments({"STATE_DIRECTORY": str(tmp_path)}).write(URL, DOCUMENT)
    assert os.listdir(tmp_path) == ["openapi"]  # noqa: PTH208  # names are wanted
