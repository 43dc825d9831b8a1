"""An OpenAPI document, decoded part by part: most of a large one is never looked at.

GitHub's has 13 MB, whose values would take 43; cut into its parts it takes a tenth of the time and nearly no memory. A
reference leads to a part of the document (`#/components/…`), or of a file beside it (`FILE#/…`) that has been read
together with it. Nothing is fetched.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.pointers import unescape, unescape_fragment
from tooldispatchd.catalog.problems import cut

# References to references; documents have two at most.
MAX_HOPS: Final = 16
MAX_QUOTED: Final = 100

_NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_value: Final = msgspec.json.Decoder().decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode

Object = dict[str, object]


class ApiDocumentError(Exception):
    """A document that is none of OpenAPI; the text says why."""


class UnfitError(Exception):
    """A part of a document that no tool can be made of; the text is a clause that says why."""


class ApiDocument:
    """A document, and the `files` beside it, by the names that references have for them: JSON texts, all of them.

    Raises `ApiDocumentError` where the text is no JSON object.
    """

    def __init__(self, text: bytes, files: Mapping[str, bytes] = _NO_FILES) -> None:
        self._texts = {"": text, **files}
        # Objects of which only the members' places are known, by file and steps.
        self._opened: dict[tuple[str, ...], dict[str, Raw]] = {}
        self._found: dict[str, object] = {}
        try:
            self._opened["",] = _decode_object(text)
        except _DECODE_ERRORS as error:
            raise ApiDocumentError(f"it is no JSON object: {cut(str(error), MAX_QUOTED)}") from None

    def members(self, *steps: str) -> dict[str, Raw]:
        """The members of the object where `steps` lead in the document; none where there is no object."""
        try:
            return self._open(("", *steps))
        except UnfitError:
            return {}

    def value(self, *steps: str) -> object:
        """What stands where `steps` lead, None where that is nothing."""
        raw = self.members(*steps[:-1]).get(steps[-1])
        return None if raw is None else decoded(raw)

    def follow(self, node: object) -> object:
        """What a node is, or where its reference leads. Raises `UnfitError`."""
        seen: list[str] = []
        while (reference := reference_of(node)) is not None:
            shown = f"its reference {cut(reference, MAX_QUOTED)}"
            if reference in seen:
                raise UnfitError(f"{shown} leads back to itself")
            if len(seen) == MAX_HOPS:
                raise UnfitError(f"{shown} stands behind {MAX_HOPS} others, each of which leads to the next")
            seen.append(reference)
            node = self.at(reference)
        return node

    def at(self, reference: str) -> object:
        """Where a reference leads. Raises `UnfitError`."""
        if reference not in self._found:
            file, _, fragment = reference.partition("#")
            if file not in self._texts:
                raise UnfitError(f"it refers to {cut(file, MAX_QUOTED)}, which is no file beside the document")
            steps = [unescape(step) for step in unescape_fragment(fragment).split("/")]
            if steps[0] or (len(steps) == 1 and not file):
                raise UnfitError(f"its reference {cut(reference, MAX_QUOTED)} is no pointer into the document")
            try:
                self._found[reference] = self._at(file, steps[1:])
            except UnfitError:
                raise UnfitError(f"its reference {cut(reference, MAX_QUOTED)} leads nowhere") from None
        return self._found[reference]

    def _at(self, file: str, steps: list[str]) -> object:
        if not steps:
            return decoded(Raw(self._texts[file]))
        around = self._open((file, *steps[:-1]))
        if steps[-1] not in around:
            raise UnfitError
        return decoded(around[steps[-1]])

    def _open(self, path: tuple[str, ...]) -> dict[str, Raw]:
        """The members of an object, or the items of a list by their numbers."""
        if path not in self._opened:
            if len(path) == 1:
                raw: Raw | None = Raw(self._texts[path[0]])
            else:
                raw = self._open(path[:-1]).get(path[-1])
            if raw is None:
                raise UnfitError
            self._opened[path] = members_of(raw)
        return self._opened[path]


def reference_of(node: object) -> str | None:
    """The reference that a node is."""
    reference = node.get("$ref") if isinstance(node, dict) else None
    return reference if isinstance(reference, str) else None


def decoded(raw: Raw) -> object:
    """The value of a part of a document that has been cut into its parts."""
    value: object = _decode_value(raw)
    return value


def members_of(raw: Raw) -> dict[str, Raw]:
    """The members of an object, or the items of a list by their numbers; none of anything else."""
    try:
        return _decode_object(raw)
    except msgspec.ValidationError:
        pass
    try:
        return {str(number): item for number, item in enumerate(_decode_list(raw))}
    except msgspec.ValidationError:
        return {}


def object_of(value: object) -> Object:
    """An object as it is, and an empty one in the place of anything else: a slip of an author's hand."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[object]:
    """Likewise a list."""
    return value if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Likewise a text, without the space around it."""
    return value.strip() if isinstance(value, str) else ""
