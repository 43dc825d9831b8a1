"""Documents of OpenAPI that are kept between starts, as JSON: what a URL gave, and what a large file in YAML says.

    DIRECTORY (0700)/DIGEST.json (0600)   a line that says of which text it was made, and the document

The digest in a file's name is that of the URL or the path, so that there is one file for each. A daemon that starts
reads what is there and asks nobody.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.catalog.statedirectory import find_state_directory
from tooldispatchd.config.files import UnusableFileError, read_bytes
from tooldispatchd.privatefiles import replace_private

# The largest known document, Microsoft's Graph, has 47.
MAX_DOCUMENT_BYTES: Final = 64 * MIB
_PRIVATE_DIRECTORY: Final = 0o700


class KeptDocumentError(Exception):
    """A document cannot be kept; the text is a clause that says why."""


class KeptDocument(msgspec.Struct, frozen=True):
    """A document as JSON, and the SHA-256 of the text that it was made of."""

    text: bytes
    digest: str


class _Head(msgspec.Struct):
    source: str
    document: str


class KeptDocuments:
    """The files of one user. Making it touches none of them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._directory = find_state_directory(environ)

    def read(self, origin: str) -> KeptDocument | None:
        """What is kept of a URL or a path; None where that is nothing, or nothing that can be trusted."""
        path = self.place_of(origin)
        if path is None:
            return None
        try:
            head, _, text = read_bytes(path, MAX_DOCUMENT_BYTES + MIB).partition(b"\n")
            said = msgspec.json.decode(head, type=_Head)
        except (UnusableFileError, msgspec.DecodeError):
            return None
        return KeptDocument(text, said.source) if said.document == digest_of(text) else None

    def write(self, origin: str, document: KeptDocument) -> Path:
        """Keep a document in the place of what is kept of its origin; the file. Raises `KeptDocumentError`."""
        path = self.place_of(origin)
        if path is None:
            raise KeptDocumentError("neither $STATE_DIRECTORY nor $XDG_STATE_HOME nor $HOME names a directory")
        head = msgspec.json.encode(_Head(document.digest, digest_of(document.text)))
        try:
            path.parent.mkdir(_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            replace_private(path, (head, b"\n", document.text))
        except OSError as error:
            raise KeptDocumentError(f"cannot write {path}: {error.strerror}") from None
        return path

    def place_of(self, origin: str) -> Path | None:
        """Where the document of an origin is kept; None where nothing names a directory."""
        if self._directory is None:
            return None
        return Path(self._directory) / "openapi" / f"{digest_of(origin.encode())[:40]}.json"


def digest_of(text: bytes) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text).hexdigest()
