import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.trace import MAX_TRACEPARENT_BYTES, is_traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    "text",
    [
        VALID,
        f"00-{TRACE}-{PARENT}-00",
        f"00-{TRACE}-{PARENT}-ff",
        f"01-{TRACE}-{PARENT}-01",
        f"fe-{TRACE}-{PARENT}-01-",
        f"cc-{TRACE}-{PARENT}-01-what-comes-later",
        f"00-{'0' * 31}1-{'0' * 15}1-00",
        f"cc-{TRACE}-{PARENT}-01-{'x' * (MAX_TRACEPARENT_BYTES - 56)}",
    ],
)
def test_a_valid_traceparent_is_taken(text: str) -> None:
    assert is_traceparent(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        VALID[:-1],
        VALID + "0",
        VALID + "-",
        VALID + "-later",
        VALID + "\n",
        " " + VALID,
        VALID.upper(),
        VALID.replace("-", "_"),
        f"ff-{TRACE}-{PARENT}-01",
        f"0-{TRACE}-{PARENT}-01",
        f"000-{TRACE}-{PARENT}-01",
        f"0g-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}0-01",
        f"00-{TRACE[:-1]}g-{PARENT}-01",
        f"00-{TRACE[:-1]}\u0661-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01.later",
        f"cc-{TRACE}-{PARENT}-010",
        f"cc-{TRACE}-{PARENT}-01-two words",
        f"cc-{TRACE}-{PARENT}-01-a\nb: c",
        f"cc-{TRACE}-{PARENT}-01-\0",
        f"cc-{TRACE}-{PARENT}-01-{'x' * (MAX_TRACEPARENT_BYTES - 55)}",
        f"cc-{'0' * 32}-{PARENT}-01-later",
    ],
)
def test_anything_else_is_not(text: str) -> None:
    assert not is_traceparent(text)


@given(st.text())
def test_no_text_is_too_odd_to_be_judged(text: str) -> None:
    assert not is_traceparent(text)


@given(st.binary(min_size=25, max_size=25).filter(lambda ids: any(ids[:16]) and any(ids[16:24])))
def test_any_two_ids_but_those_of_zeros_are_taken(ids: bytes) -> None:
    assert is_traceparent(f"00-{ids[:16].hex()}-{ids[16:24].hex()}-{ids[24:].hex()}")
