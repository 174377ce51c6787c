"""Copies of runs with other outputs of operators, or other inputs of the job."""

import json

import pytest
from pydantic import BaseModel

from operad import InputError, Job, Map, Workflow, load_workflow, operator
from operad.runtime.durable import Ledger
from operad.runtime.durable.restart import origin_text


class Figures(BaseModel):
    total: int
    unit: str = "EUR"


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "runs.db") as ledger:
        yield ledger


@pytest.fixture
def report(ledger):
    """A workflow of three operators, with a finished run ``m``, and the operators that ran since."""
    ran = []

    @operator
    def fetch(job: Job) -> Figures:
        ran.append("fetch")
        return Figures(total=3)

    @operator
    def check(fetch: Figures, job: Job) -> str:
        ran.append("check")
        return f"{fetch.total} {fetch.unit} of {job.inputs['limit']}"

    @operator
    def write(check: str) -> str:
        ran.append("write")
        return f"report: {check}"

    flow = Workflow(fetch >> check >> write, durable=ledger, name="report")
    assert flow.run(Job(goal="x", inputs={"limit": 9}), run_id="m").text == "report: 3 EUR of 9"
    ran.clear()
    return flow, ran


@pytest.mark.parametrize(
    ("operator", "changes", "text", "again"),
    [
        ("fetch", {"outputs": {"fetch": {"total": 5, "unit": "USD"}}}, "report: 5 USD of 9", ["check", "write"]),
        ("fetch", {"outputs": {"fetch": Figures(total=6)}}, "report: 6 EUR of 9", ["check", "write"]),
        ("check", {"inputs": {"limit": 100}}, "report: 3 EUR of 100", ["check", "write"]),
        ("write", {"outputs": {"check": "nothing"}}, "report: nothing", ["write"]),
        (
            "check",
            {"outputs": {"fetch": {"total": 1}}, "inputs": {"limit": 2}},
            "report: 1 EUR of 2",
            ["check", "write"],
        ),
        ("write", {"outputs": {"write": "by hand"}}, "by hand", []),
    ],
)
def test_a_copy_continues_with_other_outputs_and_inputs(ledger, report, operator, changes, text, again):
    flow, ran = report
    copy = ledger.restart_from("m", operator, flow, **changes)
    assert flow.resume(copy, {}).text == text
    assert ran == again
    assert ledger.result("m").text == "report: 3 EUR of 9"


@pytest.mark.parametrize(
    ("operator", "changes", "said"),
    [
        ("check", {"outputs": {"fetch": {"total": "many"}}}, "the output of 'fetch': .*total"),
        ("check", {"outputs": {"fetch": {"totl": 3}}}, "there is no output 'totl' .did you mean 'total'"),
        ("check", {"outputs": {"fetch": 3}}, "expected an object with some of its outputs: total, unit"),
        ("check", {"outputs": {"fetsh": 3}}, "no operator has the path 'fetsh' .did you mean 'fetch'"),
        ("check", {"outputs": {"check": object()}}, "the output of 'check'"),
        ("check", {"outputs": {"fetch": {"total": 1}}, "round": 2}, "did not run in round 2"),
    ],
)
def test_what_does_not_fit_makes_no_copy(ledger, report, operator, changes, said):
    with pytest.raises(InputError, match=said):
        ledger.restart_from("m", operator, report[0], **changes)
    assert [run.run_id for run in ledger.runs()] == ["m"]


def test_an_input_that_no_operator_reads_is_refused_with_near_names(ledger):
    @operator
    def greet(name: str) -> str:
        return f"Hello {name}"

    flow = Workflow([greet], durable=ledger)
    flow.run(Job(goal="x", inputs={"name": "Ada"}), run_id="g")
    with pytest.raises(InputError, match=r"no operator reads the inputs 'nmae' .did you mean 'name'"):
        ledger.restart_from("g", "greet", flow, inputs={"nmae": "Bob"})
    assert flow.resume(ledger.restart_from("g", "greet", flow, inputs={"name": "Bob"}), {}).text == "Hello Bob"


