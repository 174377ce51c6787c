"""Times of a schedule: a cron expression in a time zone.

The times are those of Debian's cron, also where the clock is changed: a time that the change skips is replaced by the
first one after it, and a time that occurs twice counts once.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.near_names import did_you_mean

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, or L for the last day, and the months have to have such a day",
    "month": "1-12, or jan-dec",
    "day-of-week": "0-7, where 0 and 7 are Sunday, or sun-sat",
}

_LONGEST = 200
"""Maximum number of characters of a field."""


def cron_fault(expression: str) -> str:
    """Return why a text is not a cron expression, and what to write; empty for one.

    Without the package ``cronsim`` of the extra ``serve``, only the number of fields is checked.
    """
    fields = _plain(expression).split()
    if len(fields) != len(_FIELDS) or max(map(len, fields)) > _LONGEST:
        macros = "" if not expression.startswith("@") else did_you_mean(expression, _MACROS)
        return (
            f"{expression[:100]!r} is not a cron expression{macros}; write five fields, minute hour day month weekday, "
            "such as '0 7 * * mon-fri'"
        )
    with suppress(ImportError):
        from cronsim import CronSim, CronSimError

        try:
            next(CronSim(" ".join(fields), datetime(2000, 1, 1)))
        except CronSimError as error:
            name = str(error).removeprefix("Bad ")
            text = fields[list(_FIELDS).index(name)]
            return f"the {name} {text[:50]!r} is not valid; it takes {_FIELDS[name]}, lists such as 1,3 and steps such as */2"
        except StopIteration:
            return f"{expression[:100]!r} names a date that never comes"
    return ""


def zone_fault(name: str) -> str:
    """Return why a text is not the name of a time zone, with a similar name; empty for a time zone."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; a path; a folder of zones
        known = available_timezones()
        if not known:
            return f"the time zone {name[:50]!r} is not known, as this machine has no time zones: pip install tzdata"
        zones = {zone.lower(): zone for zone in known} | {zone.lower().rpartition("/")[2]: zone for zone in known}
        near = zones.get(name.lower().replace(" ", "_"))
        hint = f" (did you mean {near!r}?)" if near else did_you_mean(name[:50], known)
        return f"there is no time zone {name[:50]!r}{hint}; write a name such as Europe/Berlin, or UTC"
    return ""


def firing_times(cron: str, zone: str, at: float) -> tuple[float | None, float | None]:
    """Return the last time of a schedule at or before a moment, and the next one after it; None if there is none.

    Args:
        cron: The cron expression.
        zone: Its time zone.
        at: The moment, in seconds since 1970, as the times that are returned.

    Raises:
        InputError: The expression or the time zone is not valid.
        ImportError: The package ``cronsim`` is not installed.
    """
    from cronsim import CronSim

    if fault := cron_fault(cron) or zone_fault(zone):
        raise InputError(fault)
    now = int(at)
    # A second later, because an iteration does not return the moment that it starts from.
    before = next(CronSim(_plain(cron), datetime.fromtimestamp(now + 1, ZoneInfo(zone)), reverse=True), None)
    last = None if before is None else before.timestamp()
    # Where an hour occurs twice, the iteration backwards misses times that the one forwards has.
    for each in CronSim(_plain(cron), before or datetime.fromtimestamp(now, ZoneInfo(zone))):
        if each.timestamp() > now:
            return last, each.timestamp()
        last = each.timestamp()
    return last, None


def _plain(expression: str) -> str:
    return _MACROS.get(expression.strip().lower(), expression)
