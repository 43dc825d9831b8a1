import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from tests.providers.mcp.negotiating import (
    DISCOVERED,
    INITIALIZED,
    UNKNOWN,
    agreed,
    failed,
    http,
    relinked,
    sent,
    status,
    stdio,
    unsupported,
)
from tooldispatchd.providers.mcp.messages import Incoming
from tooldispatchd.providers.mcp.negotiation import (
    DISCOVERING,
    ENDS,
    OVER_SSE,
    PROBE_S,
    REMEMBERING,
    TRANSITIONS,
    Agreed,
    Negotiation,
    NegotiationFailure,
    NegotiationStage,
    Older,
    Respawn,
    Sign,
)
from tooldispatchd.providers.mcp.remembered import Era
from tooldispatchd.wire.faults import Code, Fault

# --- the probe -------------------------------------------------------------------------------------------------------


def test_the_first_word_is_a_probe_in_the_modern_dialect_with_a_limit() -> None:
    step = sent(stdio())
    assert (step.method, step.params, step.limit_s) == ("server/discover", {}, PROBE_S)
    assert step.dialect.is_modern
    assert b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"' in (
        step.dialect.request(1, step.method, step.params).line
    )


def test_a_server_that_discovers_a_common_revision_is_modern() -> None:
    negotiation = stdio()
    negotiation.answered(DISCOVERED)
    step = agreed(negotiation)
    assert (step.dialect.revision, step.dialect.is_modern, step.era) == ("2026-07-28", True, Era.MODERN)
    assert step.greeting.has_tools


def test_a_server_that_discovers_only_revisions_with_a_handshake_is_initialized() -> None:
    negotiation = stdio()
    negotiation.answered(Incoming(id=1, result=Raw(b'{"supportedVersions":["2025-11-25"],"capabilities":{}}')))
    assert sent(negotiation).method == "initialize"


def test_a_server_that_discovers_only_modern_revisions_unknown_here_fails_and_both_are_named() -> None:
    negotiation = stdio()
    negotiation.answered(Incoming(id=1, result=Raw(b'{"supportedVersions":["2099-01-01"],"capabilities":{}}')))
    assert failed(negotiation).why == (
        "it speaks protocol revision '2099-01-01'; known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
    )


def test_a_refusal_that_names_a_common_modern_revision_is_followed_by_one_probe_more() -> None:
    negotiation = stdio()
    negotiation.answered(unsupported("2099-01-01", "2026-07-28"))
    assert sent(negotiation).method == "server/discover"
    negotiation.answered(DISCOVERED)
    assert agreed(negotiation).era is Era.MODERN


def test_a_server_that_refuses_also_the_revision_that_it_named_is_initialized() -> None:
    negotiation = stdio()
    negotiation.answered(unsupported("2026-07-28"))
    negotiation.answered(unsupported("2026-07-28"))
    assert sent(negotiation).method == "initialize"


def test_a_refusal_that_names_only_modern_revisions_unknown_here_fails_and_both_are_named() -> None:
    negotiation = stdio()
    negotiation.answered(unsupported("2099-01-01"))
    assert failed(negotiation).why == (
        "it speaks protocol revision '2099-01-01'; known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
    )


def test_a_refusal_that_names_revisions_with_a_handshake_is_followed_by_it() -> None:
    negotiation = stdio()
    negotiation.answered(unsupported("2024-11-05", "2025-06-18"))
    assert sent(negotiation).method == "initialize"


@pytest.mark.parametrize(
    "error",
    [
        b'{"code":-32601,"message":"Method not found"}',
        b'{"code":-32602,"message":"Invalid request parameters"}',
        b'{"code":-32600,"message":"Not initialized"}',
        b'{"code":-32000,"message":"Bad Request"}',
        b'{"code":-32020,"message":"HeaderMismatch"}',
        b'{"code":-32022,"message":"no"}',
        b'{"code":-32022,"message":"no","data":{"supported":[]}}',
        b'{"code":-32022,"message":"no","data":{"supported":7}}',
        b'{"code":0}',
        b'"no"',
    ],
)
def test_any_other_error_is_followed_by_a_handshake(error: bytes) -> None:
    negotiation = stdio()
    negotiation.answered(Incoming(id=1, error=Raw(error)))
    assert sent(negotiation).method == "initialize"


