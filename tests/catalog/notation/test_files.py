"""Whole files as people write them: each means the tables of the JSON file beside it, and is a configuration."""

import json
from collections.abc import Iterator
from pathlib import Path as FilePath

import msgspec
import pytest

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.notation.reader import Notation, read_notation
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.specs import Config

FILES = sorted((FilePath(__file__).parent / "files").glob("*.plumb"))
# What one file uses of another one.
WITH = {"module_use": ["module_fs"]}


def notation_of(file: FilePath) -> Notation:
    files = [file, *(file.with_stem(stem) for stem in WITH.get(file.stem, ()))]
    return read_notation([(each.name, each.read_text(encoding="utf-8")) for each in files])


def paths_in(value: object, path: Path = ()) -> Iterator[Path]:
    """Every path to a key or an item, but those of the four tables themselves."""
    if len(path) > 1:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths_in(inner, (*path, index))


def test_there_are_a_dozen_of_them() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_means_its_tables(file: FilePath) -> None:
    assert notation_of(file).table == json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_catalog_takes_a_file(file: FilePath) -> None:
    # Some agents name no program of their own.
    config = msgspec.convert({**notation_of(file).table, "agent_command": ["agent"]}, Config)
    assert isinstance(build_catalog(config), Catalog)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_everything_in_a_file_has_its_place(file: FilePath) -> None:
    notation = notation_of(file)
    # A command that was written as a text has no item of its own.
    missing = [path for path in paths_in(notation.table) if path not in notation.places and path[-1] != 0]
    assert missing == []


def test_commas_change_nothing() -> None:
    folder = FILES[0].parent
    assert notation_of(folder / "no_commas.plumb").table == notation_of(folder / "all_commas.plumb").table
