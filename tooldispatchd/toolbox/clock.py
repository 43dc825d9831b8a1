"""The tools `current_date` and `sleep`."""

import difflib
import os
import select
import time
import zoneinfo
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext
from tooldispatchd.toolbox.running import time_for

# A link into the directory of time zones, whose names are the paths in there.
LOCAL_ZONE: Final = Path("/etc/localtime")
ZONES: Final = "/zoneinfo/"


def current_date(
    timezone: Annotated[str | None, Meta(description="As in the tz database: Europe/Berlin, UTC.")] = None,
) -> str:
    """Tell the date, the time, the week and the UTC offset, here or in a time zone."""
    return described(datetime.now(local_zone() if timezone is None else zone_of(timezone)))


def described(now: datetime) -> str:
    """A time, aware of its zone, in all the forms that are asked for."""
    written = now.isoformat(timespec="seconds")
    year, week, _ = now.isocalendar()
    saving = "daylight saving time" if now.dst() else "no daylight saving time"
    return "\n".join(
        (
            f"time: {written}",
            f"weekday: {now:%A}",
            f"ISO week: {year}-W{week:02}",
            f"time zone: {now.tzinfo} ({now.tzname()}, UTC{written[-6:]}, {saving})",
            f"unix time: {int(now.timestamp())}",
        )
    )


def zone_of(name: str) -> tzinfo:
    """The time zone; raises InvalidInputError, with names that are like it."""
    try:
        return zoneinfo.ZoneInfo(name)
    # A name may also be that of a directory, or lead out of the database.
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = " or ".join(near_zones(name))
    raise InvalidInputError("timezone", f"no such time zone{f'; did you mean {near}?' if near else ''}")


def near_zones(name: str) -> list[str]:
    """Zones that may be meant, three at most: written in another way, named by the city alone, or misspelt."""
    asked = name.strip().lower().replace(" ", "_")
    zones = {zone.lower(): zone for zone in sorted(zoneinfo.available_timezones())}
    if asked in zones:
        return [zones[asked]]
    cities = {zone.rpartition("/")[2]: zone for zone in zones}
    city = asked.rpartition("/")[2]
    if city in cities:
        return [zones[cities[city]]]
    near = difflib.get_close_matches(asked, zones) or [cities[one] for one in difflib.get_close_matches(city, cities)]
    return [zones[zone] for zone in near]


def local_zone() -> tzinfo:
    """The machine's own zone; UTC where that has no name."""
    linked = os.path.realpath(LOCAL_ZONE).partition(ZONES)[2]
    for name in (os.environ.get("TZ", "").removeprefix(":"), linked, "UTC"):
        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            continue
    return UTC


def sleep(seconds: Annotated[float, Meta(ge=0, le=3600, description="For how long.")], ctx: ToolContext) -> str:
    """Wait, and tell for how long."""
    began = time.monotonic()
    allowed_s = time_for(ctx, seconds)
    poll = select.poll()
    poll.register(ctx.fileno(), select.POLLIN)
    is_cancelled = bool(poll.poll(allowed_s * 1000))
    slept = f"Slept {time.monotonic() - began:.1f} s"
    if is_cancelled:
        return f"{slept} of {seconds:g}: the call was cancelled."
    return f"{slept}." if allowed_s == seconds else f"{slept} of {seconds:g}: the call has no more time."
