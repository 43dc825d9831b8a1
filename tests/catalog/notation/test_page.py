"""The page about the notation: every example means what the page says, and the page leaves nothing out."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from tests.catalog.notation.reading import read, wrong
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.notation.places import caret
from tooldispatchd.catalog.notation.tables import ANNOTATIONS
from tooldispatchd.catalog.notation.tokens import KEYWORDS
from tooldispatchd.catalog.specs import Config

PAGE = (Path(__file__).parents[3] / "docs" / "plumb.md").read_text(encoding="utf-8")
PAIRS = re.findall(r"```plumb\n(.*?)```\n```toml\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_has_its_toml() -> None:
    assert len(PAIRS) == PAGE.count("```plumb") == PAGE.count("```toml") >= 11


@pytest.mark.parametrize(("notation", "toml"), PAIRS)
def test_an_example_means_its_toml(notation: str, toml: str) -> None:
    empty: dict[str, object] = {"types": {}, "mcp": {}, "tools": {}, "processes": {}}
    assert read(notation).table == empty | tomllib.loads(toml)


@pytest.mark.parametrize("notation", [notation for notation, _ in PAIRS])
def test_the_catalog_takes_an_example(notation: str) -> None:
    config = msgspec.convert({**read(notation).table, "agent_command": ["agent"]}, Config)
    assert isinstance(build_catalog(config), Catalog)


def test_the_mistake_is_shown_as_the_page_shows_it() -> None:
    shown = re.findall(r"```text\n(.*?\n.*?)\n```", PAGE)[0]
    text = shown.splitlines()[0]
    assert wrong(text) == [
        '1:38: "promt" is no key of an agent, and nearly one; in options: { … } it goes to its program [prompt]'
    ]
    assert caret(text, 1, 38) == shown


@pytest.mark.parametrize("word", KEYWORDS)
def test_the_page_names_every_word(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("word", ANNOTATIONS)
def test_the_page_names_every_annotation(word: str) -> None:
    assert f"`@{word}" in PAGE
