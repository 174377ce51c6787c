"""Values of nodes that are pinned, given or changed in the studio."""

import pytest
from studios import FIVE
from typer.testing import CliRunner

from operad.cli.main import app
from operad.runtime.evaluation.cases import Dataset
from operad.server.studio.runs.pins import Pins


def pinned(studio, name="five.yaml"):
    return studio.get(f"data/pins?path={name}").json()


def test_a_pinned_node_does_not_run_and_gives_its_value_in_every_run(studio):
    studio.run(inputs={"topic": "rain"})
    told = studio.told("pins", {"path": "five.yaml", "node": "2"})
    assert told["pins"] == {"2": {"output": "About rain"}}
    for topic in ("snow", "hail"):
        outputs, last = studio.run(inputs={"topic": topic})
        assert (outputs["2"], last["result"]) == (
            {"output": "About rain"},
            {"loud": "About rain!", "quoted": f"<{topic}>"},
        )
        assert [span["state"] for span in last["spans"] if span["name"] == "2"][-1:] in (["kept"], [])
    told = studio.told("pins", {"path": "five.yaml", "node": "2", "unpin": True})
    assert told["pins"] == {}
    assert studio.run(inputs={"topic": "snow"})[1]["result"]["loud"] == "About snow!"


def test_a_value_is_edited_as_the_type_that_its_node_declares(studio):
    told = studio.told("pins", {"path": "five.yaml", "node": "3", "outputs": {"output": "Edited"}})
    assert told["pins"] == {"3": {"output": "Edited"}}
    assert studio.run(inputs={"topic": "rain"})[1]["result"] == {"loud": "Edited", "quoted": "<rain>"}
    told = studio.refused("pins", {"path": "five.yaml", "node": "3", "outputs": {"outputt": "x", "more": 1}}, 400)
    assert all(name in told["error"] for name in ("'outputt'", "'output'", "'more'"))


@pytest.mark.parametrize(
    ("node", "says"),
    [("1", "cannot be pinned"), ("9", "there is no node '9'"), ("2", "has not run yet")],
)
def test_what_cannot_be_pinned_is_refused_with_the_reason(studio, node, says):
    assert says in studio.refused("pins", {"path": "five.yaml", "node": node}, 400)["error"]


def test_pinned_values_outlive_the_studio_and_stay_out_of_the_folder(serve, tmp_path):
    studio = serve()
    (studio.folder / "five.yaml").write_text(FIVE)
    studio.told("pins", {"path": "five.yaml", "node": "2", "outputs": {"output": "kept"}})
    assert [each.name for each in studio.folder.iterdir() if "pin" in each.name] == []
    studio.run(inputs={"topic": "rain"})
    again = serve()
    assert pinned(again)["pins"] == {"2": {"output": "kept"}}


def test_the_value_of_a_removed_node_is_dropped_and_one_that_no_longer_fits_is_not_used(serve):
    studio = serve()
    (studio.folder / "code.yaml").write_text(CODE)
    studio.told("pins", {"path": "code.yaml", "node": "2", "outputs": {"n": 3}})
    studio.told("pins", {"path": "code.yaml", "node": "3", "outputs": {"output": "x"}})
    assert studio.run("code.yaml", inputs={"text": "a b"})[1]["result"] == {"n": 3, "t": "x"}
    document = studio.apply(
        studio.open("code.yaml"), {"op": "set", "node": "2", "path": "outputs", "value": [["n", "array[string]"]]}
    )
    told = pinned(studio, "code.yaml")
    assert (list(told["pins"]), list(told["faults"])) == (["3"], ["2"])
    studio.apply(document, {"op": "remove_node", "node": "3"})
    assert pinned(studio, "code.yaml")["dropped"] == ["Template transform"]
    assert pinned(studio, "code.yaml")["dropped"] == []


CODE = """\
workflow: code
nodes:
  1: {type: start, variables: {text: string}}
  2: {type: code, after: 1, language: python, code: "def main(text): return {'n': len(text)}", variables: {text: 1.text}, outputs: {n: number}}
  3: {type: template-transform, after: 2, template: "{{ n }}", variables: {n: 2.n}}
  4: {type: end, after: 3, outputs: {n: 2.n, t: 3.output}}
"""


def test_a_node_runs_alone_with_typed_values_before_any_run(studio):
    read = studio.get("data/reads/3?path=five.yaml").json()["variables"]
    assert read == [
        {
            "reference": "2.output", "name": "output", "title": "Template transform #2", "type": "string",
            "value": None, "has_file": False,
        }
    ]  # fmt: skip
    outputs, last = studio.run(only="3", given={"2.output": "typed"})
    assert (outputs["3"], last["error"]) == ({"output": "typed!"}, None)
    assert (
        "reads no '2.outputt'"
        in studio.refused("run", {"path": "five.yaml", "only": "3", "given": {"2.outputt": 1}}, 400)["error"]
    )
    told = studio.refused("run", {"path": "five.yaml", "from": "3"}, 400)  # that was no run of the workflow
    assert "without a value" in told["error"]


def test_typed_values_are_prefilled_with_those_pinned_or_of_the_last_run(studio):
    studio.run(inputs={"topic": "rain"})
    assert [each["value"] for each in studio.get("data/reads/3?path=five.yaml").json()["variables"]] == ["About rain"]
    studio.told("pins", {"path": "five.yaml", "node": "2", "outputs": {"output": "pinned"}})
    assert [each["value"] for each in studio.get("data/reads/3?path=five.yaml").json()["variables"]] == ["pinned"]


