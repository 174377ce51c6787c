"""Comparison of two reports: the cases that became better or worse, and differences with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev

from operad.runtime.values.value import Value

_Z = 1.959964
"""Quantile of the normal distribution for an interval of 95%."""

_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}
"""Quantiles of Student's distribution for an interval of 95%, by degrees of freedom."""


class Difference(Value):
    """Difference of a measure between two reports, over the cases of both.

    Attributes:
        measure: Name of the measure.
        cases: Number of cases that have the measure in both reports.
        before: Mean in the earlier report.
        after: Mean in the later report.
        low: Lower end of the interval of 95% for the difference of the means; None with fewer than two cases.
        high: Upper end of it.
    """

    measure: str
    cases: int
    before: float
    after: float
    low: float | None = None
    high: float | None = None

    @property
    def change(self) -> float:
        """The difference of the means."""
        return self.after - self.before

    @property
    def is_clear(self) -> bool:
        """True if the interval does not contain 0, so that the difference is more than chance."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class Comparison(Value):
    """Comparison of two reports on the same cases.

        comparison: Comparison = report.compare(EvaluationReport.load("before.jsonl"))
        print(comparison.better, comparison.worse, comparison.differences[0].change)

    Attributes:
        better: Names of the cases that pass more often than before.
        worse: Names of the cases that pass less often.
        differences: Differences of the pass rate, the scores of evaluators, tokens, cost and seconds.
        added: Names of cases that only the later report has.
        missing: Names of cases that only the earlier report has.
    """

    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    added: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


AMOUNTS = ("tokens", "cost (USD)", "seconds")
"""Names of the measures other than rates and scores."""

Measures = Mapping[str, Mapping[str, float]]
"""Means of a report by measure and case."""


def compared(before: Measures, after: Measures, passes: str) -> Comparison:
    """Return the comparison of two reports by their measures, of which `passes` decides what is better."""
    old, new = before.get(passes, {}), after.get(passes, {})
    both = [name for name in new if name in old]
    return Comparison(
        better=tuple(name for name in both if new[name] > old[name]),
        worse=tuple(name for name in both if new[name] < old[name]),
        differences=tuple(
            difference(measure, [(before[measure][name], values[name]) for name in values if name in before[measure]])
            for measure, values in after.items()
            if measure in before and any(name in before[measure] for name in values)
        ),
        added=tuple(name for name in new if name not in old),
        missing=tuple(name for name in old if name not in new),
    )


def difference(measure: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    """Return the difference of paired values, with its interval of 95%.

    If every value of a rate is 0 or 1, the interval is that of Bonett and Price (2012, "Adjusted Wald confidence interval for a
    difference of binomial proportions based on paired data"), which does not vanish if all pairs agree; otherwise it is
    Student's interval for the mean of the differences.
    """
    before, after = fmean(old for old, _ in pairs), fmean(new for _, new in pairs)
    changes, count = [new - old for old, new in pairs], len(pairs)
    low = high = None
    if count > 1 and measure not in AMOUNTS and all(value in (0, 1) for pair in pairs for value in pair):
        better = (sum(change > 0 for change in changes) + 1) / (count + 2)
        worse = (sum(change < 0 for change in changes) + 1) / (count + 2)
        half = _Z * sqrt(max(0.0, better + worse - (better - worse) ** 2) / (count + 2))
        low, high = max(-1.0, better - worse - half), min(1.0, better - worse + half)
    elif count > 1:
        half = _student(count - 1) * stdev(changes) / sqrt(count)
        low, high = after - before - half, after - before + half
    return Difference(measure=measure, cases=count, before=before, after=after, low=low, high=high)


def _student(degrees: int) -> float:
    """Return the quantile for an interval of 95% of Student's distribution (expansion of Cornish and Fisher)."""
    if degrees in _T:
        return _T[degrees]
    return _Z + (_Z**3 + _Z) / (4 * degrees) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / (96 * degrees**2)
