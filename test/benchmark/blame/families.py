"""The families of the blame benchmark, and their cases by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cases import Case, Family
from families_chains import CLAIMS, RECIPE, ROSTER, TENDER
from families_graphs import DESK, PLANTS, STOCK
from families_parts import CANTEEN, METERS, NEWSLETTER, TRAIN
from families_sources import EXPERT, HANDBOOK, LOG, SUPPLIERS

_ALL = (
    *(RECIPE, ROSTER, CLAIMS, TENDER, STOCK, DESK, PLANTS),
    *(SUPPLIERS, HANDBOOK, LOG, EXPERT, METERS, NEWSLETTER, CANTEEN, TRAIN),
)

FAMILIES: Mapping[str, Family] = {family.name: family for family in _ALL}
"""The families, by name."""

SEEDS = (1, 2)
"""Seeds of the cases that every run has."""


def cases_of(seeds: Sequence[int] = SEEDS, families: Collection[str] = ()) -> list[Case]:
    """Return the cases of some families, or of all, with some seeds."""
    return [case for family in _ALL if not families or family.name in families for case in family.cases(seeds)]


def case_of(name: str) -> Case:
    """Return the case with a name.

    Raises:
        ValueError: No family has such a case.
    """
    family, _, rest = name.partition("-")
    fault, _, seed = rest.partition("-")
    if family not in FAMILIES or fault not in FAMILIES[family].kinds or not seed.isdigit():
        raise ValueError(f"no case has the name {name!r}")
    return FAMILIES[family].case(fault, int(seed))
