"""A report that can be shown to anybody: what was found, the configuration and the machine, without a secret.

A value of the configuration stands in it where its type lets it be shown, and as a mask else: what may be a secret,
and what nobody thought of, is none that may be shown. Then each secret that was read is looked for in
the whole, and so is each value that may be one: a server that fails may have written its arguments to stderr.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath

import msgspec

from tooldispatchd.catalog.explanation import explain
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.secrecy import MASK, is_secret, is_shown_as
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.doctor.diagnosis import Diagnosis, masked_diagnosis
from tooldispatchd.doctor.machine import machine_facts
from tooldispatchd.privatefiles import create_private


def report_of(loaded: Loaded, diagnoses: Sequence[Diagnosis]) -> dict[str, object]:
    """The whole report as JSON."""
    masker = Masker({*_secrets_in(msgspec.to_builtins(loaded.catalog.config))})
    report: dict[str, object] = {
        "machine": machine_facts(),
        "findings": msgspec.to_builtins([masked_diagnosis(each, masker) for each in diagnoses]),
        "configuration": masked(loaded.written),
        "explained": explain(loaded.catalog),
    }
    found = masker.mask_value(loaded.catalog.masker.mask_value(report))
    assert isinstance(found, dict)
    return found


def _secrets_in(value: object, path: Path = ()) -> Iterator[str]:
    """Every text of a configuration, once it is expanded, that is or may be a secret; of `--key=SECRET` its end too.

    Not the name of a program, without which nobody could help; what follows it by mistake is one.
    """
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _secrets_in(each, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _secrets_in(each, (*path, index))
    elif isinstance(value, str) and is_secret(Config, path):
        if path[-1] == "command" or path[-2:] == ("command", 0):
            value = value.partition(" ")[2]
        yield from (value, value.partition("=")[2])


def masked(written: object, path: Path = ()) -> object:
    """A table as it was written, with a mask for each value that may not be shown."""
    if isinstance(written, dict):
        return {str(key): masked(value, (*path, str(key))) for key, value in written.items()}
    if isinstance(written, list):
        return [masked(value, (*path, index)) for index, value in enumerate(written)]
    return written if is_shown_as(Config, path, written) and not _is_time(written) else MASK


def _is_time(value: object) -> bool:
    """Whether TOML has a date or a time there, which no key of a configuration takes."""
    return not isinstance(value, (str, int, float))


def write_report(path: FilePath, report: Mapping[str, object]) -> None:
    """Write a report for its owner alone, where nothing of that name is. Raises `OSError`."""
    content = msgspec.json.format(msgspec.json.encode(report), indent=2)
    with os.fdopen(create_private(path), "wb") as file:
        file.write(content + b"\n")
