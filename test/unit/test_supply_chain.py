"""What the locks hold, and which licences are stated."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
BUNDLED = re.findall(
    r"^(@?[a-z][\w./-]*) \S+ \((.+)\)$", (ROOT / "server/studio/bundle/LICENSES.txt").read_text("utf-8"), re.M
)
"""Packages of the studio's page, each with its licence."""


@pytest.mark.parametrize("lock", LOCKS, ids=[lock.name for lock in LOCKS])
def test_a_lock_holds_versions_and_digests_and_no_hosts(lock):
    entries = lock.read_text("utf-8").replace("\\\n", " ").splitlines()
    assert len(entries) > 20
    entry = re.compile(r"[a-z0-9-]+==[\w.!+]+( ; .*?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [each for each in entries if not entry.fullmatch(each)] == []


def test_the_licences_of_the_studios_page_are_in_the_metadata():
    [expression] = re.findall(r'^license = "(.+)"', PROJECT, re.M)
    stated = set(expression.split(" AND "))
    assert "Apache-2.0" in stated
    assert [each for each in BUNDLED if stated.isdisjoint(each[1].split(" OR "))] == []
    bundled = {name for _, licence in BUNDLED for name in licence.split(" OR ")}
    assert stated - {"Apache-2.0"} <= bundled


def test_every_package_of_the_studios_page_is_named_with_its_source():
    text = (ROOT / "THIRD_PARTY.md").read_text("utf-8").lower()
    scopes = set(re.findall(r"`(@[a-z]+)/\*`", text))
    named = [
        name
        for name, _ in BUNDLED
        if name.partition("/")[0] in scopes or name.replace("-", " ") in text or name in text
    ]
    assert named == [name for name, _ in BUNDLED]
    assert len(BUNDLED) > 30


def test_the_wheel_names_the_files_of_licences():
    [files] = re.findall(r"^license-files = \[(.+)\]", PROJECT, re.M)
    assert [(ROOT / name.strip(' "')).is_file() for name in files.split(",")] == [True] * 3
