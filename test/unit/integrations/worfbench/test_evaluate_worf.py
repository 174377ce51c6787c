"""`operad evaluate worf`."""

import json
import sys

import pytest

from operad.cli import main as cli
from operad.integrations.worfbench.command import Item, pair
from operad.runtime.values.errors import InvalidError

GOLD = "Node:\n1: a\n2: b\nEdge: (START,1) (1,2) (2,END)"
WRONG = "Node:\n1: b\n2: x\nEdge: (START,1) (1,2) (2,END)"


def conversation(text, **more):
    return {"conversations": [{"role": "user", "content": "Plan."}, {"role": "assistant", "content": text}], **more}


@pytest.fixture
def worf(tmp_path, monkeypatch, capfd):
    """Runs the command on files made of values: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def worf(*arguments, exact=True):
        similarity = ["--similarity", "exact"] if exact else []
        monkeypatch.setattr(sys, "argv", ["operad", "evaluate", "worf", *map(str, arguments), *similarity])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        return left.value.code or 0, out, err

    return worf


@pytest.fixture
def write(tmp_path):
    def write(name, *items):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        if name.endswith(".json"):
            file.write_text(json.dumps(items))
        else:
            lines = [item if isinstance(item, str) else json.dumps(item) for item in items]
            file.write_text("\n".join(lines))
        return file

    return write


def figures(out):
    """By key: F1 of nodes and graph."""
    return {item["key"]: (item["node"]["f1"], item["graph"]["f1"]) for item in json.loads(out)["items"]}


# Which prediction belongs to which gold workflow


def test_items_are_paired_by_id_in_any_file(worf, write):
    write("gold.json", conversation(GOLD, id="one"), conversation(GOLD, id=2))
    write("answers.jsonl", {"id": "2", "response": WRONG}, {"id": "one", "prediction": f"Here:\n{GOLD}"})
    status, out, err = worf("answers.jsonl", "--gold", "gold.json", "--json")
    assert (status, err) == (0, "")
    assert figures(out) == {"gold/one": (1, 1), "gold/2": (0.5, 0.5)}


def test_items_without_ids_are_paired_by_their_place(worf, write):
    write("gold.json", conversation(GOLD), conversation(GOLD))
    write("answers.json", conversation(GOLD), conversation(WRONG))
    status, out, _ = worf("answers.json", "--gold", "gold.json", "--json")
    assert status == 0
    assert figures(out) == {"gold/1": (1, 1), "gold/2": (0.5, 0.5)}


def test_texts_in_folders_are_paired_by_their_names(worf, write):
    write("gold/a.txt", GOLD)
    write("gold/b.txt", GOLD)
    write("predicted/b.md", WRONG)
    write("predicted/a.worfbench.txt", GOLD)
    _, out, _ = worf("predicted", "--gold", "gold", "--json")
    assert figures(out) == {"gold/a": (1, 1), "gold/b": (0.5, 0.5)}


def test_one_text_is_scored_against_another(worf, write):
    write("plan.txt", GOLD)
    write("answers/plan.txt", WRONG)
    _, out, _ = worf("answers/plan.txt", "--gold", "plan.txt", "--json")
    assert figures(out) == {"plan/plan": (0.5, 0.5)}


def test_folders_of_data_sets_are_paired_by_file(worf, write):
    for folder, text in (("gold", GOLD), ("predicted", WRONG)):
        write(f"{folder}/one.json", conversation(text, id="1"))
        write(f"{folder}/two.json", conversation(GOLD, id="1"))
        write(f"{folder}/LICENSE", "MIT")
    status, out, _ = worf("predicted", "--gold", "gold")
    assert status == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert rows == [
        ["one", "1", *["50.00"] * 6, "1"],
        ["two", "1", *["100.00"] * 6, "1"],
        ["mean of items", "2", *["75.00"] * 6, "2"],
        ["mean of data sets", "-", *["75.00"] * 6, "-"],
    ]


def test_a_gold_workflow_without_a_prediction_scores_0_with_a_warning(worf, write):
    write("gold.json", conversation(GOLD, id="a"), conversation(GOLD, id="b"), conversation(GOLD, id="c"))
    write("answers.jsonl", {"id": "b", "output": GOLD}, {"id": "c", "output": None})
    status, out, err = worf("answers.jsonl", "--gold", "gold.json", "--json")
    assert status == 0
    assert "1 of 3 gold workflows have no prediction and score 0: gold/a" in err
    said = json.loads(out)
    assert [item["notes"] for item in said["items"]] == [["no prediction"], [], ["nothing could be read"]]
    assert said["summary"]["mean of items"]["node"]["f1"] == 1 / 3


def test_all_that_cannot_be_paired_is_told_at_once():
    gold = [Item("one", "a", 1, b""), Item("one", "b", 2, b""), Item("two", "a", 1, b""), Item("two", "a", 2, b"")]
    predicted = [
        Item("answers", "a", 1, b""),
        Item("answers", "bb", 2, b""),
        Item("answers", "", 3, b""),
        Item("answers", "b", 4, b""),
        Item("one", "b", 1, b""),
    ]
    with pytest.raises(InvalidError) as caught:
        pair(gold, predicted)
    assert [(issue.code, issue.where) for issue in caught.value.issues] == [
        ("twice", "two/a"),
        ("no-gold", "answers/a"),
        ("no-gold", "answers/bb"),
        ("no-gold", "answers/3"),
        ("twice", "one/b"),
    ]
    assert "several data sets" in str(caught.value)
    assert "did you mean 'b'?" in str(caught.value)


def test_of_many_issues_the_first_and_their_number_are_told():
    with pytest.raises(InvalidError, match=r"^predictions \(the first 20 of 30 issues\): 20 issues") as caught:
        pair([Item("one", "a", 1, b"")], [Item("answers", f"x{n}", n, b"") for n in range(30)])
    assert caught.value.issues[-1].where == "answers/x19"


# What is kept


def test_what_is_kept_is_not_scored_again(worf, write, tmp_path):
    write("gold.json", conversation(GOLD, id="a"), conversation(GOLD, id="b"))
    write("answers.json", conversation(GOLD, id="a"), conversation(WRONG, id="b"))
    arguments = ("answers.json", "--gold", "gold.json", "--output", "out.jsonl", "--json")
    _, first, _ = worf(*arguments)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert len(lines) == 3
    (tmp_path / "out.jsonl").write_text("\n".join(lines[:2]) + "\n")
    _, second, err = worf(*arguments)
    assert second == first
    assert "1 of 2 were done before" in err
    assert (tmp_path / "out.jsonl").read_text().splitlines() == lines
    status, _, err = worf(*arguments, "--mode", "full")
    assert status == 2
    assert "mode 'paper', now 'full'" in err


def test_a_changed_prediction_is_scored_again(worf, write):
    write("gold.json", conversation(GOLD, id="a"))
    write("answers.json", conversation(WRONG, id="a"))
    arguments = ("answers.json", "--gold", "gold.json", "--output", "out.jsonl", "--json")
    worf(*arguments)
    write("answers.json", conversation(GOLD, id="a"))
    assert figures(worf(*arguments)[1]) == {"gold/a": (1, 1)}


def test_a_picture_is_drawn(worf, write, tmp_path):
    write("gold.json", conversation(GOLD))
    assert worf("gold.json", "--gold", "gold.json", "--plot", "f1.svg")[0] == 0
    assert "<svg" in (tmp_path / "f1.svg").read_text()


@pytest.mark.parametrize("name", [r"$\foo{$", "$1", "new\nline", "x\udcff", "数据"])
def test_names_of_files_are_drawn_as_they_are(worf, write, tmp_path, name):
    try:
        write(f"{name}.json", conversation(GOLD))
    except OSError:
        pytest.skip("files cannot be called so here")
    status, _, err = worf(f"{name}.json", "--gold", f"{name}.json", "--plot", "f1.svg")
    assert (status, err) == (0, "")
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".json", ".svg"]


@pytest.mark.slow
def test_sentences_are_compared_by_their_meaning(worf, write):
    write("gold.json", conversation("Node:\n1: Boil the water.\n2: Add the tea.\nEdge: (1,2)"))
    write("answers.json", conversation("Node:\n1: Heat the water until it boils.\n2: Put the tea in.\nEdge: (1,2)"))
    _, out, _ = worf("answers.json", "--gold", "gold.json", "--json", exact=False)
    assert figures(out) == {"gold/1": (1, 1)}
    assert json.loads(out)["summary"]["similarity"] == "embeddings"


def test_mode_official_is_scored(worf, write):
    write("gold.json", conversation("Node:\n1: a\nEdge: (START,1) (1,END)"))
    write("answers.json", conversation("Node:\n1: x\nEdge: (START,1) (1,END)"))
    _, out, _ = worf("answers.json", "--gold", "gold.json", "--json", "--mode", "official")
    assert figures(out) == {"gold/1": (1, 1 / 3)}


# What is wrong with what is given


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--similarity", "exac"], "there is no similarity 'exac' (did you mean 'exact'?)"),
        (["--mode", "papper"], "mode must be one of paper, full, official, not 'papper' (did you mean 'paper'?)"),
        (["--threshold", "60"], "threshold must be a number above 0 and at most 1, not 60.0"),
        (["--plot", "f1.pdf"], "must end in .png or .svg"),
        (["--plot", "folder.png"], "folder.png: cannot be written: Is a directory"),
        (["--seconds", "nan"], "--seconds nan: must be more than 0, and finite"),
        (["--gold", "none.json"], "none.json: cannot be read"),
        (["--gold", "empty"], "--gold empty: has no items"),
        (["--gold", "broken.json"], "broken.json: is not JSON"),
        (["--output", "no/out.jsonl"], "--output no/out.jsonl: cannot be used"),
    ],
)
def test_bad_options_are_told(worf, write, tmp_path, options, told):
    write("gold.json", conversation(GOLD))
    (tmp_path / "broken.json").write_text("[" * 100_000)
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.png").mkdir()
    status, out, err = worf("gold.json", "--gold", "gold.json", *options, exact=options[0] != "--similarity")
    assert (status, out) == (2, "")
    assert told in " ".join(err.split())
    assert "Traceback" not in err


def test_all_items_that_say_no_workflow_are_told_at_once(worf, write):
    write("gold.json", conversation(GOLD, id="a"), conversation(GOLD, id="b"))
    write(
        "answers.jsonl",
        7,
        {"id": True, "output": ""},
        {"id": "a"},
        {"conversations": []},
        {"conversations": [{"content": None}]},
        "",
        {"output": 7},
    )
    status, _, err = worf("answers.jsonl", "--gold", "gold.json")
    assert status == 2
    assert [line.split(": ")[0] for line in err.splitlines()[1:]] == [f"answers.jsonl:{n}" for n in (1, 2, 3, 4, 5, 7)]
    assert all(line.endswith(" [item]") for line in err.splitlines()[1:])


def test_all_lines_and_files_that_are_not_json_are_told_at_once(worf, write):
    write("gold.jsonl", '{"output"', "{}", '{"output": "a", "output": "b"}')
    write("more.json").write_text("[")
    err = worf("gold.jsonl", "more.json", "--gold", "gold.jsonl")[2]
    assert [f"\ngold.jsonl:{number}: " in err for number in (1, 2, 3)] == [True] * 3
    err = worf("gold.jsonl", "--gold", "more.json")[2]
    assert "more.json: is not JSON: Expecting value" in err


def test_all_gold_workflows_that_are_none_are_told_at_once(worf, write):
    write("gold.json", conversation("?", id="a"), conversation(GOLD, id="b"), conversation("Node:\n1: x", id="c"))
    status, _, err = worf("gold.json", "--gold", "gold.json")
    assert status == 2
    assert [line.split(": ")[0] for line in err.splitlines()[1:]] == ["gold/a", "gold/a", "gold/c"]
    assert all(line.endswith(" [format]") for line in err.splitlines()[1:])


def test_a_file_that_is_given_twice_is_told(worf, write):
    write("gold.json", conversation(GOLD, id="a"))
    status, _, err = worf("gold.json", "gold.json", "--gold", "gold.json")
    assert status == 2
    assert "gold/a is a prediction for gold/a, too" in err
