"""Tables of the blame benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from metrics import Row, Share
from recording import Recording
from rich.table import Table


def families_table(found: Sequence[Row]) -> Table:
    """Return the metrics of each family, and of all."""
    table = Table("family", title="Blame by family of workflows")
    heads = ("cases", "evidence", "verdicts", "exact", "precision", "recall", "root before others", "false rejections")
    for head in (
        *heads,
        "accepted faults",
        "mended",
        "/ all again",
        "/ last only",
        "/ one prompt",
        "accepted / unjudged",
    ):
        table.add_column(head, justify="right")
    for number, row in enumerate(found):
        judged = row.judged
        shares = (judged.exact, judged.precision, judged.recall, judged.before_others, judged.false_rejections)
        table.add_row(
            row.name,
            str(row.cases),
            str(row.evidence),
            str(row.verdicts),
            *map(str, (*shares, judged.accepted_faults, judged.mended)),
            *(_number(row.ratio("blame", to)) for to in ("all_again", "last_only", "one_prompt", "unjudged")),
            end_section=number == len(found) - 2,
        )
    return table


def aims_table(total: Row) -> Table:
    """Return the metrics of all cases beside their aims."""
    judged = total.judged
    table = Table("metric", title="All cases, and the aims")
    for head in ("measured", "aim"):
        table.add_column(head, justify="right")
    table.add_row("evidence recall", _percent(total.evidence), "100%")
    table.add_row("exact verdicts", _percent(judged.exact), "at least 95%")
    table.add_row("precision of blame", _percent(judged.precision), "")
    table.add_row("recall of blame", _percent(judged.recall), "")
    table.add_row("recall of roots whose result others received", _percent(judged.before_others), "at least 95%")
    table.add_row("right results rejected", str(judged.false_rejections), "0")
    table.add_row("wrong results accepted", str(judged.accepted_faults), "")
    table.add_row("mended in round 2", _percent(judged.mended), "")
    table.add_row(
        "cost of a rejected run / everything again, same judge",
        _number(total.ratio("blame", "all_again")),
        "at most 0.65",
    )
    table.add_row(
        "cost of a rejected run / last operator only, same judge",
        _number(total.ratio("blame", "last_only")),
        "at most 1.00",
    )
    table.add_row(
        "cost of a rejected run / everything again, plain judge", _number(total.ratio("blame", "all_again_plain")), ""
    )
    table.add_row(
        "cost of a rejected run / last operator only, plain judge", _number(total.ratio("blame", "last_only_plain")), ""
    )
    table.add_row("cost of a rejected run / one long prompt twice", _number(total.ratio("blame", "one_prompt")), "")
    table.add_row(
        "cost of an accepted run / without a judge", _number(total.ratio("blame", "unjudged")), "at most 1.25"
    )
    methods = {
        "blame": "blame",
        "all_again": "everything again",
        "last_only": "last operator only",
        "all_again_plain": "everything again, plain judge",
        "last_only_plain": "last operator only, plain judge",
        "one_prompt": "one long prompt twice",
    }
    for name, title in methods.items():
        found = f"{_whole(total.mean_tokens(name))} ({_whole(total.mean_price(name))})"
        table.add_row(f"tokens of a rejected run, mean (price): {title}", found, "")
    return table


def figures(total: Row) -> dict[str, str]:
    """Return the figures that other pages show."""
    exact = total.judged.exact
    return {
        "blame.verdicts": str(exact.of),
        "blame.exact": str(exact.hits),
        "blame.all": _number(total.ratio("blame", "all_again")),
        "blame.last": _number(total.ratio("blame", "last_only")),
        "blame.accepted": _number(total.ratio("blame", "unjudged")),
    }


def players_line(recording: Recording) -> str:
    """Return who played the judge, as a sentence."""
    players = [
        f"{by} ({number} answers, {first if first == last else f'{first} to {last}'})"
        for by, (number, first, last) in sorted(recording.players().items())
    ]
    return (
        f"The judge was played by {'; '.join(players)}." if players else "No verdicts are recorded for these prompts."
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _percent(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.0%} ({share})"