def test_one_item_of_a_map_gets_another_output(ledger):
    @operator
    def items(job: Job) -> list[str]:
        return ["a", "b"]

    @operator
    def shout(item: str) -> str:
        return item.upper()

    @operator
    def join(each: list[str]) -> str:
        return "".join(each)

    flow = Workflow(items >> Map("each", shout) >> join, durable=ledger)
    assert flow.run("x", run_id="n").text == "AB"
    copy = ledger.restart_from("n", "each[1]/shout", flow, outputs={"each[1]/shout": "!"})
    assert flow.resume(copy, {}).text == "A!"
    with pytest.raises(InputError, match="the output of 'each' cannot be changed"):
        ledger.restart_from("n", "each", flow, outputs={"each": ["x"]})


def test_the_output_of_a_failed_operator_is_given_by_hand(ledger):
    @operator
    def fetch(job: Job) -> int:
        raise OSError("no network")

    @operator
    def double(fetch: int) -> str:
        return str(2 * fetch)

    flow = Workflow(fetch >> double, durable=ledger)
    with pytest.raises(Exception, match="no network"):
        flow.run("x", run_id="f")
    assert flow.resume(ledger.restart_from("f", "fetch", flow, outputs={"fetch": 21}), {}).text == "42"


@pytest.fixture
def letters(ledger, tmp_path):
    """A workflow of typed nodes, with a finished run ``n``."""
    file = tmp_path / "flow.yaml"
    file.write_text(
        "workflow: letters\nnodes:\n"
        "  1: {type: start, variables: {name: string, tone: string, copies: number}, defaults: {copies: 1}}\n"
        "  2: {type: template-transform, after: 1, template: 'Dear {{ name }}', variables: {name: 1.name}}\n"
        "  3:\n    type: template-transform\n    after: 2\n    template: '{{ text }} ({{ tone }})'\n"
        "    variables: {text: 2.output, tone: 1.tone}\n"
        "  4: {type: end, after: 3, outputs: {letter: 3.output}}\n"
    )
    flow = load_workflow(file)
    flow.keep_in(ledger)
    flow.run(Job(goal="x", inputs={"name": "Ada", "tone": "kind"}), run_id="n")
    return flow


def test_inputs_of_a_workflow_of_nodes_change_without_running_the_kept_nodes(ledger, letters):
    copy = ledger.restart_from("n", "3", letters, inputs={"name": "Bob", "tone": "cold"})
    assert letters.resume(copy, {}).outputs["letter"] == "Dear Ada (cold)"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"tnoe": "cold"}, "'tnoe' .did you mean 'tone'"),
        ({"copies": "many"}, "'copies': expected number"),
        ({"tnoe": "cold", "copies": "many"}, "'tnoe'.*'copies'"),
    ],
)
def test_inputs_that_a_workflow_of_nodes_does_not_take_make_no_copy(ledger, letters, inputs, said):
    with pytest.raises(InputError, match=f"run 'n': .*{said}"):
        ledger.restart_from("n", "3", letters, inputs=inputs)
    assert [run.run_id for run in ledger.runs()] == ["n"]


def test_the_record_says_what_was_changed_and_by_whom(ledger, report):
    copy = ledger.restart_from("m", "check", report[0], outputs={"fetch": {"total": 4}}, inputs={"limit": 1}, by="ada")
    kept = ledger.run(copy)
    assert json.loads(kept.origin) == {
        "run": "m", "operator": "check", "round": 1, "by": "ada", "outputs": ["fetch"], "inputs": ["limit"],
    }  # fmt: skip
    assert origin_text(kept) == "a copy of m from check on; changed by ada: the output of fetch, the input limit"
    assert origin_text(ledger.run("m")) == ""
