"""docs/expressions.md, row by row: what stands there is what the engine does."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from tooldispatchd.catalog.expressions.bounds import FUNCTIONS, InputBounds, bounds_of
from tooldispatchd.catalog.expressions.compiler import Scope
from tooldispatchd.catalog.expressions.door import compile_expression
from tooldispatchd.catalog.expressions.tree import read_tree
from tooldispatchd.catalog.types import parse_type

DOCUMENT: Final = (Path(__file__).parents[3] / "docs" / "expressions.md").read_text(encoding="utf-8")
CODE: Final = re.compile(r"`((?:\\\||[^`])+)`")
INPUT: Final = {"text": "a,b é", "xs": [3, 1, 2], "words": ["x", "y"], "r": {"a": 1}, "n": -7, "x": 2.5}
TYPE: Final = parse_type(
    "{text: string, xs: [int], words: [string], r: json, n: int, x: number, people: [{name: string, age: int}]}"
)


def rows() -> list[tuple[str, str]]:
    """Each expression of the tables with what it gives."""
    found: list[tuple[str, str]] = []
    for line in DOCUMENT.splitlines():
        if line.startswith("| `"):
            left, right = re.split(r"(?<!\\) \| ", line.strip("| "))
            expressions = [code.replace("\\|", "|") for code in CODE.findall(left) if not code.startswith(".")]
            found += zip(expressions, CODE.findall(right), strict=True)
    return found


@pytest.mark.parametrize(("source", "gives"), rows())
def test_each_expression_of_the_document_gives_what_stands_beside_it(source: str, gives: str) -> None:
    expression = compile_expression(source, input_type=TYPE, declared={})
    assert json.loads(json.dumps(expression.evaluate(INPUT))) == json.loads(gives)


def test_the_document_has_every_function_that_is_allowed() -> None:
    used = {name for source, _ in rows() for name in re.findall(r"(\w+)\(", source)}
    assert used == set(FUNCTIONS)


@pytest.mark.parametrize("source", ["'%s'.format([n])", "strings.quote(text)"])
def test_what_the_engine_has_besides_is_refused_when_it_is_compiled(source: str) -> None:
    with pytest.raises(ValueError, match=r"there is no function|nothing is named"):
        compile_expression(source, input_type=TYPE, declared={})


def bounded() -> list[tuple[str, InputBounds]]:
    """Each expression of the table of bounds with how much it sees."""
    found: list[tuple[str, InputBounds]] = []
    for line in DOCUMENT.splitlines():
        numbers = re.match(r"\| ([0-9,]+) \| ([0-9,]+) \| ([0-9,]+) \| ", line)
        if numbers:
            bounds = InputBounds(*(int(number.replace(",", "")) for number in numbers.groups()))
            found += [(source, bounds) for source in CODE.findall(line)]
    return found


@pytest.mark.parametrize(("source", "bounds"), bounded())
def test_each_expression_sees_as_much_as_the_document_says(source: str, bounds: InputBounds) -> None:
    scope = Scope(source, TYPE, {})
    tree = read_tree(scope.compile_to_run().serialize())
    assert bounds_of(tree, scope.variables, {}) == bounds
