from tooldispatchd.calls.violations import MAX_DETAIL, fault_at, fault_of
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.wire.faults import Code

FORECAST = compile_check(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    }
)


def test_everything_that_is_wrong_stands_in_the_detail() -> None:
    fault = fault_of(Code.INVALID_INPUT, FORECAST, {"days": "many"})
    assert fault.detail == '/days: "many" is not of type "integer"; "city" is a required property'
    assert fault.extras == {
        "violations": [
            {"path": "/days", "message": '"many" is not of type "integer"'},
            {"path": "", "message": '"city" is a required property'},
        ]
    }


def test_of_a_long_list_the_detail_has_what_fits_and_says_how_many_more() -> None:
    fault = fault_at(Code.INVALID_INPUT, [Violation(f"/{place}", "x" * 290) for place in range(10)])
    assert len(fault.detail) <= MAX_DETAIL + len("; and 10 more")
    assert fault.detail.startswith(f"/0: {'x' * 290}; /1: {'x' * 290}")
    assert fault.detail.endswith("; and 7 more")


def test_the_first_violation_is_told_however_long_it_is() -> None:
    assert fault_at(Code.INVALID_INPUT, [Violation("/a", "x" * 2_000)]).detail == f"/a: {'x' * 2_000}"


def test_where_the_validator_finds_no_words_there_are_some() -> None:
    assert fault_at(Code.INVALID_OUTPUT, []).detail == "does not match"
