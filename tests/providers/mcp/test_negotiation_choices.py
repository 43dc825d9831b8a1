"""Negotiations with somebody's choice: of the configuration, or of what is remembered."""

import pytest
from msgspec import Raw

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
from tooldispatchd.providers.mcp.negotiation import TRUST_S, Older, Respawn
from tooldispatchd.providers.mcp.remembered import Era

# --- one revision alone ----------------------------------------------------------------------------------------------


def test_a_revision_with_a_handshake_is_offered_without_a_probe() -> None:
    negotiation = stdio("2025-03-26")
    step = sent(negotiation)
    assert (step.method, step.params["protocolVersion"]) == ("initialize", "2025-03-26")
    negotiation.answered(Incoming(id=1, result=Raw(b'{"protocolVersion":"2025-03-26"}')))
    assert agreed(negotiation).dialect.revision == "2025-03-26"


def test_a_server_that_answers_in_another_revision_than_the_wanted_one_is_refused() -> None:
    negotiation = stdio("2025-03-26")
    negotiation.answered(INITIALIZED)
    assert failed(negotiation).why == "it speaks protocol revision '2025-11-25'; wanted is 2025-03-26"


def test_a_modern_server_is_refused_where_a_handshake_is_wanted() -> None:
    negotiation = stdio("2025-03-26")
    negotiation.answered(unsupported("2026-07-28"))
    assert failed(negotiation).why == "it speaks protocol revision '2026-07-28'; wanted is 2025-03-26"


def test_a_wanted_handshake_may_take_the_older_way() -> None:
    negotiation = http("2024-11-05")
    negotiation.refused(status(405))
    assert relinked(negotiation) == Older()
    assert sent(negotiation).params["protocolVersion"] == "2024-11-05"


def test_the_modern_revision_is_asked_for_without_a_limit() -> None:
    negotiation = stdio("2026-07-28")
    step = sent(negotiation)
    assert (step.method, step.limit_s) == ("server/discover", None)
    negotiation.answered(DISCOVERED)
    assert agreed(negotiation).era is Era.MODERN


def test_no_handshake_follows_where_the_modern_revision_is_wanted() -> None:
    negotiation = stdio("2026-07-28")
    negotiation.answered(UNKNOWN)
    assert failed(negotiation).why == "it refused server/discover: Method not found (code -32601)"


def test_a_server_with_a_handshake_is_refused_where_the_modern_revision_is_wanted() -> None:
    negotiation = stdio("2026-07-28")
    negotiation.answered(unsupported("2025-06-18", "2025-11-25"))
    assert failed(negotiation).why == "it speaks protocol revision '2025-06-18', '2025-11-25'; wanted is 2026-07-28"


def test_a_process_that_exits_is_not_started_anew_where_the_modern_revision_is_wanted() -> None:
    negotiation = stdio("2026-07-28")
    negotiation.ended("it exited with code 1")
    assert failed(negotiation).why == "it exited with code 1"


@pytest.mark.parametrize("era", list(Era))
def test_what_is_wanted_goes_before_what_is_remembered(era: Era) -> None:
    assert sent(stdio("2026-07-28", era)).method == "server/discover"
    assert sent(http("2026-07-28", era)).method == "server/discover"
    assert sent(stdio("2025-06-18", era)).params["protocolVersion"] == "2025-06-18"


# --- what is remembered ----------------------------------------------------------------------------------------------


def test_a_server_that_is_known_to_want_a_handshake_is_not_probed() -> None:
    negotiation = stdio(remembered=Era.LEGACY)
    assert sent(negotiation).method == "initialize"
    negotiation.answered(INITIALIZED)
    assert agreed(negotiation).era is Era.LEGACY
    assert not negotiation.is_mistaken


def test_a_server_that_is_known_to_be_modern_has_more_time_than_a_probe() -> None:
    negotiation = stdio(remembered=Era.MODERN)
    step = sent(negotiation)
    assert (step.method, step.limit_s) == ("server/discover", TRUST_S)
    negotiation.answered(DISCOVERED)
    assert agreed(negotiation).era is Era.MODERN
    assert not negotiation.is_mistaken


def test_a_server_that_is_known_to_want_the_older_way_is_spoken_to_in_it_at_once() -> None:
    negotiation = http(remembered=Era.SSE)
    assert relinked(negotiation) == Older()
    assert sent(negotiation).method == "initialize"
    negotiation.answered(INITIALIZED)
    assert agreed(negotiation).era is Era.SSE
    assert not negotiation.is_mistaken


def test_an_older_way_is_not_remembered_where_there_is_none() -> None:
    assert sent(http(remembered=Era.SSE, has_older_way=False)).method == "server/discover"


def test_a_server_that_has_become_modern_is_negotiated_with_anew() -> None:
    negotiation = stdio(remembered=Era.LEGACY)
    negotiation.answered(UNKNOWN)
    assert negotiation.is_mistaken
    assert sent(negotiation).method == "server/discover"
    negotiation.answered(DISCOVERED)
    assert agreed(negotiation).era is Era.MODERN


def test_a_server_that_has_become_modern_and_says_so_is_probed_once() -> None:
    negotiation = stdio(remembered=Era.LEGACY)
    negotiation.answered(unsupported("2026-07-28"))
    assert negotiation.is_mistaken
    negotiation.answered(DISCOVERED)
    assert agreed(negotiation).era is Era.MODERN


def test_a_server_that_is_modern_no_more_is_initialized() -> None:
    negotiation = stdio(remembered=Era.MODERN)
    negotiation.answered(UNKNOWN)
    assert negotiation.is_mistaken
    negotiation.answered(INITIALIZED)
    assert agreed(negotiation).era is Era.LEGACY


def test_an_older_way_that_is_there_no_more_is_left_for_the_configured_one() -> None:
    negotiation = http(remembered=Era.SSE)
    assert relinked(negotiation) == Older()
    negotiation.ended("it answered with HTTP 405", {"http_status": 405})
    assert negotiation.is_mistaken
    assert relinked(negotiation) == Respawn()
    assert sent(negotiation).method == "server/discover"


def test_negotiating_anew_happens_once() -> None:
    negotiation = stdio(remembered=Era.LEGACY)
    negotiation.answered(UNKNOWN)
    negotiation.answered(UNKNOWN)
    negotiation.answered(UNKNOWN)
    assert failed(negotiation).why == "it refused initialize: Method not found (code -32601)"


@pytest.mark.parametrize("era", [Era.LEGACY, Era.MODERN])
def test_an_outage_is_no_reason_to_doubt_what_is_remembered(era: Era) -> None:
    negotiation = http(remembered=era)
    negotiation.refused(status(503))
    assert failed(negotiation).extras == {"http_status": 503}
    assert not negotiation.is_mistaken


def test_an_outage_of_the_older_way_is_no_reason_to_doubt_it() -> None:
    negotiation = http(remembered=Era.SSE)
    assert relinked(negotiation) == Older()
    negotiation.ended("it cannot be reached")
    assert failed(negotiation).why == "it cannot be reached"
    assert not negotiation.is_mistaken
