"""Records of calls: hashed in one way, bounded, and without secrets."""

import pytest
from msgspec import Raw

from tooldispatchd.audit.record import AuditFilter, CallRecord, digest_of_input, record_of
from tooldispatchd.calls.endedcall import EndedCall, SessionCaller
from tooldispatchd.catalog.masker import NO_SECRETS, Masker

CALLER = SessionCaller("coder", "ada", 1000, 7, 5)


def ended(**fields: object) -> EndedCall:
    given: dict[str, object] = {
        "caller": CALLER,
        "at": 1_700_000_000.5,
        "id": "1",
        "tool": "search",
        "provider": "process",
        "input": b'{"q":1}',
        "bytes_in": 7,
        "bytes_out": 2,
        "waited_s": 0.25,
        "total_s": 1.0,
        "is_error": False,
        "code": None,
        "trace": None,
    }
    return EndedCall(**{**given, **fields})  # type: ignore[arg-type]


def recorded(masker: Masker = NO_SECRETS, **fields: object) -> CallRecord:
    return record_of(ended(**fields), "run", masker)


def test_a_record_says_whose_call_it_was_and_what_it_took() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert recorded(trace=trace, details=Raw(b'{"cost":0.5,"tokens":12,"else":[1]}')) == CallRecord(
        at=1_700_000_000.5,
        run="run",
        profile="coder",
        agent="ada",
        uid=1000,
        session=7,
        root=5,
        call="1",
        tool="search",
        provider="process",
        input_sha256="6ae0f660046dadcf5fe8462c0e00a062db4c8d67be82f4098c5ea4208d19b076",
        bytes_in=7,
        bytes_out=2,
        waited_ms=250.0,
        ran_ms=750.0,
        total_ms=1000.0,
        outcome="ok",
        trace="0af7651916cd43dd8448eb211c80319c",
        tokens=12,
        cost=0.5,
    )


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [({}, "ok"), ({"is_error": True}, "error"), ({"code": "timeout", "is_error": False}, "fault")],
)
def test_an_outcome_is_one_of_three_words(fields: dict[str, object], outcome: str) -> None:
    assert recorded(NO_SECRETS, **fields).outcome == outcome


def test_equal_inputs_have_one_hash_however_they_are_written() -> None:
    assert digest_of_input(b'{ "b": [1, "\\u00e9"], "a": null }') == digest_of_input('{"a":null,"b":[1,"é"]}'.encode())
    assert digest_of_input(b"[1,2]") != digest_of_input(b"[2,1]")


@pytest.mark.parametrize("line", [b"no json", b'{"a":', b"[" * 100_000, b'"' + b"x" * 200_000 + b'"'])
def test_what_cannot_be_put_in_order_is_hashed_as_it_is(line: bytes) -> None:
    assert len(digest_of_input(line)) == 64


def test_details_that_mean_something_else_are_no_accounts() -> None:
    for details in (b'{"cost":"much"}', b'{"tokens":-1}', b'{"tokens":99999999999999999999}', b"{"):
        record = recorded(details=Raw(details))
        assert (record.tokens, record.cost) == (None, None)


def test_a_payload_is_there_by_choice_alone_and_has_no_secret() -> None:
    masker = Masker(["s3cret-token"])
    assert recorded(masker).input is None
    record = recorded(masker, input=b'{"k":"s3cret-token"}', content="it is s3cret-token")
    assert (record.input, record.output) == ('{"k":"…"}', "it is …")


def test_a_secret_at_the_end_of_what_is_kept_is_masked_whole() -> None:
    masker = Masker(["s3cret-token"])
    record = recorded(masker, content="x" * (16 * 1024 - 4) + "s3cret-token and more")
    assert record.output == "x" * (16 * 1024 - 4) + "… an"


def test_names_of_agents_are_bounded() -> None:
    record = recorded(tool="t" * 10_000, id="i" * 10_000)
    assert (len(record.tool), len(record.call)) == (256, 256)


@pytest.mark.parametrize(
    ("wanted", "is_admitted"),
    [
        (AuditFilter(), True),
        (AuditFilter(since=1_700_000_001), False),
        (AuditFilter(agent="ada", tool="se*", slow_ms=1000), True),
        (AuditFilter(agent="bob"), False),
        (AuditFilter(profile="coder", session=7), True),
        (AuditFilter(profile="default"), False),
        (AuditFilter(session=8), False),
        (AuditFilter(tool="other"), False),
        (AuditFilter(slow_ms=1001), False),
        (AuditFilter(failed=True), False),
    ],
)
def test_a_filter_admits_what_keeps_to_all_of_it(wanted: AuditFilter, is_admitted: bool) -> None:
    assert wanted.admits(recorded()) is is_admitted
