"""The Chinese README says what the README says: its code, its figures, its names and its links."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FENCED = re.compile(r"^```\w*\n.*?^```$", re.MULTILINE | re.DOTALL)
BENCH = re.compile(r"<!-- bench -->.*?<!-- /bench -->", re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
OTHER_LANGUAGES = {"README.md", "README.zh-CN.md"}

ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))


def prose(page: str) -> str:
    return BENCH.sub("", FENCED.sub("", page))


def test_it_has_the_same_blocks_of_code_in_the_same_order() -> None:
    assert FENCED.findall(CHINESE) == FENCED.findall(ENGLISH)


def test_it_has_the_same_table_of_measurements() -> None:
    assert BENCH.findall(CHINESE) == BENCH.findall(ENGLISH)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(re.compile(r"\d+(?:\.\d+)*"), id="figures"),
        pytest.param(re.compile(r"`([^`\n]+)`"), id="names and commands"),
        pytest.param(re.compile(r"^(#+|\|(?=.*\|$)|\d+\.) ", re.MULTILINE), id="headings, rows and points"),
    ],
)
def test_it_has_the_same(kind: re.Pattern[str]) -> None:
    ours, theirs = (Counter(kind.findall(prose(page))) for page in (CHINESE, ENGLISH))
    assert {"missing": theirs - ours, "too many": ours - theirs} == {"missing": Counter(), "too many": Counter()}


def test_it_leads_where_the_readme_leads_and_back_to_it() -> None:
    ours, theirs = (Counter(LINK.findall(page)) for page in (CHINESE, ENGLISH))
    for language in OTHER_LANGUAGES:
        ours.pop(language, None)
        theirs.pop(language, None)
    assert {"missing": theirs - ours, "too many": ours - theirs} == {"missing": Counter(), "too many": Counter()}
    assert "](README.md)" in CHINESE


def test_the_readme_leads_to_it() -> None:
    assert "](README.zh-CN.md)" in ENGLISH
