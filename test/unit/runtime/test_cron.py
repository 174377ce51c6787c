"""Times of cron expressions where clocks are changed."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from operad.runtime.values.cron import firing_times

pytest.importorskip("cronsim")


@pytest.mark.parametrize(
    ("zone", "evening"),
    [
        ("Europe/Berlin", datetime(2026, 3, 28, 20)),
        ("Europe/Berlin", datetime(2026, 10, 24, 20)),
        ("America/New_York", datetime(2026, 10, 31, 20)),
        ("Australia/Lord_Howe", datetime(2026, 4, 4, 20)),
    ],
)
@pytest.mark.parametrize("cron", ["30 2 * * *", "30 1 * * *", "*/30 * * * *", "15 1-3 * * *", "0 3 * * *"])
def test_at_each_moment_of_a_change_of_the_clock_the_last_time_is_the_one_that_was_due(zone, evening, cron):
    start = int(evening.replace(tzinfo=ZoneInfo(zone)).timestamp())
    last, upcoming = firing_times(cron, zone, start)
    for now in range(start, start + 12 * 3600, 300):
        if upcoming is not None and now >= upcoming:
            last = upcoming
        assert firing_times(cron, zone, now)[0] == last
        upcoming = firing_times(cron, zone, now)[1]
        assert upcoming is not None
        assert upcoming > now
