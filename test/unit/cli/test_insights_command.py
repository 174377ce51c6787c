"""`operad insights`: what a file holds is printed, and what is named is removed."""

import json
import sys
from contextlib import closing

import pytest

from operad.cli import main as cli
from operad.runtime import Cache, Insights
from operad.runtime.knowledge.insights import Experience

GOAL = "Write a SQL query on the orders table."
LESSON = "Leave cancelled orders out."


@pytest.fixture
def operad(operad, monkeypatch):
    """Runs the command in an empty folder: exit status, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "150")
    return operad


def must_not_fail(error):
    raise error


def filled(path, *lessons, label="query"):
    """A file with these lessons; they all helped once. Returns their keys."""
    store = Insights(path)
    store.learn({"f": Experience(lessons={(GOAL, text): True for text in lessons}, label=label)}, must_not_fail)
    keys = {entry.text: entry.key for entry in store.entries()}
    store.close()
    return [keys[text] for text in lessons]


def useless(path, key):
    store = Insights(path)
    store.learn({"f": Experience(shown={key: (2, 0)})}, must_not_fail)
    store.close()


def test_a_table_shows_what_is_kept_for_whom_and_whether_it_helped(operad, tmp_path):
    first, second = filled(tmp_path / "i", LESSON, "More.")
    useless(tmp_path / "i", second)
    status, out, err = operad("insights", "i")
    head, one, two = out.splitlines()
    assert (status, err) == (0, "")
    assert head.split() == ["key", "operator", "insight", "learned", "from", "helped", "last", "seen"]
    assert one.startswith(f"{first}  query     {LESSON}  {GOAL}  1 of 1")
    assert two.startswith(f"{second}  query     More.")
    assert "1 of 3, not shown" in two


def test_what_models_wrote_is_shortened_and_nothing_that_a_terminal_obeys(operad, tmp_path):
    filled(tmp_path / "i", "\x1b[2J\u202e[bold]x[/bold]" + "y" * 500, label="\x1b]0;title\x07")
    status, out, _ = operad("insights", "i")
    assert status == 0
    assert "\\x1b[2J\\x202e[bold]x[/bold]" in out.replace("\n", "")
    assert "\\x1b]0;title\\x07" in "".join(line[18:36].strip() for line in out.splitlines()[1:])
    assert 200 < out.count("y") < 301
    status, out, _ = operad("insights", "i", "--json")
    assert out.isascii()
    assert json.loads(out)[0]["text"].endswith("y" * 500)


def test_json_has_all_of_it(operad, tmp_path):
    [key] = filled(tmp_path / "i", LESSON)
    status, out, _ = operad("insights", "i", "--json")
    [entry] = json.loads(out)
    assert entry.pop("seen") > 0
    assert (status, entry) == (
        0,
        {"operator": "f", "key": key, "label": "query", "text": LESSON, "about": GOAL, "used": 1, "helped": 1, "useless": False},
    )  # fmt: skip


def test_what_is_forgotten_is_gone_and_the_rest_is_printed(operad, tmp_path):
    first, second, third = filled(tmp_path / "i", LESSON, "More.", "Less.")
    status, out, _ = operad("insights", "i", "--forget", first, "--forget", second)
    assert (status, len(out.splitlines())) == (0, 2)
    assert third in out
    assert operad("insights", "i", "--clear") == (0, "i: no insights\n", "")
    assert operad("insights", "i", "--json") == (0, "[]\n", "")


def test_a_key_that_is_not_there_removes_nothing(operad, tmp_path):
    [key] = filled(tmp_path / "i", LESSON)
    status, out, err = operad("insights", "i", "--forget", key, "--forget", key[1:])
    assert (status, out) == (2, "")
    assert err == f"operad: no insight is kept under {key[1:]!r} (did you mean {key!r}?); there is {key}\n"
    assert key in operad("insights", "i")[1]


def test_to_forget_some_and_all_is_one_too_many(operad, tmp_path):
    [key] = filled(tmp_path / "i", LESSON)
    status, _, err = operad("insights", "i", "--forget", key, "--clear")
    assert (status, err) == (2, "operad: --clear removes all insights: leave --forget out\n")
    assert key in operad("insights", "i")[1]


@pytest.mark.parametrize("option", [[], ["--clear"], ["--json"]])
def test_a_file_that_is_not_there_is_not_made(operad, tmp_path, option):
    status, out, err = operad("insights", "none.sqlite", *option)
    assert (status, bool(out)) == (2, option == ["--json"])
    assert err.startswith("operad: none.sqlite: there is no such file")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_left_as_it_is(operad, tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no database " * 100)
    (tmp_path / "folder").mkdir()
    for name, told in {
        "empty": "is empty",
        "text": "not a database",
        "folder": "no such file",
        ":memory:": "no such",
    }.items():
        status, out, err = operad("insights", name, "--clear")
        assert (status, out) == (2, "")
        assert err.startswith("operad: ")
        assert told in err
    assert (tmp_path / "empty").read_bytes() == b""
    assert (tmp_path / "text").read_text() == "no database " * 100


async def test_a_cache_is_no_store_of_insights(tmp_path, monkeypatch, capsys):
    cache = Cache(tmp_path / "c")
    assert await cache.get("k") is None
    cache.close()
    monkeypatch.setattr(sys, "argv", ["operad", "insights", str(tmp_path / "c")])
    with pytest.raises(SystemExit):
        cli.main()
    assert "not a store of insights of operad" in capsys.readouterr().err


def test_rows_that_make_no_sense_are_told_in_one_line(operad, tmp_path):
    import sqlite3

    filled(tmp_path / "i", LESSON)
    with closing(sqlite3.connect(tmp_path / "i")) as connection, connection:
        connection.execute("INSERT INTO insights VALUES ('g', 'k', 'op', 'fine', 'a', 'many', 0, 9e999)")
    connection.close()
    status, out, _ = operad("insights", "i")
    assert (status, "0 of 0" in out) == (0, True)
    with closing(sqlite3.connect(tmp_path / "i")) as connection, connection:
        connection.execute("INSERT INTO insights VALUES ('g', 'l', 'op', x'ff', 'a', 1, 0, 0)")
    connection.close()
    status, _, err = operad("insights", "i")
    assert (status, err.count("\n")) == (2, 1)
    assert "cannot be used as a store of insights" in err
    assert operad("insights", "i", "--clear")[0] == 0
