import threading
import time
import zoneinfo
from datetime import datetime

import pytest

from tests.toolbox.callers import Caller
from tooldispatchd.forked.python.context import InvalidInputError
from tooldispatchd.toolbox.clock import current_date, described, near_zones, sleep, zone_of


def test_a_time_is_told_in_all_its_forms() -> None:
    assert described(datetime(2026, 7, 1, 12, 30, 15, tzinfo=zone_of("Europe/Berlin"))) == (
        "time: 2026-07-01T12:30:15+02:00\n"
        "weekday: Wednesday\n"
        "ISO week: 2026-W27\n"
        "time zone: Europe/Berlin (CEST, UTC+02:00, daylight saving time)\n"
        "unix time: 1782901815"
    )


def test_the_week_may_be_of_another_year() -> None:
    told = described(datetime(2027, 1, 1, tzinfo=zone_of("UTC")))
    assert "ISO week: 2026-W53\ntime zone: UTC (UTC, UTC+00:00, no daylight saving time)" in told


def test_it_is_the_time_of_now() -> None:
    unix = int(current_date("Asia/Kolkata").rpartition(" ")[2])
    assert abs(unix - time.time()) < 60


@pytest.mark.parametrize(("tz", "zone"), [("Asia/Tokyo", "Asia/Tokyo"), (":Asia/Tokyo", "Asia/Tokyo")])
def test_without_a_zone_it_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch, tz: str, zone: str) -> None:
    monkeypatch.setenv("TZ", tz)
    assert f"time zone: {zone} (" in current_date()


def test_a_machine_whose_zone_has_no_name_still_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST")
    assert "time zone: " in current_date()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("europe/berlin", ["Europe/Berlin"]),
        ("Berlin", ["Europe/Berlin"]),
        ("new york", ["America/New_York"]),
        ("Europe/Berlim", ["Europe/Berlin"]),
        ("America/Berlin", ["Europe/Berlin"]),
        ("xyzzy", []),
    ],
)
def test_zones_that_may_be_meant_are_found(name: str, near: list[str]) -> None:
    assert near_zones(name)[: len(near) or None] == near


@pytest.mark.parametrize("name", ["Berlin", "", "Europe", "/etc/passwd", "../../etc/passwd", "a\0b", "x" * 5000, "é"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^no such time zone") as caught:
        current_date(name)
    assert caught.value.field == "timezone"


def test_a_machine_without_time_zones_has_those_of_the_package() -> None:
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    try:
        assert zoneinfo.ZoneInfo.no_cache("Asia/Tokyo").key == "Asia/Tokyo"
        assert near_zones("tokyo") == ["Asia/Tokyo"]
    finally:
        zoneinfo.reset_tzpath(to=before)


def test_a_sleep_lasts_as_long_as_it_should(caller: Caller) -> None:
    began = time.monotonic()
    assert sleep(0.3, caller.ctx()) == "Slept 0.3 s."
    assert time.monotonic() - began >= 0.3


def test_a_sleep_ends_with_its_call(caller: Caller) -> None:
    caller.cancel()
    assert sleep(100, caller.ctx()) == "Slept 0.0 s of 100: the call was cancelled."


def test_one_that_sleeps_is_woken(caller: Caller) -> None:
    timer = threading.Timer(0.2, caller.cancel)
    timer.start()
    began = time.monotonic()
    assert "the call was cancelled" in sleep(100, caller.ctx())
    assert time.monotonic() - began < 10
    timer.join()


def test_a_sleep_that_the_call_has_no_time_for_is_shorter(caller: Caller) -> None:
    assert sleep(100, caller.ctx(left_s=0.6)) == "Slept 0.3 s of 100: the call has no more time."
