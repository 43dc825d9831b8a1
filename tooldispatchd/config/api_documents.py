"""The documents of OpenAPI that a configuration names: read from files in JSON or YAML, or from what is kept of a URL.

A reference to a file is followed where that lies beside the document or below; all texts have the names that
references have for them in the end, as from the document's own directory. What is elsewhere stays a reference, which
leads nowhere.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from posixpath import normpath
from typing import Final

import msgspec

from tooldispatchd.catalog.openapi.adapter import ApiSource
from tooldispatchd.catalog.problems import cut
from tooldispatchd.config.documents import DocumentError
from tooldispatchd.config.files import UnusableFileError, read_bytes
from tooldispatchd.config.kept_documents import (
    MAX_DOCUMENT_BYTES,
    KeptDocument,
    KeptDocumentError,
    KeptDocuments,
    digest_of,
)

# Documents in several files have one for each of their schemas.
MAX_FILES: Final = 256
# What is larger in YAML takes more than 100 ms to read, at every start.
LARGE_YAML_BYTES: Final = 256 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_REFERENCE: Final = re.compile(rb'("\$ref"\s*:\s*)("(?:[^"\\]|\\.)*")')
_ELSEWHERE: Final = re.compile(rb'"\$ref"\s*:\s*"(?!#)')


class UnusableApiError(Exception):
    """A document that cannot be read; `allowed` says what would help."""

    def __init__(self, why: str, allowed: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.allowed = allowed


def is_url(spec: str) -> bool:
    """Whether a `spec` is a URL, and no file."""
    return "://" in spec


def read_source(spec: str, name: str, environ: Mapping[str, str]) -> ApiSource:
    """The document that the table `name` names, a URL or a path. Raises `UnusableApiError`."""
    kept = KeptDocuments(environ)
    if is_url(spec):
        found = kept.read(spec)
        if found is None:
            why = "this document has not been fetched yet, and is not at a start"
            raise UnusableApiError(why, f"tooldispatchd openapi {name} --update")
        return ApiSource(found.text, url=spec)
    path = Path(spec)
    text = _read(path, kept)
    return _with_files(path, text)


def as_json(content: bytes) -> bytes:
    """A document in JSON or YAML as JSON. Raises `UnusableApiError`."""
    text = content.removeprefix(_BOM)
    # JSON is YAML, too, and read a hundred times as fast.
    if text.lstrip()[:1] == b"{":
        return text
    # YAML is imported for it alone.
    from tooldispatchd.config.yaml_documents import read_shared_yaml  # noqa: PLC0415  # see above

    try:
        encoded = msgspec.json.encode(read_shared_yaml(text.decode()))
    except DocumentError as error:
        raise UnusableApiError(f"line {error.line}: {cut(error.why, 200)}") from None
    except UnicodeDecodeError:
        raise UnusableApiError("it is not UTF-8") from None
    except (RecursionError, ValueError):
        raise UnusableApiError("what its aliases stand for is nested too deep") from None
    if len(encoded) > MAX_DOCUMENT_BYTES:
        raise UnusableApiError("with what its aliases stand for it is too large")
    return encoded


def _read(path: Path, kept: KeptDocuments) -> bytes:
    try:
        content = read_bytes(path, MAX_DOCUMENT_BYTES)
    except UnusableFileError as error:
        raise UnusableApiError(f"cannot {error.verb} this file: {error.why}") from None
    if len(content) <= LARGE_YAML_BYTES or content.removeprefix(_BOM).lstrip()[:1] == b"{":
        return as_json(content)
    digest, origin = digest_of(content), str(path.absolute())
    found = kept.read(origin)
    if found is not None and found.digest == digest:
        return found.text
    text = as_json(content)
    # Else it takes its time at the next start, too.
    with suppress(KeptDocumentError):
        kept.write(origin, KeptDocument(text, digest))
    return text


def _with_files(path: Path, text: bytes) -> ApiSource:
    """The document with the files that it refers to, and that these refer to."""
    if _ELSEWHERE.search(text) is None:
        return ApiSource(text)
    home = Path(os.path.realpath(path)).parent
    texts = {path.name: text}
    room = MAX_DOCUMENT_BYTES - len(text)
    finished: dict[str, bytes] = {}
    while texts:
        name, content = texts.popitem()
        finished[name], named = _with_references(content, name, path.name)
        for other in named - finished.keys() - texts.keys():
            file = Path(os.path.realpath(home / other))
            if len(finished) + len(texts) > MAX_FILES or not file.is_relative_to(home):
                continue
            try:
                texts[other] = as_json(read_bytes(file, max(room, 0)))
            except (UnusableFileError, UnusableApiError):
                # The reference leads nowhere, which is told of whatever has it.
                continue
            room -= len(texts[other])
    return ApiSource(finished.pop(path.name), finished)


def _with_references(content: bytes, name: str, document: str) -> tuple[bytes, set[str]]:
    """The file `name` with its references as from the directory of the document, and the files that they name."""
    named: set[str] = set()
    return _REFERENCE.sub(lambda found: found[1] + _renamed(found[2], name, document, named), content), named


def _renamed(quoted: bytes, name: str, document: str, named: set[str]) -> bytes:
    """A reference in the file `name`, written anew; the file that it leads to is put among `named`."""
    try:
        reference: str = msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError:
        return quoted
    file, sign, fragment = reference.partition("#")
    if is_url(file) or file.startswith(("/", "\\")):
        return quoted
    other = normpath(f"{name.rpartition('/')[0]}/{file}".removeprefix("/")) if file else name
    if other == document:
        return msgspec.json.encode(f"#{fragment}")
    if not other.startswith("../"):
        named.add(other)
    return msgspec.json.encode(f"{other}{sign}{fragment}")