def test_a_run_from_a_node_uses_what_is_pinned_without_a_run_before(studio):
    told = studio.refused("run", {"path": "five.yaml", "from": "5"}, 400)
    assert told["error"] == "3, 4: without a value; pin one, or run the whole workflow once"
    for node in ("3", "4"):
        studio.told("pins", {"path": "five.yaml", "node": node, "outputs": {"output": f"of {node}"}})
    _, last = studio.run(**{"from": "5"})
    assert (last["result"], last["reused"]) == ({"loud": "of 3", "quoted": "of 4"}, ["1", "2", "3", "4"])


def test_a_file_of_a_node_is_pinned_as_a_copy(serve, tmp_path):
    studio = serve()
    (studio.folder / "doc.yaml").write_text(DOC)
    studio.told("pins", {"path": "doc.yaml", "node": "2", "outputs": {"files": [studio.upload("a.md", b"# pinned")]}})
    told = pinned(studio, "doc.yaml")["pins"]["2"]["files"][0]["file"]
    assert (told["name"], studio.get(told["url"]).content) == ("a.md", b"# pinned")


DOC = """\
workflow: doc
nodes:
  1: {type: start, variables: {text: string}}
  2: {type: markdown-exporter, after: 1, text: "{{#1.text#}}", to_format: docx}
  3: {type: end, after: 2, outputs: {files: 2.files}}
"""


def test_broken_pins_are_none(tmp_path, studio):
    pins = Pins(tmp_path)
    folder = pins._folder(tmp_path / "x.yaml")
    folder.mkdir(parents=True)
    (folder / "pins.json").write_text("{nonsense")
    from operad.flows.node_graph import NodeGraph

    assert pins.of(tmp_path / "x.yaml", NodeGraph()).messages == {}


def asked(studio, messages):
    """Return the next breakpoint where a run waits: its node and question."""
    for told in messages:
        if told["questions"]:
            return told["questions"][0]["node"], told["questions"][0]["id"]
    raise AssertionError("the run never waited")


def answered(studio, run, question, go, **values):
    body = {"interrupt_id": question, "value": {"go": go, "values": values}}
    studio.told(f"runs/{run}/answer", body)


def test_a_run_waits_at_a_breakpoint_steps_and_goes_on_with_changed_values(studio):
    run = studio.told("run", {"path": "five.yaml", "inputs": {"topic": "rain"}, "breakpoints": ["2"]})["run"]
    messages = studio.messages(f"data/runs/{run}/changes")
    node, question = asked(studio, messages)
    assert node == "2"
    read = studio.get(f"data/reads/2?path=five.yaml&run={run}").json()["variables"]
    assert [(each["reference"], each["value"]) for each in read] == [("1.topic", "rain")]
    answered(studio, run, question, "step", **{"1.topic": "snow"})
    node, question = next(
        (each["node"], each["id"]) for told in messages for each in told["questions"] if each["node"] == "3"
    )
    answered(studio, run, question, "continue")
    *_, last = messages
    assert last["result"] == {"loud": "About snow!", "quoted": "<rain>"}


def test_a_value_of_the_wrong_kind_at_a_breakpoint_is_asked_for_again(studio):
    run = studio.told("run", {"path": "five.yaml", "inputs": {"topic": "rain"}, "breakpoints": ["2"]})["run"]
    messages = studio.messages(f"data/runs/{run}/changes")
    _, question = asked(studio, messages)
    answered(studio, run, question, "continue", **{"9.nothing": 1})
    again = next(each for told in messages for each in told["questions"] if each["id"] != question)
    assert "9.nothing" in again["text"]
    answered(studio, run, again["id"], "continue")
    *_, last = messages
    assert last["result"]["loud"] == "About rain!"


def test_a_run_steps_from_node_to_node(studio):
    run = studio.told("run", {"path": "five.yaml", "inputs": {"topic": "rain"}, "step": True})["run"]
    messages = studio.messages(f"data/runs/{run}/changes")
    assert asked(studio, messages)[0] == "1"
    studio.told(f"runs/{run}/cancel", {})


def test_a_test_of_a_run_with_pinned_values_keeps_them_and_an_evaluation_gives_them(studio):
    studio.told("pins", {"path": "five.yaml", "node": "2", "outputs": {"output": "pinned"}})
    run = studio.told("run", {"path": "five.yaml", "inputs": {"topic": "rain"}})["run"]
    list(studio.messages(f"data/runs/{run}/changes"))
    studio.told("pins", {"path": "five.yaml", "node": "2", "unpin": True})  # the test keeps those of the run
    test = {"name": "rainy", "holds": "equals", "of": ""}
    assert studio.told(f"runs/{run}/test", test) == {"file": "five.cases.jsonl"}
    assert "already" in studio.refused(f"runs/{run}/test", test, 400)["error"]
    [case] = Dataset.load(studio.folder / "five.cases.jsonl")
    assert (case.name, case.job.inputs) == ("rainy", {"topic": "rain"})
    assert case.expected == {"loud": "pinned!", "quoted": "<rain>"}
    assert {place: message.outputs for place, message in case.pinned.items()} == {"2": {"output": "pinned"}}
    command = [
        "evaluate",
        "cases",
        str(studio.folder / "five.yaml"),
        "--cases",
        str(studio.folder / "five.cases.jsonl"),
        "-o",
        str(studio.folder / "five.evaluation.jsonl"),
        "--scripted",
    ]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
