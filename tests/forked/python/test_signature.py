import functools
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Annotated, Any

import pytest

from tests.forked.python.annotated import Color, Hit, Node, Size, make
from tooldispatchd.forked.python.functions import FunctionError
from tooldispatchd.forked.python.signature import describe, prepare


class Shapes:
    @classmethod
    def square(cls, side: int) -> Size:
        return Size(side, side)

    @staticmethod
    def line(length: int) -> Size:
        return Size(length)

    def own(self, side: int) -> int:
        return side


def refused(function: object) -> str:
    with pytest.raises(FunctionError) as caught:
        describe(function)
    return caught.value.why


def input_of(function: object) -> Any:
    return describe(function)["input_schema"]


def output_of(function: object) -> Any:
    return describe(function)["output_schema"]


# --- what is shown ---


def test_parameters_become_a_closed_object_with_bounds_descriptions_and_defaults() -> None:
    assert input_of(make) == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "what is looked for"},
            "limit": {"type": "integer", "minimum": 1, "description": "how many", "default": 10},
        },
        "required": ["text"],
        "additionalProperties": False,
    }


def test_the_result_has_a_schema_with_its_definitions() -> None:
    schema = output_of(make)

    assert schema["items"] == {"$ref": "#/$defs/Hit"}
    assert list(schema["$defs"]) == ["Hit"]


def test_a_record_stands_at_the_root_of_a_result() -> None:
    assert output_of(Shapes.line) == {
        "title": "Size",
        "type": "object",
        "properties": {"width": {"type": "integer"}, "height": {"type": "integer", "default": 1}},
        "required": ["width"],
    }


def test_a_record_that_holds_itself_stays_a_definition() -> None:
    def first(node: Node) -> Node:
        return node

    assert output_of(first)["$ref"] == "#/$defs/Node"


def test_a_single_record_is_a_named_parameter_like_any_other() -> None:
    def area(size: Size) -> int:
        return size.width * size.height

    assert list(input_of(area)["properties"]) == ["size"]
    assert prepare(area).decode(b'{"size":{"width":2}}') == {"size": Size(2)}


def test_the_description_is_the_docstring_up_to_its_first_section() -> None:
    assert describe(make)["description"] == "Find documents.\n\nThe nearest come first."


def test_a_docstring_in_the_style_of_sphinx_ends_at_its_first_field() -> None:
    def run() -> None:
        """Run.

        :returns: nothing
        """

    assert describe(run)["description"] == "Run."