@pytest.mark.parametrize("result", [UNSET, Raw(b"null"), Raw(b"{}"), Raw(b"[]"), Raw(b'"ok"'), Raw(b"{")])
def test_a_result_that_cannot_be_read_is_followed_by_a_handshake(result: Raw | UnsetType) -> None:
    negotiation = stdio()
    negotiation.answered(Incoming(id=1, result=result))
    assert sent(negotiation).method == "initialize"


def test_an_answer_over_its_bound_is_followed_by_a_handshake() -> None:
    negotiation = stdio()
    negotiation.refused(Fault(Code.TOOL_FAILED, "too large", {"limit": "content_bytes"}))
    assert sent(negotiation).method == "initialize"


def test_silence_is_followed_by_a_handshake_on_the_same_link() -> None:
    negotiation = stdio()
    negotiation.timed_out()
    step = sent(negotiation)
    assert (step.method, step.limit_s) == ("initialize", None)


def test_a_process_that_exits_on_the_probe_is_started_anew_and_not_probed_again() -> None:
    negotiation = stdio()
    negotiation.ended("it exited with code 1")
    assert relinked(negotiation) == Respawn()
    assert sent(negotiation).method == "initialize"
    negotiation.answered(INITIALIZED)
    assert agreed(negotiation).era is Era.LEGACY


def test_a_process_that_answers_the_probe_and_exits_then_is_started_anew_too() -> None:
    negotiation = stdio()
    negotiation.answered(UNKNOWN)
    negotiation.ended("it exited with code 1")
    assert relinked(negotiation) == Respawn()
    assert sent(negotiation).method == "initialize"


def test_a_process_that_exits_once_more_is_not_started_again() -> None:
    negotiation = stdio()
    negotiation.ended("it exited with code 1")
    assert relinked(negotiation) == Respawn()
    negotiation.ended("it exited with code 2")
    assert failed(negotiation).why == "it exited with code 2"


# --- the handshake ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_handshake_offers_the_newest_revision_and_takes_any(revision: str) -> None:
    negotiation = stdio()
    negotiation.answered(UNKNOWN)
    step = sent(negotiation)
    assert step.params["protocolVersion"] == "2025-11-25"
    assert (step.dialect.is_modern, step.dialect.revision) == (False, "")
    negotiation.answered(Incoming(id=1, result=Raw(b'{"protocolVersion":"%s"}' % revision.encode())))
    found = agreed(negotiation)
    assert (found.dialect.revision, found.dialect.is_modern, found.era) == (revision, False, Era.LEGACY)


def test_a_handshake_in_an_unknown_revision_fails_and_both_are_named() -> None:
    negotiation = stdio()
    negotiation.answered(UNKNOWN)
    negotiation.answered(Incoming(id=1, result=Raw(b'{"protocolVersion":"2099-01-01"}')))
    assert failed(negotiation).why == (
        "it speaks protocol revision '2099-01-01'; known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25"
    )


def test_a_handshake_that_is_refused_fails_with_the_words_of_the_server() -> None:
    negotiation = stdio()
    negotiation.answered(UNKNOWN)
    negotiation.answered(Incoming(id=1, error=Raw(b'{"code":-32603,"message":"no API key"}')))
    assert failed(negotiation).why == "it refused initialize: no API key (code -32603)"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Incoming(id=1, result=Raw(b"{}")), "its answer to initialize cannot be read"),
        (Incoming(id=1), "its answer to initialize holds no result"),
    ],
)
def test_a_handshake_that_cannot_be_read_fails(reply: Incoming, why: str) -> None:
    negotiation = stdio()
    negotiation.answered(UNKNOWN)
    negotiation.answered(reply)
    assert failed(negotiation).why == why


def test_a_handshake_that_a_slow_modern_server_refuses_is_followed_by_one_probe_more() -> None:
    negotiation = stdio()
    negotiation.timed_out()
    negotiation.answered(unsupported("2026-07-28"))
    step = sent(negotiation)
    assert (step.method, step.limit_s) == ("server/discover", None)
    negotiation.answered(DISCOVERED)
    assert agreed(negotiation).era is Era.MODERN


def test_a_slow_modern_server_may_refuse_the_handshake_in_any_words() -> None:
    negotiation = stdio()
    negotiation.timed_out()
    negotiation.answered(UNKNOWN)
    assert sent(negotiation).method == "server/discover"
    negotiation.answered(DISCOVERED)
    assert agreed(negotiation).era is Era.MODERN


