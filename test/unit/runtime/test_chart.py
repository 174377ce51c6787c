import pytest

from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Port
from operad.runtime.graph.chart import chart
from operad.runtime.values.mermaid import MAX_LABEL, label


def operator(name):
    return Operator(OperatorConfig(instruction="work", id=name))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("llm 3", '"llm 3"'),
        ('a "b" [c]|{d}', '"a #34;b#34; #91;c#93;#124;#123;d#125;"'),
        ("two\nlines", '"two lines"'),
        ("`end`;#", '"#96;end#96;#59;#35;"'),
        ("节点", '"节点"'),
        ("", '" "'),
        ("x" * 100, f'"{"x" * (MAX_LABEL - 1)}…"'),
    ],
)
def test_a_label_stands_for_nothing_but_itself(text, shown):
    assert label(text) == shown


def test_a_workflow_shows_its_operators_ports_and_judges():
    triage, refund, answer = map(operator, ("triage", "refund", 'say "yes"'))
    workflow = BuiltinWorkflow()
    workflow.add_operator(triage)
    workflow.add_operator(refund, previous_ops=[Port(triage, "refund")])
    workflow.add_operator(answer, previous_ops=[triage, refund])
    workflow.set_evaluator(Evaluator(OperatorConfig(instruction="work", id="judge")))
    assert chart(workflow.graph()).splitlines() == [
        "flowchart TD",
        '  n0["triage"]',
        '  n1["refund"]',
        '  n2["say #34;yes#34;"]',
        '  n0 -->|"refund"| n1',
        "  n0 --> n2",
        "  n1 --> n2",
        '  n3(["judge"])',
        "  n2 -.-> n3",
    ]


def test_a_notebook_shows_a_workflow_even_one_that_cannot_be_built():
    workflow = BuiltinWorkflow()
    workflow.add_operator(operator("b"), previous_ops=[operator("never added")])
    assert (
        workflow._repr_mimebundle_()["text/markdown"]
        == '```mermaid\nflowchart TD\n  n0["b"]\n  n1["never added"]\n  n1 --> n0\n```\n'
    )
