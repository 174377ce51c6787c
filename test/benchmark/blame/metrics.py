"""Metrics of the blame benchmark: of evidence, of verdicts, and of costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from cases import Calls, Case, Fault
from costs import Cost, Request, cost_of
from play import JUDGE, Played, answers_of, findings

from operad import WorkflowStatus


@dataclass(frozen=True)
class Share:
    """Number of hits among a number of trials."""

    hits: int = 0
    of: int = 0

    @property
    def value(self) -> float | None:
        """Share of hits; None without trials."""
        return self.hits / self.of if self.of else None

    def __add__(self, other: Share) -> Share:
        return Share(self.hits + other.hits, self.of + other.of)

    def __str__(self) -> str:
        return f"{self.hits}/{self.of}" if self.of else "-"


def hidden(played: Played) -> list[tuple[Fault, str]]:
    """Return the values of faults that the judge did not receive, each with its fault."""
    values = [(fault, value) for fault in played.case.faults for value in (fault.wrong, fault.right)]
    return [(fault, value) for fault, value in values if value not in played.judged]


def evidence(played: Played) -> Share:
    """Return the share of the wrong and the right values of all faults that the judge received."""
    of = 2 * len(played.case.faults)
    return Share(of - len(hidden(played)), of)


@dataclass(frozen=True)
class Judged:
    """Metrics of verdicts.

    Attributes:
        exact: Verdicts with the right status and the right places, all verdicts.
        precision: Blamed places that are roots, all blamed places.
        recall: Roots that were blamed, all roots.
        before_others: The same, of the roots whose results others received.
        false_rejections: Rejected results among the right ones.
        accepted_faults: Accepted results among the wrong ones.
        mended: Wrong results that are right after round 2, among those that another round can mend.
    """

    exact: Share = Share()
    precision: Share = Share()
    recall: Share = Share()
    before_others: Share = Share()
    false_rejections: Share = Share()
    accepted_faults: Share = Share()
    mended: Share = Share()

    def __add__(self, other: Judged) -> Judged:
        return Judged(*(getattr(self, name) + getattr(other, name) for name in Judged.__dataclass_fields__))


def judged(played: Played) -> Judged:
    """Return the metrics of the verdict on one case; of none if there is no verdict."""
    case, verdict = played.case, played.verdict
    if verdict is None:
        return Judged()
    blamed = verdict.blamed - case.also
    is_right = case.status is WorkflowStatus.SUCCESS
    accepted = verdict.status is WorkflowStatus.SUCCESS
    can_mend = case.status is WorkflowStatus.EXECUTION_ERROR
    return Judged(
        exact=Share(int(verdict.status is case.status and blamed == case.roots), 1),
        precision=Share(len(blamed & case.roots), len(blamed)),
        recall=Share(len(blamed & case.roots), len(case.roots)),
        before_others=Share(len(blamed & case.roots_before_others), len(case.roots_before_others)),
        false_rejections=Share(int(not accepted), 1) if is_right else Share(),
        accepted_faults=Share(int(accepted), 1) if not is_right else Share(),
        mended=Share(int(played.is_right), 1) if can_mend else Share(),
    )


@dataclass(frozen=True)
class Costs:
    """Costs of one case until SUCCESS.

    Attributes:
        blame: With a judge that blames operators.
        all_again: With the same judge, and everything again.
        last_only: With the same judge, and the last operator again.
        all_again_plain: With everything again, and a judge that sees the job, the result and the sources.
        last_only_plain: With the last operator again, and such a judge.
        one_prompt: With one long prompt, and once again.
        unjudged: The same run without a judge, for an accepted result.
    """

    blame: Cost
    all_again: Cost | None = None
    last_only: Cost | None = None
    all_again_plain: Cost | None = None
    last_only_plain: Cost | None = None
    one_prompt: Cost | None = None
    unjudged: Cost | None = None


def costs(blame: Played, all_again: Played | None, last_only: Played | None) -> Costs:
    """Return the costs of a case, from its runs with the three methods, or of an accepted result from its only run."""
    if all_again is None or last_only is None:
        operators = [(each.request, each.answer) for each in blame.asked if each.who != JUDGE]
        return Costs(_whole(blame), unjudged=cost_of(operators))
    case = blame.case
    same = [(each.request, each.answer) for each in blame.asked if each.who == JUDGE]
    plain = _plain_judge(case)
    return Costs(
        blame=_whole(blame),
        all_again=cost_of([*_pairs(all_again), *same]),
        last_only=cost_of([*_pairs(last_only), *same]),
        all_again_plain=cost_of([*_pairs(all_again), *plain]),
        last_only_plain=cost_of([*_pairs(last_only), *plain]),
        one_prompt=cost_of(_one_prompt(case)),
    )


def _pairs(played: Played) -> list[tuple[Request, str]]:
    return [(each.request, each.answer) for each in played.asked]


def _whole(played: Played) -> Cost:
    return cost_of(_pairs(played))


_PLAIN = (
    "Judge the result of a job by these criteria:\n{criteria}\n\nAnswer in JSON: `evaluation`, what is right and what is wrong; "
    "`status`, EXECUTION_ERROR or SUCCESS; `lesson`, what to do differently; `score`, from 0 to 10."
)


def _plain_judge(case: Case) -> list[tuple[Request, str]]:
    """Return the requests to a judge that sees the job, the sources and the result, in both rounds."""
    wrong, right = (_text(case, active) for active in (case.active, frozenset[str]()))
    system = {"role": "system", "content": _PLAIN.format(criteria=case.criteria)}
    verdicts = [
        f'{{"evaluation": "{findings(case)}", "status": "EXECUTION_ERROR", "lesson": "{findings(case)}", "score": 4}}',
        '{"evaluation": "All criteria are met.", "status": "SUCCESS", "lesson": "", "score": 9}',
    ]
    return [
        ({"messages": [system, {"role": "user", "content": f"{_given(case)}\n\n## Result\n{result}"}]}, verdict)
        for result, verdict in zip((wrong, right), verdicts, strict=True)
    ]


def _one_prompt(case: Case) -> list[tuple[Request, str]]:
    """Return the requests of one long prompt with all instructions and sources, and of the same once again."""
    steps = "\n".join(f"{number}. {op.instruction}" for number, op in enumerate(case.ops.values(), 1))
    content = (
        f"Do the job in these steps, and answer with the result of the last one.\n{steps}\n\nCriteria: {case.criteria}"
    )
    user = _given(case)
    opened = [{"role": "system", "content": content}, {"role": "user", "content": user}]
    wrong, right = (_text(case, active) for active in (case.active, frozenset[str]()))
    again = {"role": "user", "content": "Compare your answer with each criterion. Write it again, corrected."}
    return [
        ({"messages": opened}, wrong),
        ({"messages": [*opened, {"role": "assistant", "content": wrong}, again]}, right),
    ]


def _text(case: Case, active: frozenset[str]) -> str:
    answer = case.answers(active)[case.last]
    return answer.text if isinstance(answer, Calls) else answer


def _given(case: Case) -> str:
    """Return the job with all inputs, results of earlier experts, passages and tool results."""
    inputs = [f"{name}: {value}" for name, value in case.job.inputs.items()]
    earlier = [f"{message.operator_id}: {message.scratchpad}" for message in case.previous]
    passages = [text for op in case.ops.values() if op.passages for text in op.passages.texts.values()]
    called = [call for answer in answers_of(case).values() if isinstance(answer, Calls) for call in answer.calls]
    tables = {tool.name: tool.table for op in case.ops.values() for tool in op.tools}
    results = [tables[name][arguments["key"]] for name, arguments in called]
    parts = [case.job.goal, case.job.context, *inputs, *earlier, *passages, *results]
    return "\n\n".join(dict.fromkeys(part for part in parts if part))


@dataclass(frozen=True)
class Row:
    """Metrics of some cases.

    Attributes:
        name: Name of the family, or ``total``.
        cases: Number of cases.
        judged: Metrics of those that have a verdict.
        verdicts: Number of verdicts.
        evidence: Metrics of the evidence.
        costs: Costs of each case.
    """

    name: str
    cases: int
    verdicts: int
    judged: Judged
    evidence: Share
    costs: Sequence[Costs] = field(repr=False)

    def ratio(self, of: str, to: str) -> float | None:
        """Return the ratio of the sums of two costs, over the cases that have both."""
        pairs = [(getattr(each, of), getattr(each, to)) for each in self.costs if getattr(each, to) is not None]
        return sum(a.price for a, _ in pairs) / sum(b.price for _, b in pairs) if pairs else None

    def mean_tokens(self, of: str) -> float | None:
        """Return the mean tokens of a method over the rejected cases."""
        found = [getattr(each, of).tokens for each in self.costs if each.all_again is not None]
        return mean(found) if found else None

    def mean_price(self, of: str) -> float | None:
        """Return the mean price of a method over the rejected cases."""
        found = [getattr(each, of).price for each in self.costs if each.all_again is not None]
        return mean(found) if found else None


@dataclass(frozen=True)
class Measured:
    """Measurements of one case.

    Attributes:
        played: The run with the judge.
        evidence: Evidence in the run with the right verdict.
        hidden: Values that the judge did not receive.
        costs: The costs; None if they are not measured.
        errors: Errors with which runs ended.
    """

    played: Played
    evidence: Share
    hidden: Sequence[tuple[Fault, str]]
    costs: Costs | None
    errors: Sequence[str] = ()


def row(name: str, all_measured: Iterable[Measured]) -> Row:
    """Return the metrics of some cases."""
    found = list(all_measured)
    return Row(
        name,
        len(found),
        sum(each.played.verdict is not None for each in found),
        sum((judged(each.played) for each in found), Judged()),
        sum((each.evidence for each in found), Share()),
        [each.costs for each in found if each.costs],
    )


def rows(all_measured: Sequence[Measured]) -> list[Row]:
    """Return the metrics of each family, and of all."""
    families: Mapping[str, list[Measured]] = {}
    for each in all_measured:
        families = {**families, each.played.case.family: [*families.get(each.played.case.family, []), each]}
    return [*(row(name, found) for name, found in families.items()), row("total", all_measured)]
