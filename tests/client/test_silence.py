from math import inf

from tooldispatchd.client.silence import Doubt, Silence


def doubts(silence: Silence, *times: float) -> list[Doubt]:
    return [silence.doubt(now) for now in times]


def test_a_silent_daemon_is_pinged_after_half_of_its_time_and_given_up_after_all() -> None:
    silence = Silence(10, is_starting=False)
    silence.begin(100)
    assert doubts(silence, 104.9, 105, 105, 109.9, 110) == [
        Doubt.NONE,
        Doubt.PING,
        Doubt.NONE,
        Doubt.NONE,
        Doubt.GIVE_UP,
    ]
    assert silence.why == "the daemon did not answer within 10 s"


def test_a_daemon_that_answers_its_pings_may_take_any_time() -> None:
    silence = Silence(10, is_starting=False)
    silence.begin(0)
    for now in range(5, 1000, 5):
        assert silence.doubt(now) is Doubt.PING
        silence.heard(now)


def test_nothing_is_due_before_it_is_counted() -> None:
    silence = Silence(10, is_starting=False)
    silence.heard(0)
    assert (silence.due, silence.doubt(1_000_000)) == (inf, Doubt.NONE)


def test_a_daemon_that_is_starting_has_its_time_until_its_first_word() -> None:
    silence = Silence(10, is_starting=True)
    silence.begin(0)
    assert doubts(silence, 299, 300, 599) == [Doubt.NONE, Doubt.PING, Doubt.NONE]
    silence.heard(599)
    assert doubts(silence, 604, 609) == [Doubt.PING, Doubt.GIVE_UP]


def test_a_daemon_that_is_starting_keeps_its_time_when_all_is_said() -> None:
    silence = Silence(10, is_starting=True)
    silence.begin(0)
    silence.await_end(1)
    assert doubts(silence, 300, 301, 600, 601) == [Doubt.NONE, Doubt.PING, Doubt.NONE, Doubt.GIVE_UP]


def test_a_daemon_to_which_all_is_said_has_the_time_to_stop_its_servers() -> None:
    silence = Silence(2, is_starting=False)
    silence.begin(0)
    silence.await_end(100)
    silence.heard(101)
    assert doubts(silence, 110, 111, 120, 121) == [Doubt.NONE, Doubt.PING, Doubt.NONE, Doubt.GIVE_UP]
