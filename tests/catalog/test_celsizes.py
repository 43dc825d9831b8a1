import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.celsizes import (
    MAX_NESTING,
    MAX_TEXT_BYTES,
    MAX_VALUES,
    SCALAR,
    Size,
    TooLargeError,
    UnfitTextError,
    is_within,
    join,
    measure,
    scaled,
)

JSON = st.recursive(
    st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcé"), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("value", [None, True, 1, 1.5])
def test_a_single_value_has_the_smallest_size(value: object) -> None:
    assert measure(value) == SCALAR


def test_a_text_is_measured_in_bytes() -> None:
    assert measure("éa") == Size(0, 3, 1, 3)


def test_a_list_is_measured_with_the_largest_of_its_entries() -> None:
    assert measure([[1, "abc"], ["é"], []]) == Size(3, 0, 7, 5, Size(2, 0, 3, 3, Size(0, 3, 1, 3), 1), 4)


def test_the_keys_of_a_record_are_entries_too() -> None:
    assert measure({"ab": 1}) == Size(1, 0, 3, 2, Size(0, 2, 1, 2), 1)


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        [1] * (MAX_VALUES + 1),
        [[1] * 70] * 70,
        "x" * (MAX_TEXT_BYTES + 1),
        ["é" * 1_000] * 132,
        deep(MAX_NESTING),
        deep(100_000),
        {"x" * 300_000: 1},
    ],
)
def test_what_is_too_large_is_refused_while_it_is_measured(value: object) -> None:
    with pytest.raises(TooLargeError):
        measure(value)


@pytest.mark.parametrize("value", ["a\0", ["\0"], {"\0": 1}, "\ud800", [{"a": "\udfff"}]])
def test_a_text_that_is_not_for_the_engine_is_refused(value: object) -> None:
    with pytest.raises(UnfitTextError):
        measure(value)


@given(JSON, JSON)
def test_a_join_bounds_both(left: object, right: object) -> None:
    both = join(measure(left), measure(right))
    assert is_within(measure(left), both)
    assert is_within(measure(right), both)


@given(JSON)
def test_a_part_is_within_what_the_whole_says_of_its_parts(value: object) -> None:
    item = measure([value]).item
    assert is_within(measure(value), item)


@given(JSON, st.integers(0, 20))
def test_a_scaled_size_is_within_itself(value: object, halvings: int) -> None:
    assert is_within(scaled(measure(value), halvings), measure(value))


def test_a_larger_size_is_not_within_a_smaller_one() -> None:
    assert not is_within(measure([1, 2]), measure([1]))
    assert not is_within(measure([["ab"]]), measure([["a"]]))
    assert not is_within(measure([[1]]), measure([1]))