def test_a_server_that_refuses_the_handshake_and_the_last_probe_fails_with_both_reasons() -> None:
    negotiation = stdio()
    negotiation.timed_out()
    negotiation.answered(Incoming(id=1, error=Raw(b'{"code":-32603,"message":"no API key"}')))
    negotiation.answered(UNKNOWN)
    assert failed(negotiation).why == (
        "it refused initialize: no API key (code -32603); "
        "then it refused server/discover: Method not found (code -32601)"
    )


# --- HTTP ------------------------------------------------------------------------------------------------------------


def test_the_probe_has_three_seconds_over_http_too() -> None:
    assert sent(http()).limit_s == 3


@pytest.mark.parametrize("number", [400, 404, 405, 406, 415, 422, 202])
def test_a_refusal_by_http_is_followed_by_a_handshake(number: int) -> None:
    negotiation = http()
    negotiation.refused(status(number))
    assert sent(negotiation).method == "initialize"


@pytest.mark.parametrize("number", [301, 307, 401, 403, 407, 408, 429, 500, 502, 503, 504])
def test_a_status_that_says_nothing_of_the_revision_is_a_failure(number: int) -> None:
    negotiation = http()
    negotiation.refused(status(number))
    assert failed(negotiation) == NegotiationFailure(f"it answered with HTTP {number}", {"http_status": number})


def test_a_failure_says_when_to_try_again() -> None:
    negotiation = http()
    negotiation.refused(status(503, retry_after_ms=2000, server="docs"))
    assert failed(negotiation).extras == {"http_status": 503, "retry_after_ms": 2000}


def test_a_response_that_ends_without_an_answer_to_the_probe_is_followed_by_a_handshake() -> None:
    negotiation = http()
    negotiation.refused(Fault(Code.TOOL_FAILED, "docs: ended", {"reason": "its event stream ended before the answer"}))
    assert sent(negotiation).method == "initialize"


def test_a_broken_network_is_a_failure() -> None:
    negotiation = http()
    negotiation.refused(Fault(Code.SERVER_UNAVAILABLE, "docs: refused", {"reason": "connection refused"}))
    assert failed(negotiation) == NegotiationFailure("connection refused")


def test_silence_over_http_is_followed_by_a_handshake_and_by_the_older_way() -> None:
    negotiation = http()
    negotiation.timed_out()
    assert (sent(negotiation).method, sent(negotiation).limit_s) == ("initialize", None)
    negotiation.refused(status(405))
    assert isinstance(relinked(negotiation), Older)


def test_a_link_that_ends_over_http_is_a_failure() -> None:
    negotiation = http()
    negotiation.ended("it cannot be reached")
    assert failed(negotiation).why == "it cannot be reached"


@pytest.mark.parametrize("code", [-32020, -32021])
def test_an_error_that_only_modern_servers_have_is_a_failure_over_http(code: int) -> None:
    negotiation = http()
    negotiation.answered(Incoming(id=1, error=Raw(b'{"code":%d,"message":"headers"}' % code)))
    why = failed(negotiation).why
    assert why.startswith("it refused server/discover: ")
    assert why.endswith(f"headers (code {code})")


@pytest.mark.parametrize("number", [400, 404, 405])
def test_a_server_that_refuses_both_posts_is_spoken_to_in_the_older_way(number: int) -> None:
    negotiation = http()
    negotiation.refused(status(number))
    negotiation.refused(status(number))
    assert relinked(negotiation) == Older()
    assert sent(negotiation).method == "initialize"
    negotiation.answered(INITIALIZED)
    assert agreed(negotiation).era is Era.SSE


def test_a_server_that_refuses_both_posts_fails_where_there_is_no_older_way() -> None:
    negotiation = http(has_older_way=False)
    negotiation.refused(status(404))
    negotiation.refused(status(404))
    assert failed(negotiation) == NegotiationFailure("it answered with HTTP 404", {"http_status": 404})


@pytest.mark.parametrize("number", [401, 403, 406, 500, 503])
def test_no_other_refusal_of_the_handshake_leads_to_the_older_way(number: int) -> None:
    negotiation = http()
    negotiation.refused(status(404))
    negotiation.refused(status(number))
    assert failed(negotiation).extras == {"http_status": number}


def test_an_older_way_that_cannot_be_opened_is_a_failure() -> None:
    negotiation = http()
    negotiation.refused(status(405))
    negotiation.refused(status(405))
    assert relinked(negotiation) == Older()
    negotiation.ended("it answered with HTTP 404", {"http_status": 404})
    assert failed(negotiation) == NegotiationFailure("it answered with HTTP 404", {"http_status": 404})


