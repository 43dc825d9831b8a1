"""What every test here stands on: signals as a program finds them by default, however the tests were started."""

import signal
from collections.abc import Iterator

import pytest

from tooldispatchd.runner.signals import PASSED_ON


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """Under nohup, or as a job in the background, SIGHUP or SIGINT is ignored, and what a test starts inherits that."""
    ignored = [number for number in PASSED_ON if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
