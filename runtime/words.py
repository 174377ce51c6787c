"""Words of a text, for comparing texts without a model."""

from __future__ import annotations

import re

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUNS = re.compile(rf"([{_CJK}]+)|[^\W_{_CJK}]+")


def words(text: str) -> list[str]:
    """The words of a text, casefolded, in their order.

    Chinese, Japanese and Korean, which write no spaces between words or join particles to them, count as pairs of
    neighbouring characters.
    """
    found: list[str] = []
    for match in _RUNS.finditer(text.casefold()):
        run = match[0]
        found += [run] if match[1] is None or len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
    return found
