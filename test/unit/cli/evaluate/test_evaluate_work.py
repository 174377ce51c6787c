"""Evaluations keep what is done: another call goes on from there."""

import json
from pathlib import Path

import pytest

from operad.cli.evaluate.work import IncompleteError, Work, evaluate
from operad.runtime.values.errors import InputError, OperadError


class Scores:
    """Items that count how often each is scored."""

    def __init__(self, *names, fails=None):
        self.names, self.fails, self.done = list(names), fails, []

    def work(self, contents=None):
        return [Work(name, (contents or {}).get(name, b""), self.of(name)) for name in self.names]

    def of(self, name):
        async def score():
            if self.fails and name == self.fails[0]:
                raise self.fails[1]
            self.done.append(name)
            return {"length": len(name)}

        return score


def test_results_come_in_the_order_of_the_items():
    scores = Scores("bb", "a", "ccc")
    found = evaluate(scores.work(), {}, None, at_once=2)
    assert found == [{"key": "bb", "length": 2}, {"key": "a", "length": 1}, {"key": "ccc", "length": 3}]


def test_what_is_kept_is_not_scored_again(tmp_path):
    out = tmp_path / "out.jsonl"
    first = evaluate(Scores("a", "b").work(), {"metric": "x"}, out)
    more = Scores("a", "b", "c")
    second = evaluate(more.work(), {"metric": "x"}, out)
    assert more.done == ["c"]
    assert second[:2] == first


def test_what_changed_is_scored_again(tmp_path):
    out = tmp_path / "out.jsonl"
    evaluate(Scores("a", "b").work({"b": b"old"}), {}, out)
    again = Scores("a", "b")
    evaluate(again.work({"b": b"new"}), {}, out)
    assert again.done == ["b"]
    third = Scores("a", "b")
    evaluate(third.work({"b": b"new"}), {}, out)
    assert third.done == []


def test_a_line_cut_off_in_the_middle_is_scored_again(tmp_path):
    out = tmp_path / "out.jsonl"
    evaluate(Scores("a", "b").work(), {}, out)
    out.write_bytes(out.read_bytes()[:-5])
    again = Scores("a", "b")
    evaluate(again.work(), {}, out)
    assert again.done == ["b"]
    assert all(json.loads(line) for line in out.read_text().splitlines())


def test_other_settings_are_refused(tmp_path):
    out = tmp_path / "out.jsonl"
    evaluate(Scores("a").work(), {"mode": "paper"}, out)
    with pytest.raises(InputError, match="mode 'paper', now 'full'"):
        evaluate(Scores("a").work(), {"mode": "full"}, out)


@pytest.mark.parametrize("content", [b"hello\n", b"{}\n", b"[1]\n", b"\x00\xff", b"no end of line"])
def test_another_file_is_left_as_it_is(tmp_path, content):
    out = tmp_path / "out.jsonl"
    out.write_bytes(content)
    with pytest.raises(InputError, match="not a file of results"):
        evaluate(Scores("a").work(), {}, out)
    assert out.read_bytes() == content


@pytest.mark.parametrize("line", ['{"print": null}', '{"print": null, "key": ["a"]}', '{"print": "x", "key": "a"}'])
def test_lines_that_are_no_results_are_passed_over(tmp_path, line):
    out = tmp_path / "out.jsonl"
    evaluate([], {}, out)
    out.write_text(f"{out.read_text()}{line}\n")
    scores = Scores("a")
    assert evaluate(scores.work(), {}, out) == [{"key": "a", "length": 1}]


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="cannot be used"):
        evaluate(Scores("a").work(), {}, tmp_path / "none" / "out.jsonl")


def test_two_items_of_one_name_are_refused():
    with pytest.raises(InputError, match="'a' is there twice"):
        evaluate(Scores("a", "a").work(), {}, None)


@pytest.mark.parametrize("out", [None, "out.jsonl"])
def test_an_error_says_what_is_kept(tmp_path, out):
    path = tmp_path / out if out else None
    scores = Scores("a", "b", "c", fails=("b", OperadError("the endpoint is gone")))
    with pytest.raises(IncompleteError, match="the endpoint is gone") as failure:
        evaluate(scores.work(), {}, path)
    assert "1 of 3 items are done" in str(failure.value)
    assert ("the same command continues" in str(failure.value)) is (out is not None)
    if path:
        again = Scores("a", "b", "c")
        evaluate(again.work(), {}, path)
        assert again.done == ["b", "c"]


def test_an_interrupt_says_what_is_kept(tmp_path: Path, capsys):
    out = tmp_path / "out.jsonl"
    scores = Scores("a", "b", fails=("b", KeyboardInterrupt()))
    with pytest.raises(SystemExit) as stop:
        evaluate(scores.work(), {}, out)
    assert stop.value.code == 130
    assert "interrupted; 1 of 2 items are done and kept in" in capsys.readouterr().err
