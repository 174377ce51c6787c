"""Items of a map in the paths of events and stored runs."""

from __future__ import annotations

import re

from msgspec import Struct

_ITEM = re.compile(r"(.+)\[(\d{1,18})\]", re.DOTALL)


class MapItem(Struct, frozen=True):
    """Item of a map, or pass of a loop, as a step of a path.

        str(MapItem("each", 2))  # 'each[2]'
        MapItem.parse("each[2]")  # MapItem(map_id='each', index=2)

    Attributes:
        index: Index of the item or pass, counted from 0.
    """

    map_id: str
    index: int

    def __str__(self) -> str:
        return f"{self.map_id}[{self.index}]"

    @classmethod
    def parse(cls, step: str) -> MapItem | None:
        """Return the item that a step of a path stands for; None for the id of an operator."""
        found = _ITEM.fullmatch(step)
        return cls(found[1], int(found[2])) if found else None


def without_index(step: str) -> str:
    """Return a step of a path without the index of a map's item: ``each`` for ``each[2]``, ``facts`` for ``facts``."""
    item = MapItem.parse(step)
    return item.map_id if item else step