@pytest.mark.parametrize(
    "section",
    [
        "Args:\n    city (str): Where, in\n        full.\n    days: How many.\n    by: Other.\n\nReturns:\n    All.",
        "Parameters\n----------\ncity : str\n    Where, in\n    full.\ndays\n    How many.\n\nReturns\n-------\nstr",
        ":param str city: Where, in\n    full.\n:param days: How many.\n:returns: All.",
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_parameters_are_described_by_the_docstring_and_by_their_annotation_first(section: str) -> None:
    def weather(city: str, days: int = 1, by: Annotated[str, "Its own words."] = "") -> None:
        pass

    weather.__doc__ = f"Look up.\n\nIt is slow.\n\n{section}"
    described = describe(weather)
    said = {name: schema["description"] for name, schema in input_of(weather)["properties"].items()}
    assert said == {"city": "Where, in\nfull.", "days": "How many.", "by": "Its own words."}
    assert described["description"] == "Look up.\n\nIt is slow."


def test_a_docstring_that_cannot_be_read_is_the_description() -> None:
    def run(n: int) -> None:
        """Run.

        Args:
            nothing with a colon
        """

    assert describe(run)["description"] == "Run.\n\nArgs:\n    nothing with a colon"


def test_no_annotation_means_any_json() -> None:
    def run(value, more=None):  # type: ignore[no-untyped-def]
        return value

    assert input_of(run)["properties"] == {"value": {}, "more": {"default": None}}
    assert output_of(run) == {}


def test_object_means_any_json() -> None:
    def run(value: object) -> object:
        return value

    assert input_of(run)["properties"] == {"value": {}}
    assert prepare(run).encode([1, None]) == b"[1,null]"


def test_a_function_that_returns_none_gives_unit() -> None:
    def run() -> None:
        pass

    assert output_of(run) == {"type": "null"}
    assert prepare(run).encode(None) == b"null"


@pytest.mark.parametrize(
    ("default", "shown"),
    [(Color.RED, {"default": "red"}), (Size(1, 2), {}), (object(), {}), ("x" * 5_000, {})],
    ids=["an enum", "of another type", "nothing in JSON", "long"],
)
def test_a_default_is_shown_where_json_can_say_it(default: object, shown: object) -> None:
    def run(value: Color | None = default) -> None:  # type: ignore[assignment]
        pass

    schema = input_of(run)["properties"]["value"]

    assert {key: value for key, value in schema.items() if key == "default"} == shown
    assert input_of(run)["required"] == []


def test_the_context_is_no_part_of_the_input_whatever_its_annotation_says() -> None:
    def run(text: str, ctx: "NowhereToBeFound") -> str:  # type: ignore[name-defined]  # noqa: F821
        return text

    assert list(input_of(run)["properties"]) == ["text"]
    assert describe(run)["takes_ctx"] is True
    assert prepare(run).takes_ctx is True
    assert prepare(make).takes_ctx is False


def test_an_async_function_says_so_behind_a_decorator_too() -> None:
    async def run(text: str) -> None: ...

    @functools.wraps(run)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    assert prepare(run).is_async is True
    assert prepare(wrapped).is_async is True
    assert list(input_of(wrapped)["properties"]) == ["text"]


def test_what_is_given_ahead_is_an_input_with_a_default() -> None:
    assert input_of(functools.partial(make, limit=3))["properties"]["limit"]["default"] == 3


def test_an_object_that_can_be_called_is_a_function() -> None:
    class Doubler:
        def __call__(self, number: int) -> int:
            """Double it."""
            return number * 2

    assert describe(Doubler())["description"] == "Double it."
    assert input_of(Doubler())["properties"] == {"number": {"type": "integer"}}


# --- what is refused ---


def test_a_class_is_refused() -> None:
    assert refused(Hit).startswith("it is a class")


def test_what_cannot_be_called_is_refused() -> None:
    assert refused(3) == "it cannot be called: it is of the type int"


def test_generators_are_refused() -> None:
    def some() -> Iterator[int]:
        yield 1

    async def more() -> AsyncIterator[int]:  # noqa: ASYNC124  # it is never run
        yield 1

    assert refused(some) == refused(more) == "it is a generator; a tool gives one result, such as a list"


def test_parameters_without_a_name_of_their_own_are_refused() -> None:
    def stars(*words: str) -> None: ...

    def double_stars(**words: str) -> None: ...

    def positional(word: str, /) -> None: ...

    def positional_ctx(ctx: object, /) -> None: ...

    assert "*words" in refused(stars)
    assert "**words" in refused(double_stars)
    assert refused(positional) == "its parameter word cannot be given by its name; take away the / behind it"
    assert refused(positional_ctx) == "its parameter ctx cannot be given by its name"


def test_a_type_that_no_json_is_of_is_refused_by_its_parameters_name() -> None:
    def run(words: str, stream: list[range]) -> None: ...

    assert refused(run) == (
        "its parameter stream has a type that no JSON is of, list[range]: JSON cannot be converted to range"
    )


def test_a_result_that_no_json_is_of_is_refused() -> None:
    def run() -> Iterator[int]:
        return iter([1])

    assert refused(run).startswith("its result has a type that no JSON is of, collections.abc.Iterator[int]")


def test_a_union_that_cannot_be_told_apart_is_refused() -> None:
    def run(when: str | datetime) -> None: ...

    assert refused(run).startswith(
        "its parameter when has a type that no JSON is of, str | datetime.datetime: Type unions"
    )


def test_an_annotation_that_means_nothing_is_refused_by_its_name() -> None:
    def run(words: str, hit: "Hitt") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def give() -> "Hitt":  # type: ignore[name-defined]  # noqa: F821
        pass

    assert refused(run) == "cannot read the annotation of hit: NameError: name 'Hitt' is not defined"
    assert refused(give) == "cannot read the annotation of its result: NameError: name 'Hitt' is not defined"
