"""Rows of memories in the database of runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from operad.runtime.durable.database import retried
from operad.runtime.durable.rows import of_row
from operad.runtime.durable.store import Store
from operad.runtime.values.errors import InputError

MAX_MEMORIES = 10_000
"""Maximum number of memories of a namespace."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Row of a memory.

    Attributes:
        updated: Time at which it was written, in seconds since the epoch.
        expires: Time from which it is not read any more; 0 for none.
        model: Name of the model of the vector; empty without one.
        vector: Unit vector of the text, as numbers of four bytes.
    """

    namespace: str
    key: str
    text: str
    updated: float = 0.0
    expires: float = 0.0
    model: str = ""
    vector: bytes = b""


class MemoryTable:
    """Table of the memories of all namespaces. Each method is one transaction, and may be called from any thread."""

    def __init__(self, store: Store) -> None:
        self.database = store.database
        self._table = store.memories

    def stamps(self, namespace: str, now: float) -> Mapping[str, float]:
        """Return the times at which the memories of a namespace that have not expired were written, by key."""
        table = self._table
        query = self.database.sa.select(table.c.key, table.c.updated).where(self._alive(namespace, now))
        return {row[0]: row[1] for row in self.database.rows(query)}

    def read(self, namespace: str, now: float, keys: Collection[str] | None = None) -> list[MemoryRow]:
        """Return the memories that have not expired, with these keys or all."""
        query = self.database.sa.select(self._table).where(self._alive(namespace, now))
        query = query if keys is None else query.where(self._table.c.key.in_(keys))
        return [of_row(MemoryRow, row._mapping) for row in self.database.rows(query)]

    @retried
    def put(self, row: MemoryRow) -> None:
        """Write a memory, in place of one with its key. Expired memories of all namespaces are deleted.

        Raises:
            InputError: The namespace has `MAX_MEMORIES` others.
        """
        sa, table = self.database.sa, self._table
        values = {name: getattr(row, name) for name in MemoryRow.__dataclass_fields__}
        of_namespace = table.c.namespace == row.namespace
        expired = sa.and_(table.c.expires > 0, table.c.expires <= row.updated)
        try:
            with self.database.engine.begin() as connection:
                connection.execute(sa.delete(table).where(expired | sa.and_(of_namespace, table.c.key == row.key)))
                if connection.execute(sa.select(sa.func.count()).where(of_namespace)).scalar() >= MAX_MEMORIES:
                    raise InputError(
                        f"the memory {row.namespace!r} has {MAX_MEMORIES:,} entries, which is the maximum; forget some"
                    )
                connection.execute(sa.insert(table).values(values))
        except sa.exc.IntegrityError:  # another process has just written a memory with this key
            self.put(row)

    def put_vector(self, row: MemoryRow, model: str, vector: bytes) -> None:
        """Write the vector of a memory, unless its text has changed."""
        table = self._table
        same = self.database.sa.and_(
            table.c.namespace == row.namespace, table.c.key == row.key, table.c.updated == row.updated
        )
        self.database.change(self.database.sa.update(table).where(same).values(model=model, vector=vector))

    def delete(self, namespace: str, keys: Collection[str]) -> None:
        """Delete the memories with these keys."""
        table = self._table
        self.database.change(
            self.database.sa.delete(table).where(table.c.namespace == namespace, table.c.key.in_(keys))
        )

    def _alive(self, namespace: str, now: float) -> Any:
        table = self._table
        return self.database.sa.and_(table.c.namespace == namespace, (table.c.expires == 0) | (table.c.expires > now))
