"""Number of cases that a test tries: some of them, or all where slow tests run as well (`make test-all`)."""

from hypothesis import HealthCheck, settings

SOME, EVERY = "some", "every"


def use_amounts(every: bool) -> None:
    """Choose the number of cases for this process, before the tests are imported.

    Properties have no deadline, because other processes may keep the machine busy.
    """
    settings.register_profile(EVERY, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile(SOME, settings.get_profile(EVERY), max_examples=15)
    settings.load_profile(EVERY if every else SOME)


def amount(some: int, every: int) -> int:
    """Return the number of cases to try."""
    return every if settings.get_current_profile_name() == EVERY else some


def sample(cases, every_nth: int):
    """Return every n-th of the cases, or all of them where slow tests run."""
    return list(cases)[:: amount(every_nth, 1)]


def examples(some: int, every: int) -> settings:
    """Return the settings of a property with a number of examples, the same in each run."""
    return settings(max_examples=amount(some, every), derandomize=True, database=None)
