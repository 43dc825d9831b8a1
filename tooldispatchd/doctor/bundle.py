"""A report that can be shown to anybody: what was found, the configuration and the machine, without a secret.

A value of the configuration stands in it where its type lets it be shown, and as a mask else: what may be a secret,
and what nobody thought of, is none that may be shown. Then each secret that was read is looked for in
the whole, and so is each value that may be one, and the parts of it that stand where credentials do: a server that
fails may have written its arguments to stderr. Of a short one, which is in every text, only whole words are masked, and
only where it is a secret by its name.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from tooldispatchd.catalog.explanation import explain
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.secrecy import MASK, is_secret, is_shown_as
from tooldispatchd.catalog.servers import may_be_secret
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.doctor.diagnosis import Diagnosis, masked_diagnosis
from tooldispatchd.doctor.machine import machine_facts
from tooldispatchd.privatefiles import create_private

# RFC 9110, 11.1: what stands before a credential in a header.
SCHEMES: Final = frozenset(("bearer", "basic"))
# Of a shell, in a text that is one's script.
QUOTES: Final = "\"'"
# A part of a URL's path that is longer than words are, as of an address that lets in whoever knows it.
LONG_CHARS: Final = 16


def report_of(loaded: Loaded, diagnoses: Sequence[Diagnosis]) -> dict[str, object]:
    """The whole report as JSON."""
    masker = _masker_of(loaded)
    report: dict[str, object] = {
        "machine": machine_facts(),
        "findings": msgspec.to_builtins([masked_diagnosis(each, masker) for each in diagnoses]),
        "configuration": masked(loaded.written),
        "explained": explain(loaded.catalog),
    }
    found = masker.mask_value(report)
    assert isinstance(found, dict)
    return found


def _masker_of(loaded: Loaded) -> Masker:
    texts = list(_secret_texts(msgspec.to_builtins(loaded.catalog.config)))
    parts = [part for each in texts for part in _parts_of(each)]
    named = {*loaded.catalog.masker.secrets, *(value for name, value in parts if may_be_secret(name))}
    return Masker({*named, *(text for each in texts for text in each), *(value for _, value in parts)}, words=named)


def _secret_texts(value: object, path: Path = ()) -> Iterator[list[str]]:
    """The texts of a configuration, once it is expanded, that are or may be secrets; those of one list together.

    Not the name of a program, without which nobody could help; what follows it by mistake is one.
    """
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _secret_texts(each, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        texts = [text for index, each in enumerate(value) for text in _secret_texts(each, (*path, index))]
        yield [text for each in texts for text in each]
    elif isinstance(value, str) and is_secret(Config, path):
        yield [value.partition(" ")[2] if path[-1] == "command" or path[-2:] == ("command", 0) else value]


def _parts_of(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The parts of texts that stand where credentials do, each with a name that tells whether it is one.

    After an option, after `=`, in a header, behind the scheme of one, and in a URL.
    """
    words = [word for text in texts for word in ([text, *text.split()] if " " in text else [text])]
    for word, following in zip(words, [*words, ""][1:], strict=True):
        name, sign, value = word.partition("=")
        if sign:
            yield name, value.strip(QUOTES)
        elif name.lower() in SCHEMES:
            yield "token", following.strip(QUOTES)
        elif name.startswith("-") or name.endswith(":"):
            yield name, following.strip(QUOTES)
        yield from _parts_of_url(word)


def _parts_of_url(text: str) -> Iterator[tuple[str, str]]:
    try:
        url = urlsplit(text)
    except ValueError:
        return
    if not url.netloc:
        return
    if url.password is not None:
        yield from (("password", url.password), ("password", unquote(url.password)))
    elif url.username is not None:
        yield "token", url.username
    yield from parse_qsl(url.query)
    yield from (("path", part) for part in url.path.split("/") if len(part) >= LONG_CHARS)


def masked(written: object, path: Path = ()) -> object:
    """A table as it was written, with a mask for each value that may not be shown."""
    if isinstance(written, dict):
        return {str(key): masked(value, (*path, str(key))) for key, value in written.items()}
    if isinstance(written, list):
        return [masked(value, (*path, index)) for index, value in enumerate(written)]
    return written if is_shown_as(Config, path, written) and not _is_time(written) else MASK


def _is_time(value: object) -> bool:
    """Tell whether TOML has a date or a time there, which no key of a configuration takes."""
    return not isinstance(value, (str, int, float))


def write_report(path: FilePath, report: Mapping[str, object]) -> None:
    """Write a report for its owner alone, where nothing of that name is. Raises `OSError`."""
    content = msgspec.json.format(msgspec.json.encode(report), indent=2)
    with os.fdopen(create_private(path), "wb") as file:
        file.write(content + b"\n")