def test_a_way_that_is_older_than_the_probe_is_not_probed() -> None:
    negotiation = Negotiation("auto", None, capabilities={}, is_http=True, has_older_way=False, may_probe=False)
    assert sent(negotiation).method == "initialize"
    negotiation.answered(INITIALIZED)
    assert agreed(negotiation).era is Era.LEGACY


# --- all of them -----------------------------------------------------------------------------------------------------


def test_what_the_client_can_do_is_said_in_both_dialects() -> None:
    negotiation = Negotiation("auto", None, capabilities={"roots": {}}, is_http=False, has_older_way=False)
    probe = sent(negotiation)
    assert b'"io.modelcontextprotocol/clientCapabilities":{"roots":{}}' in probe.dialect.request(1, "x", {}).line
    negotiation.answered(UNKNOWN)
    assert sent(negotiation).params["capabilities"] == {"roots": {}}


def test_what_comes_after_the_end_is_a_defect() -> None:
    negotiation = stdio()
    negotiation.answered(DISCOVERED)
    with pytest.raises(RuntimeError, match="agreed"):
        negotiation.answered(DISCOVERED)


HAPPENINGS = st.sampled_from(
    [
        UNKNOWN,
        unsupported("2026-07-28"),
        unsupported("2026-07-28", "2025-11-25"),
        unsupported("2025-11-25"),
        Incoming(id=1, result=Raw(b"{}")),
        status(202),
        status(404),
        status(405),
        "ended",
        "silent",
    ]
)


@given(
    st.sampled_from(["auto", "2025-06-18", "2026-07-28"]),
    st.sampled_from([None, *Era]),
    st.booleans(),
    st.booleans(),
    st.lists(HAPPENINGS, min_size=10, max_size=10),
)
def test_a_server_that_never_agrees_is_given_up_after_a_few_requests(
    protocol: str, remembered: Era | None, is_http: bool, has_older_way: bool, happenings: list[Incoming | Fault | str]
) -> None:
    # Only HTTP has an older way.
    has_older_way = has_older_way and is_http
    negotiation = Negotiation(protocol, remembered, capabilities={}, is_http=is_http, has_older_way=has_older_way)
    requests = links = 0
    while not isinstance(step := negotiation.step, NegotiationFailure):
        assert not isinstance(step, Agreed)
        if isinstance(step, Respawn | Older):
            links += 1
            continue
        happening = happenings[requests]
        requests += 1
        if isinstance(happening, Incoming):
            negotiation.answered(happening)
        elif isinstance(happening, Fault):
            negotiation.refused(happening)
        elif happening == "ended" or step.limit_s is None:
            negotiation.ended("it ended")
        else:
            negotiation.timed_out()
    assert requests <= 6
    assert links <= 3
    assert step.why


STAGES = set(NegotiationStage) - {NegotiationStage.AFRESH}


def test_every_stage_has_its_row() -> None:
    assert set(TRANSITIONS) == STAGES


def test_nothing_follows_an_end() -> None:
    assert [TRANSITIONS[stage] for stage in ENDS] == [{}, {}]


@pytest.mark.parametrize("stage", sorted(STAGES - ENDS))
def test_every_stage_can_still_lead_to_an_agreement(stage: NegotiationStage) -> None:
    reached, waiting = set(), [stage]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += [
                NegotiationStage.PROBING if next_ is NegotiationStage.AFRESH else next_
                for next_ in TRANSITIONS[each].values()
            ]
    assert NegotiationStage.AGREED in reached


@pytest.mark.parametrize("stage", sorted(STAGES - ENDS))
def test_an_outage_is_the_end_at_every_stage(stage: NegotiationStage) -> None:
    assert Sign.OUTAGE not in TRANSITIONS[stage]
    assert Sign.FOREIGN not in TRANSITIONS[stage]


def test_a_stage_waits_for_an_answer_or_for_a_link() -> None:
    linking = {stage for stage in STAGES if Sign.LINKED in TRANSITIONS[stage]}
    answered = {stage for stage in STAGES if Sign.GREETED in TRANSITIONS[stage]}
    assert linking | answered == STAGES - ENDS
    assert not linking & answered
    assert answered >= DISCOVERING | OVER_SSE | REMEMBERING
