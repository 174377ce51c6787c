"""Texts of a workflow that were probably left unfinished; they are notes, as the workflow runs with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from operad.flows.check import Checker
from operad.operators.variables import Selector, Text
from operad.runtime.values.errors import Issue

_MAY_BE_EMPTY = '"" for none'
"""Phrase in the description of a text that may be empty."""

_BARE_NAME = re.compile(r"\{\{ ?([A-Za-z_]\w*) ?\}\}")


def oversights_of(checker: Checker) -> Iterator[Issue]:
    """Yield a note for each required text or result that is empty, and each name in braces that goes as text.

    Args:
        checker: Check of the workflow; nodes with other issues have no notes on empty texts.
    """
    faulty = {issue.where for issue in checker.issues}
    for spec in checker.graph.nodes:
        kind, given = checker.types.get(spec.type), spec.params
        params = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else dict[str, Any]()
        for name, field in kind.params_type.model_fields.items() if kind and spec.id not in faulty else ():
            is_empty = params.get(name) == "" or (kind and kind.ends and params.get(name) == [])
            if is_empty and field.is_required() and _MAY_BE_EMPTY not in (field.description or ""):
                yield Issue("note", f"{name}: is empty", spec.id)
    for node_id, node in checker.nodes.items():
        for where, text in cast("dict[str, Any]", vars(cast("Any", node).params)).items():
            for bare in dict.fromkeys(_BARE_NAME.findall(text)) if isinstance(text, Text) else ():
                if variable := _variable_before(checker, node_id, bare):
                    what = f"{{{{{bare}}}}} is text; the variable is {variable.in_text}"
                    yield Issue("note", f"{where}: {what}", node_id)


def _variable_before(checker: Checker, node_id: str, name: str) -> Selector | None:
    """Return the variable with a name of the latest node before a node, on the same level."""
    level = checker.graph.by_id[node_id].parent
    for spec in reversed(checker.graph.nodes):
        is_before = spec.parent == level and checker.comes_before(spec.id, node_id)
        if is_before and name in checker.outputs.get(spec.id, {}):
            return Selector(name, spec.id)
    return None
