import signal

from tooldispatchd.forked.signals import RESET_SIGNALS, signal_name


def test_a_signal_is_told_by_its_name_where_it_has_one() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(40) == "signal 40"


def test_what_cannot_be_ignored_need_not_be_reset() -> None:
    assert not {signal.SIGKILL, signal.SIGSTOP} & set(RESET_SIGNALS)
