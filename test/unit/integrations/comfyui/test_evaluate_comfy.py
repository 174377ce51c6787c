"""`operad evaluate comfy`: files, golds, results that are kept, tables, JSON, pictures."""

import json
import sys

import pytest

from operad.cli import main as cli

INFO = {
    "Draw": {"input": {"required": {"text": ["STRING"]}}, "output": ["IMAGE"], "output_node": True},
    "Blur": {"input": {"required": {"image": ["IMAGE"]}}, "output": ["IMAGE"]},
    "Save": {"input": {"required": {"image": ["IMAGE"]}}, "output": [], "output_node": True},
}
GOOD = "IMAGE_1 = Draw(text='a')\nSave(image=IMAGE_1)\n"
LONG = "IMAGE_1 = Draw(text='a')\nIMAGE_2 = Blur(image=IMAGE_1)\nSave(image=IMAGE_2)\n"
ILLEGAL = "IMAGE_1 = Draw(text='a', txet='b')\nSave(image=IMAGE_1)\n"


@pytest.fixture
def comfy(tmp_path, monkeypatch, capfd):
    """Runs the command in a folder with the classes and the folder `answers`: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "info.json").write_text(json.dumps(INFO))
    (tmp_path / "answers").mkdir()

    def comfy(*arguments, classes="info.json"):
        command = ["operad", "evaluate", "comfy", *map(str, arguments), "--object-info", classes]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        return left.value.code or 0, out, err

    return comfy


@pytest.fixture
def answers(tmp_path, comfy):
    """Three answers: a good one, one that cannot be read, and one with a parameter too many."""
    folder = tmp_path / "answers"
    (folder / "a.py").write_text(GOOD)
    (folder / "b.txt").write_bytes(b"\xff")
    (folder / "c.md").write_text(f"<designed_workflow>\n```python\n{ILLEGAL}```\n</designed_workflow>")
    (folder / "notes.rst").write_text("no answer")
    return folder


def as_json(said):
    status, out, _ = said
    assert status == 0
    return json.loads(out)


def row(out, name):
    cells = next(line for line in out.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in cells.strip("│").split("│")]


def test_rates_are_shown_overall_and_by_difficulty(comfy, answers):
    status, out, _ = comfy(answers)
    assert status == 0
    assert row(out, "all") == ["all", "3", "66.67", "-", "-", "33.33", "33.33", "66.67", "33.33", "33.33", "33.33",
                               "66.67", "33.33", "33.33"]  # fmt: skip
    assert row(out, "easy")[1:3] == ["2", "100.00"]
    assert row(out, "hard")[1:3] == ["0", "-"]
    assert row(out, "unread")[1:3] == ["1", "0.00"]
    assert row(out, "b.txt")[1] == "format"
    assert "did you mean 'text'?" in out.replace("\n", " ")


def test_json_holds_the_rates_and_every_item(comfy, answers):
    said = as_json(comfy(answers, "--json"))
    assert said["summary"]["all"]["passes"] == pytest.approx(1 / 3)
    assert [item["key"] for item in said["items"]] == [f"{answers}/{name}" for name in ("a.py", "b.txt", "c.md")]
    assert [item["format"] for item in said["items"]] == [True, False, True]
    assert said["items"][1]["issues"][0]["message"].startswith("is not UTF-8")
    assert said["items"][2]["issues"][0]["code"] == "illegal-param"


def test_golds_are_found_by_name(comfy, answers, tmp_path):
    golds = tmp_path / "golds"
    golds.mkdir()
    for name in "abcd":
        (golds / f"{name}.json").write_text(
            json.dumps({"1": {"class_type": "Draw", "inputs": {}}, "2": {"class_type": "Save", "inputs": {}}})
        )
    (golds / "a.json").write_text(LONG)
    status, out, err = comfy(answers, "--gold", golds)
    assert status == 0
    assert row(out, "all")[3:5] == ["60.00", "30.00"]  # of 2 and 3 nodes 2 and 1; none; of 2 and 2 nodes 2 and 1
    assert "do not count: d" in err
    (golds / "c.json").unlink()
    status, _, err = comfy(answers, "--gold", golds)
    assert status == 2
    assert f"no gold workflow for {answers}/c.md" in err


def test_lines_hold_answers_in_any_form_and_their_golds(comfy, tmp_path):
    nodes = {"1": {"class_type": "Draw", "inputs": {"text": "a"}}, "2": {"class_type": "Save", "inputs": {"image": ["1", 0]}}}  # fmt: skip
    lines = [
        {"id": "x", "answer": f"<workflow>{GOOD}</workflow>", "gold": GOOD},
        {"id": "y", "response": None, "gold": GOOD},
        {"code": GOOD, "gold": LONG},
        {"id": 7, "workflow": nodes, "gold": nodes},
    ]
    (tmp_path / "all.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    said = as_json(comfy("all.jsonl", "--json"))
    assert [item["key"] for item in said["items"]] == [f"all.jsonl:{each}" for each in ("x", "y", "5", "7")]
    assert [item["graph_f1"] for item in said["items"]] == [1, 0, 0.4, 1]
    assert [item["node_f1"] for item in said["items"]] == [1, 0, 0.8, 1]


def test_golds_may_be_lines_or_one_for_all(comfy, tmp_path):
    (tmp_path / "all.jsonl").write_text(json.dumps({"id": "x", "answer": GOOD}))
    (tmp_path / "golds.jsonl").write_text(json.dumps({"id": "x", "gold": LONG}))
    (tmp_path / "gold.py").write_text(GOOD)
    assert as_json(comfy("all.jsonl", "--gold", "golds.jsonl", "--json"))["items"][0]["node_f1"] == 0.8
    assert as_json(comfy("all.jsonl", "--gold", "gold.py", "--json"))["items"][0]["node_f1"] == 1


def test_what_is_kept_is_taken_from_there_and_is_no_answer(comfy, answers, tmp_path):
    out = answers / "results.jsonl"
    first = as_json(comfy(answers, "--output", out, "--json"))
    (answers / "a.py").write_text(LONG)
    status, said, err = comfy(answers, "--output", out, "--json")
    assert status == 0
    assert "2 of 3 were done before" in err
    assert json.loads(said)["items"][1:] == first["items"][1:]
    assert json.loads(said)["items"][0]["nodes"] == 3
    (tmp_path / "other.json").write_text(json.dumps({"Draw": INFO["Draw"]}))
    status, _, err = comfy(answers, "--output", out, classes="other.json")
    assert status == 2
    assert "holds results of another evaluation (classes " in err


def test_results_of_another_version_are_refused(comfy, answers, tmp_path):
    comfy(answers, "--output", "out.jsonl")
    kept = (tmp_path / "out.jsonl").read_text()
    (tmp_path / "out.jsonl").write_text(kept.replace('"connected"', '"joined"'))
    status, _, err = comfy(answers, "--output", "out.jsonl")
    assert status == 2
    assert "out.jsonl: holds results of another version" in err


def test_rates_are_drawn(comfy, answers, tmp_path):
    assert comfy(answers, "--plot", "rates.svg")[0] == 0
    assert "<svg" in (tmp_path / "rates.svg").read_text()
    status, _, err = comfy(answers, "--plot", "rates.pdf")
    assert status == 2
    assert "must end in .png or .svg" in err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.jsonl", "{}", "x.jsonl:1: must be an object with an id and one of answer, response, code, workflow"),
        ("x.jsonl", '{"answr": "a"}', "did you mean 'answer'?"),
        ("x.jsonl", '{"id": 1, "gold": "A()"}', "one of answer, response, code, workflow [format]\n"),
        ("x.jsonl", '{"answer": 3}', "answer: must be a text"),
        ("x.jsonl", '{"answer": "a"', "x.jsonl:1: is not JSON"),
        ("x.jsonl", '{"answer": ' + '{"a":' * 99 + "1" + "}" * 100, "nested deeper"),
        ("x.jsonl", "\n", "has no lines"),
        ("x.jsonl", '{"id": 1, "answer": "a"}\n{"id": 1, "answer": "b"}', "x.jsonl:1' is there twice"),
        ("x.jsonl", '{"id": 1, "answer": "a", "gold": "b("}', "the gold of x.jsonl:1, line 1, column 2: is not valid"),
        (
            "x.jsonl",
            '{"answer": "a", "gold": "A()"}\n{"answer": "a"}',
            "no gold workflow for x.jsonl:2; add `gold` to these lines, or remove it from the others",
        ),
    ],
)
def test_lines_that_are_wrong_are_told_with_their_place(comfy, tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    status, _, err = comfy(name)
    assert status == 2
    assert said in err
    assert "Traceback" not in err


def test_wrong_lines_of_all_files_and_all_wrong_golds_are_told_at_once(comfy, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"answer": 3}\n{"answer"')
    (tmp_path / "y.jsonl").write_text("[]")
    err = comfy("x.jsonl", "y.jsonl")[2]
    assert [place in err for place in ("3 issues\nx.jsonl:1: ", "\nx.jsonl:2: ", "\ny.jsonl:1: ")] == [True] * 3
    (tmp_path / "x.jsonl").write_text('{"answer": "a", "gold": "b("}\n{"answer": "a", "gold": "# none"}')
    err = comfy("x.jsonl")[2]
    assert ["the gold of x.jsonl:1, line 1" in err, "the gold of x.jsonl:2, " in err] == [True, True]


def test_files_that_are_not_there_are_told(comfy, tmp_path):
    assert "answer: no such file (did you mean 'answers'?)" in comfy("answer")[2]
    assert "has no files that end with" in comfy(tmp_path / "answers")[2]
    assert "no such file" in comfy("info.json", "--gold", "nowhere")[2]
    (tmp_path / "none.json").write_text("{}")
    assert "tells of no class" in comfy("info.json", classes="none.json")[2]
    assert "--object-info: name a file" in comfy("info.json", classes="")[2]


def test_names_and_texts_of_others_are_shown_as_they_are(comfy, answers):
    (answers / "[red]x[bold].py").write_text("IMAGE_1 = Draw(text='a', **{'[/i]\x1b[2J': 1})\nSave(image=IMAGE_1)\n")
    (answers / "half.json").write_text('{"1": {"class_type": "\\ud800", "inputs": {}}}')
    assert comfy(answers, "--json")[0] == 0
    status, out, _ = comfy(answers)
    assert status == 0
    assert "[red]x[bold].py" in out
    assert "\x1b" not in out


def test_a_file_that_is_too_large_has_no_format(comfy, answers):
    (answers / "large.py").write_bytes(b"#" * (17 * 2**20))
    (item,) = [each for each in as_json(comfy(answers, "--json"))["items"] if each["key"].endswith("large.py")]
    assert not item["format"]
    assert item["issues"][0]["code"] == "size"


@pytest.mark.slow
def test_the_official_templates_score_as_they_are(comfy, shared_data):
    folder = shared_data / "comfyui"
    said = as_json(comfy(folder / "workflows", "--json", "--gold", folder / "workflows", classes=f"{folder}/object_info.json"))  # fmt: skip
    rates = said["summary"]["all"]
    assert (rates["count"], rates["format"], rates["node_f1"], rates["graph_f1"]) == (37, 1, 1, 1)
    assert {item["key"].rpartition("/")[2] for item in said["items"] if not item["passes"]} == {
        "api_tripo3_0_text_to_model.json",  # its class has changed since
        "basic_mask_operations_and_compositing.json",  # a node in it is linked to nothing
    }
