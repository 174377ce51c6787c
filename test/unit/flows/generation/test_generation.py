"""The design of workflows: what each stage asks, what becomes of good and of bad answers, and who is asked again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from operad.configs.generation import Designer
from operad.flows.formats.chat2workflow import dump, issues_of
from operad.flows.formats.operad import OPERAD
from operad.flows.generation.drafting import drafted, params_of
from operad.flows.generation.mending import essence_of, findings_in, nodes_in, repair_draft
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.dify.format import DIFY
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.runtime import WorkflowStatus
from operad.runtime.testing import BreakOff, Fail, Say, ScriptedModel, ScriptedReasoner, Step
from operad.runtime.values.errors import InputError, ModelError, OperatorError

INSTRUCTION = (
    "Create a workflow. The user provides a paper file (variable paper) and a language (variable language). Sum the "
    "paper up in that language. The workflow outputs the summary (variable summary)."
)


def node(id, type, after=(), change="add", **params):
    return {"id": id, "type": type, "change": change, "inside": "", "after": list(after), "params": params}


BUILT = {
    "1": {"variables": [{"name": "paper", "type": "file"}, {"name": "language", "type": "string"}]},
    "2": {"variable_selector": "1.paper"},
    "3": {"system": "", "user": "Sum up in {{#1.language#}}:\n{{#2.text#}}"},
    "4": {"outputs": [{"name": "summary", "value": "3.text"}]},
}


def planned(**params):
    """The plan of a summary, with these parameters in place of its own."""
    kinds = {"1": "start", "2": "document-extractor", "3": "llm", "4": "end"}
    afters = {"1": [], "2": ["1"], "3": ["2"], "4": ["3"]}
    nodes = [node(each, kind, afters[each], **{**BUILT, **params}[each]) for each, kind in kinds.items()]
    return {"reasoning": "read, sum up", "nodes": nodes, "drop": []}


PLAN = planned()
CONTENT = {"evaluation": "right", "findings": []}


NOT_CONTENT = {
    **CONTENT,
    "findings": [{"node": "3", "problem": "The length is open.", "change": "Say five sentences."}],
}


def mended(**params):
    """An answer that sets these parameters of nodes."""
    return {"nodes": [{"id": each.removeprefix("_"), "params": given} for each, given in params.items()]}


def contest(reason):
    return {"nodes": [], "wrong": {"1": reason}}


class Model:
    """Answers each stage from a list of its own; the last answer again and again."""

    def __init__(self, plan=(PLAN,), mend=(), judge=(CONTENT,)):
        self.answers = {"plan": list(plan), "mend": list(mend), "judge": list(judge)}
        self.asked = []

    def __call__(self, request) -> Step:
        form = (request.get("response_format") or {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        keys = {"wrong": "mend", "findings": "judge"}
        stage = next((stage for key, stage in keys.items() if key in form), "plan")
        self.asked.append((stage, "\n".join(str(message["content"]) for message in request["messages"])))
        left = self.answers[stage]
        if not left:
            return Fail(500, "gone")
        answer = left.pop(0) if len(left) > 1 else left[0]
        return Say(answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def stages(self):
        return [stage for stage, _ in self.asked]


@pytest.fixture
def design():
    """Designs with scripted answers: the design, and what was asked."""

    def made(model, instruction=INSTRUCTION, base=None, review=True, **options):
        with ScriptedModel(model) as scripted:
            named = scripted.model.model_copy(update=options)
            designer = Designer(named, review=review)
            return designer.design(instruction, base) if base else designer.design(instruction)

    return made


def test_a_plan_with_all_parameters_is_a_workflow_in_one_call(design):
    model = Model()
    made = design(model)
    assert made.accepted
    assert model.stages == ["plan", "judge"]
    assert issues_of(made.graph, NODE_TYPES) == []
    assert made.graph.instructions == (INSTRUCTION,)
    assert len(made.changes.added) == 4


@pytest.mark.parametrize(
    ("added", "finding"),
    [
        (
            node("5", "template-transform", ["3"], variables=[], template="In {{ tone }}."),
            "[undefined-variable] 5: template: 'tone'",
        ),
        (node("5", "text2image", prompt="a fig"), "[isolated] 5"),
    ],
)
def test_rules_remove_nothing_that_the_model_wrote_and_it_is_asked_instead(design, added, finding):
    plan = {**PLAN, "nodes": [*PLAN["nodes"], added]}
    model = Model(plan=(plan,), mend=(mended(),))
    made = design(model, review=False)
    assert (made.accepted, made.repairs) == (False, [])
    assert [each[: len(finding)] for each in made.findings] == [finding]
    assert finding in model.asked[1][1]
    assert len(made.graph.by_id["5"].params) == len(added["params"])


def test_rules_leave_a_parameter_that_a_node_does_not_have_to_the_model():
    ask = NodeSpec("2", "llm", {"system": "", "user": "{{#1.text#}}", "temperature": 0.1})
    end = NodeSpec("3", "end", {"outputs": [["text", ["text", "2"]]]})
    graph = NodeGraph(
        [NodeSpec("1", "start", {"variables": [["text", "string"]]}), ask, end], [Edge("1", "2"), Edge("2", "3")]
    )
    mended = repair_draft(graph, NodeGraph([], []), None)
    assert mended.graph == graph
    assert [issue.code for issue in mended.issues] == ["unknown-param"]


def test_rules_mend_slips_without_asking(design):
    slips = {"3": {"system": "", "user": "Sum up in {{#1.langage#}}: {{2.text}}"}}
    model = Model(plan=[planned(**slips)])
    made = design(model)
    assert made.accepted
    assert model.stages == ["plan", "judge"]
    assert made.graph.by_id["3"].params["user"] == "Sum up in {{#1.language#}}: {{#2.text#}}"


SUMMERY = {"4": {"outputs": [{"name": "summery", "value": "3.text"}]}}


def test_a_name_that_seems_to_be_asked_for_is_a_question_and_no_rule_changes_it(design):
    renamed = {"id": "4", "replace": [{"param": "outputs", "old": "summery", "new": "summary"}]}
    model = Model(plan=[planned(**SUMMERY)], mend=[{"nodes": [renamed]}])
    made = design(model)
    assert made.accepted
    assert model.stages == ["plan", "mend", "judge"]
    assert "rename 'summery', or add it" in dict(model.asked)["mend"]
    assert made.graph.by_id["4"].params == {"outputs": [["summary", ["text", "3"]]]}


QUOTED = INSTRUCTION.replace("(variable summary)", "as `summary`")


def test_a_contested_name_is_a_warning_and_the_workflow_stays_as_it_was_written(design):
    model = Model(plan=[planned(**SUMMERY)], mend=[contest("it is called summery")])
    made = design(model, QUOTED)
    assert made.accepted
    assert model.stages == ["plan", "mend", "judge"]
    assert made.graph.by_id["4"].params == {"outputs": [["summery", ["text", "3"]]]}
    [warning] = made.warnings
    assert "summary" in warning
    assert "it is called summery" in warning


def test_a_variable_that_is_asked_for_and_contested_is_left_out_and_the_design_is_not_accepted(design):
    model = Model(plan=[planned(**SUMMERY)], mend=[contest("it is called summery")])
    made = design(model, review=False)
    assert not made.accepted
    assert made.made
    assert model.stages == ["plan", "mend"]
    [left_out] = made.left_out
    assert left_out.startswith("[variable] summary: ")
    assert left_out.endswith(": it is called summery")


def test_what_a_plan_leaves_out_is_not_asked_for_again_and_the_design_is_not_accepted(design):
    plan = {**PLAN, "left_out": {"picture": "no node draws"}, "notes": ["A summary alone."]}
    made = design(Model(plan=[plan]), INSTRUCTION + " Draw it (variable picture).")
    assert (made.made, made.accepted) == (True, False)
    assert (made.left_out, made.notes, made.findings) == (["picture: no node draws"], ["A summary alone."], [])
    brief = {"nodes": [{"id": "3", "params": {"system": "Be brief."}}]}
    more = design(Model(plan=[brief]), "Be brief.", made.graph)
    assert (more.accepted, more.still_left_out) == (True, ["picture: no node draws"])


def test_a_request_that_cannot_be_met_ends_with_the_reasons_of_the_model(design):
    model = Model(plan=[{"nodes": [], "left_out": {"sing": "no node sings"}, "notes": ["Ask a person."]}])
    made = design(model)
    assert (made.made, made.accepted, model.stages) == (False, False, ["plan"])
    assert (made.left_out, made.notes) == (["sing: no node sings"], ["Ask a person."])


@pytest.mark.parametrize("words", ["I'm sorry, but I can't help with that.", "", "```\nno plan\n```", "{}", "[1]"])
def test_words_in_place_of_a_plan_are_asked_about_once_and_shown(design, words):
    model = Model(plan=[words])
    made = design(model)
    assert (made.made, model.stages) == (False, ["plan", "plan"])
    assert (" ".join(words.split()) or "nothing") in made.findings[0]


def test_a_name_that_is_neither_input_nor_output_is_told_and_no_finding(design):
    made = design(Model(plan=[{**PLAN, "neither": {"arxiv": "a site"}}]), INSTRUCTION + " Papers are of `arxiv`.")
    assert made.accepted
    assert made.neither == ["arxiv: a site"]


def test_a_variable_is_not_excused_as_neither_input_nor_output_unless_a_node_has_it(design):
    plan = {**PLAN, "neither": {"french": "it stands in the summary", "text": "what is read"}}
    also = " Of the text (variable text), make it French (variable french)."
    made = design(Model(plan=[plan], mend=[mended()]), INSTRUCTION + also)
    assert [finding.partition(":")[0] for finding in made.findings] == ["[variable] french"]


def test_inputs_and_outputs_that_a_change_removes_are_told(design):
    plan = mended(**{"4": {"outputs": [{"name": "text", "value": "3.text"}]}})
    base = design(Model(), review=False).graph
    made = design(Model(plan=[plan]), "Call the output `text`.", base, review=False)
    assert (made.accepted, made.gone) == (True, ["summary"])


def test_a_contested_finding_of_the_judge_is_a_warning_and_is_not_judged_again(design):
    told = contest("it is there")
    model = Model(judge=[NOT_CONTENT], mend=[told])
    made = design(model)
    assert made.accepted
    assert model.stages == ["plan", "judge", "mend"]
    assert "it is there" in made.warnings[0]


@pytest.mark.parametrize(
    ("finding", "later"),
    [
        (
            "[name] slug: no input is called so; there are: text; add it",
            "[name] slug: no input is called so; there are: a",
        ),
        ("[dry-run] 3: KeyError: 'a' (on port 0 of node 2)", "[dry-run] 3: KeyError: 'a'"),
        ("[dry-run] 3: no key 'tilte' (did you mean 'title'?)", "[dry-run] 3: no key 'tilte'"),
    ],
)
def test_a_finding_is_known_again_by_what_does_not_depend_on_other_nodes(finding, later):
    assert essence_of(finding) == essence_of(later)


def test_findings_on_different_nodes_names_or_faults_are_different():
    findings = ["[dry-run] 3: KeyError: 'a'", "[dry-run] 3: KeyError: 'b'", "[dry-run] 4: KeyError: 'a'", "[name] a: x"]
    assert len({essence_of(each) for each in findings}) == 4


FAILING = NodeGraph(
    [
        NodeSpec("1", "start", {"variables": [["text", "string"]]}),
        NodeSpec(
            "2",
            "code",
            {
                "variables": [["text", ["text", "1"]]],
                "outputs": [["n", "number"]],
                "code": "def main(text):\n    return {'n': 1 / 0}",
            },
        ),
        NodeSpec("3", "llm", {"system": "", "user": "Shorten: {{#1.text#}} {{#2.n#}}"}),
        NodeSpec("4", "end", {"outputs": [["short", ["text", "3"]]]}),
    ],
    [Edge("1", "2"), Edge("2", "3"), Edge("3", "4")],
)


def test_a_node_that_failed_before_a_change_of_others_is_no_finding_of_the_change(design):
    plan = {"nodes": [{"id": "3", "replace": [{"param": "user", "old": "Shorten", "new": "Sum up"}]}]}
    model = Model(plan=[plan])
    made = design(model, "Sum it up instead.", FAILING, review=False)
    assert made.accepted
    assert model.stages == ["plan"]


def test_a_node_that_a_change_concerns_and_that_still_fails_is_a_finding(design):
    plan = {"nodes": [{"id": "2", "replace": [{"param": "code", "old": "1 / 0", "new": "2 / 0"}]}]}
    made = design(Model(plan=[plan], mend=[mended()]), "Let it not fail.", FAILING, review=False)
    assert not made.accepted
    assert made.findings[0].startswith("[dry-run] 2: ")


def test_what_the_check_finds_cannot_be_contested(design):
    told = contest("an empty text is right")
    model = Model(plan=[planned(**BROKEN)], mend=[told])
    made = design(model)
    assert not made.accepted
    assert made.warnings == []
    assert model.stages == ["plan", "mend"]


def test_findings_for_which_there_was_no_room_are_asked_for_before_those_that_the_model_was_told(design):
    model = Model(plan=[planned(**{"4": {"outputs": ["sum"] * 7}})], mend=[mended()])
    made = design(model, review=False)
    assert model.stages == ["plan", "mend", "mend"]
    asked = [told.partition("### Findings")[2].partition("###")[0] for stage, told in model.asked if stage == "mend"]
    assert all(any(finding in each for each in asked) for finding in made.findings)
    assert asked[0] != asked[1]


def test_parameters_that_a_plan_leaves_out_are_asked_for_alone(design):
    plan = planned()
    del plan["nodes"][2]["params"]
    model = Model(plan=[plan], mend=[mended(**{"3": BUILT["3"]})])
    made = design(model)
    assert made.accepted
    assert model.stages == ["plan", "mend", "judge"]
    assert "end(outputs: [{name, value: var}])" in model.asked[0][1], "the form of parameters is shown"


def test_what_cannot_be_done_is_noted_by_plan_and_judge_and_kept(design):
    model = Model(plan=[{**PLAN, "notes": ["No node writes Excel; a text instead."]}],
                  judge=[{**CONTENT, "notes": ["The language is not checked."]}])  # fmt: skip
    made = design(model)
    assert made.accepted
    assert made.notes == ["No node writes Excel; a text instead.", "The language is not checked."]
    assert made.graph.notes == ("No node writes Excel; a text instead.", "The language is not checked.")
    assert "No node writes Excel" in dict(model.asked)["judge"]


def test_a_change_is_shown_the_notes_that_are_kept_and_may_drop_them(design):
    base = replace(first(design), notes=("No node writes Excel.", "The language is not checked."))
    model = Model(plan=[{**CHANGE_PLAN, "outdated": [2]}])
    made = design(model, CHANGE, base)
    asked = model.asked[0][1]
    assert "`outdated`" in asked
    assert "1. No node writes Excel.\n2. The language is not checked." in asked
    assert made.graph.notes == ("No node writes Excel.",)
    assert made.dropped_notes == ["The language is not checked."]
    judged = dict(model.asked)["judge"]
    assert "No node writes Excel." in judged
    assert "The language is not checked." not in judged


def test_a_review_may_drop_earlier_notes_and_those_of_the_plan(design):
    base = replace(first(design), notes=("No node writes Excel.", "The language is not checked."))
    plan = {**CHANGE_PLAN, "notes": ["Only English is read."]}
    model = Model(plan=[plan], judge=[{**CONTENT, "outdated": [1, 3]}])
    made = design(model, CHANGE, base)
    asked = dict(model.asked)["judge"]
    assert "1. No node writes Excel.\n2. The language is not checked.\n3. Only English is read." in asked
    assert made.graph.notes == ("The language is not checked.",)
    assert (made.notes, made.dropped_notes) == ([], ["No node writes Excel."])


def test_what_a_review_says_of_notes_holds_when_its_finding_is_contested(design):
    base = replace(first(design), notes=("No node writes Excel.", "The language is not checked."))
    finding = {"node": "3", "problem": "The length is open.", "change": "Say five sentences."}
    review = {"evaluation": "", "findings": [finding], "notes": ["Long texts are cut."], "outdated": [1, 3]}
    told = contest("no length was asked for")
    plan = {**CHANGE_PLAN, "notes": ["Only English is read."]}
    model = Model(plan=[plan], judge=[review], mend=[told])
    made = design(model, CHANGE, base)
    assert model.stages == ["plan", "judge", "mend"]
    assert made.graph.notes == ("The language is not checked.", "Long texts are cut.")
    assert (made.notes, made.dropped_notes) == (["Long texts are cut."], ["No node writes Excel."])


BROKEN = {"3": {"system": "", "user": ""}}
"""A fault that no rule can mend: it is not known what was meant."""
MENDED = mended(**{"3": {"user": "Sum up in {{#1.language#}}: {{#2.text#}}"}})


def test_what_rules_cannot_mend_is_asked_for_and_nothing_else_runs_again(design):
    model = Model(plan=[planned(**BROKEN)], mend=[MENDED])
    made = design(model)
    assert made.accepted
    assert model.stages == ["plan", "mend", "judge"]
    told = dict(model.asked)["mend"]
    assert "user: is empty" in told
    assert "\n3 llm after 2 → text" in told
    assert "llm(system: text, user: text) → text" in told, "the types concerned are told of"


def test_types_of_inputs_are_mended(design):
    given = [{"name": "paper", "type": "pdf"}, {"name": "language", "type": "str"}]
    right = [{"name": "paper", "type": "file"}, {"name": "language", "type": "string"}]
    model = Model(plan=[planned(**{"1": {"variables": given}})], mend=[mended(**{"1": {"variables": right}})])
    made = design(model, review=False)
    assert (made.accepted, model.stages) == (True, ["plan", "mend"])
    assert made.graph.by_id["1"].params == {"variables": [["paper", "file"], ["language", "string"]]}


def test_a_parameter_that_a_type_does_not_have_can_be_removed(design):
    toned = {"system_prompt": "", "tone": "kind", "user": BUILT["3"]["user"]}
    model = Model(plan=[planned(**{"3": toned})], mend=[mended(**{"3": {"tone": None}})])
    made = design(model, review=False)
    assert (made.accepted, model.stages) == (True, ["plan", "mend"])
    assert made.graph.by_id["3"].params == BUILT["3"]


def test_changes_with_a_slip_in_their_json_are_made():
    def answer(task):
        form = task.output_schema.schema["properties"]
        if "wrong" in form:
            return json.dumps(MENDED).removesuffix("}") + ",}"
        return json.dumps(planned(**BROKEN) if "nodes" in form else CONTENT)

    designer = Designer(base_url="http://127.0.0.1:9/v1")
    designer.expert.reasoner = ScriptedReasoner(answer)
    assert designer.design(INSTRUCTION).accepted


def test_code_that_breaks_is_found_by_running_it(design):
    plan = planned(**{"4": {"outputs": [{"name": "summary", "value": "3.n"}]}})
    plan["nodes"][2] = node(
        "3",
        "code",
        ["2"],
        variables=[{"name": "text", "value": "2.text"}],
        outputs=[{"name": "n", "type": "number"}],
        code="def main(text):\n    return {'n': text.none}",
    )
    fixed = {"id": "3", "replace": [{"param": "code", "old": "text.none", "new": "len(text)"}]}
    model = Model(plan=[plan], mend=[{"nodes": [fixed]}])
    made = design(model)
    assert made.accepted
    assert "dry-run" in dict(model.asked)["mend"]


def test_branches_behind_made_up_conditions_are_run_or_told(design):
    fork = {
        "reasoning": "",
        "nodes": [
            {"id": "1", "type": "start", "after": [], "params": {"variables": [{"name": "paper", "type": "file"}, {"name": "language", "type": "string"}]}},
            {"id": "2", "type": "if-else", "after": ["1"], "params": {"cases": [{"logic": None, "conditions": [{"variable": "1.paper", "operator": "exists"}]}]}},
            {"id": "3", "type": "end", "after": ["2:0"], "params": {"outputs": [{"name": "summary", "value": "1.language"}]}},
            {"id": "4", "type": "end", "after": ["2:1"], "params": {"outputs": [{"name": "summary", "value": "1.language"}]}},
        ],
    }  # fmt: skip
    made = design(Model(plan=[fork]), review=False)
    assert made.accepted
    assert made.not_tried == ["port 1 (else) of node 2: no made-up value of 1.paper makes it hold"]


def test_a_judge_who_is_not_content_is_heeded(design):
    longer = mended(**{"3": {"user": "Sum up in five sentences in {{#1.language#}}: {{#2.text#}}"}})
    model = Model(judge=[NOT_CONTENT, CONTENT], mend=[longer])
    made = design(model)
    assert made.accepted
    assert "five sentences" in made.graph.by_id["3"].params["user"]


def test_a_model_that_makes_it_worse_is_taken_back(design):
    worse = {"nodes": [], "drop": ["3"]}
    model = Model(plan=[planned(**BROKEN)], mend=[worse])
    made = design(model)
    assert not made.accepted
    assert made.message.status is WorkflowStatus.JOB_TOO_COMPLICATED_ERROR
    assert "3" in made.graph.by_id
    assert "does not improve the workflow" in [told for stage, told in model.asked if stage == "mend"][1]


def test_a_model_that_repeats_itself_ends_the_rounds(design):
    idle = mended(**{"3": {"system": ""}})
    model = Model(plan=[planned(**BROKEN)], mend=[idle])
    made = design(model)
    assert not made.accepted
    assert model.stages.count("mend") <= 2
    assert made.findings


def test_changes_that_cannot_be_made_are_asked_for_again(design):
    wrong = mended(**{"33": {"user": "x"}})
    model = Model(plan=[planned(**BROKEN)], mend=[wrong, MENDED])
    made = design(model)
    assert made.accepted
    assert "[plan] 33: a new node needs a type" in [told for stage, told in model.asked if stage == "mend"][1]


@pytest.mark.parametrize(
    "said",
    ["I am sorry, but I cannot help with that.", '{"reasoning": "hm", "nodes": [{"id": "1", "ty', "", "[]", "null"],
    ids=["refusal", "cut off", "nothing", "list", "null"],
)
def test_a_model_that_says_nothing_of_use_ends_with_the_reason(design, said):
    model = Model(plan=[said])
    made = design(model)
    assert not made.accepted
    assert made.graph.nodes == ()
    assert made.findings
    assert "there is no workflow" in made.findings[0]
    assert made.message.status is WorkflowStatus.JOB_TOO_COMPLICATED_ERROR
    assert model.stages.count("plan") <= 6, "twice, each with three tries for the form of the answer"


def test_a_plan_whose_faults_stay_is_carried_out_as_far_as_possible_and_not_accepted(design):
    twice = {**PLAN, "nodes": [*PLAN["nodes"], PLAN["nodes"][1]]}
    model = Model(plan=[twice])
    made = design(model)
    assert made.message.status is WorkflowStatus.JOB_TOO_COMPLICATED_ERROR
    assert made.findings[0].startswith("[plan] 5: '2' is planned twice")
    assert model.stages == ["plan", "plan"]
    assert [spec.id for spec in made.graph.nodes] == ["1", "2", "3", "4", "5"]


def test_a_plan_that_cannot_be_is_asked_for_again_with_its_faults(design):
    twice = {**PLAN, "nodes": [*PLAN["nodes"], PLAN["nodes"][1]]}
    model = Model(plan=[twice, PLAN])
    made = design(model)
    assert made.accepted
    assert "planned twice" in model.asked[1][1]


def first(design):
    return design(Model()).graph


CHANGE = "Building on that, also translate the summary into French. Output only the translation (variable french)."
FRENCH = {"system": "", "user": "Into French: {{#3.text#}}"}


def into_french(**user):
    """The plan of a translation, with these parameters of its model in place of its own."""
    outputs = [{"name": "french", "value": "5.text"}]
    return {"nodes": [node("5", "llm", ["3"], **FRENCH | user), node("4", "end", ["5"], "update", outputs=outputs)]}


CHANGE_PLAN = into_french()


@pytest.mark.parametrize("reason", [None, "a summary has no model of its own"])
def test_a_change_of_which_nothing_is_left_is_not_accepted_and_says_why(design, reason):
    base = first(design)
    plan = mended(**{"3": BUILT["3"]})
    answer = mended() if reason is None else contest(reason)
    made = design(Model(plan=[plan], mend=[answer]), "Use another model in node 3.", base, review=False)
    assert not made.accepted
    assert made.graph.nodes == base.nodes
    said = made.findings if reason is None else made.left_out
    assert [each.split("]")[0] for each in said] == ["[unchanged"]
    assert reason is None or said[0].endswith(reason)


def test_a_change_leaves_untouched_nodes_byte_for_byte_the_same(design):
    base = first(design)
    model = Model(plan=[CHANGE_PLAN])
    made = design(model, CHANGE, base)
    assert made.accepted, made.findings
    assert all(made.graph.by_id[each] is base.by_id[each] for each in ("1", "2", "3"))
    assert [spec.id for spec in made.changes.added] == ["5"]
    assert {change.node for change in made.changes.changed} == {"4"}
    assert made.graph.instructions == (INSTRUCTION, CHANGE)
    plan_told = dict(model.asked)["plan"]
    assert "3 llm after 2" in plan_told
    before, after = dump(base).decode(), dump(made.graph).decode()
    kept = before[before.index('"id": "1"') : before.index('"id": "4"')]
    assert kept[: kept.rindex("}")] in after


def test_nodes_outside_of_the_plan_cannot_be_changed(design):
    base = first(design)
    outside, inside = mended(**{"3": {"user": "Something else."}}), mended(**{"5": FRENCH})
    model = Model(plan=[into_french(user="")], mend=[outside, inside])
    made = design(model, CHANGE, base)
    assert made.accepted
    assert made.graph.by_id["3"] is base.by_id["3"]
    assert "may not be changed" in [told for stage, told in model.asked if stage == "mend"][1]


@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "So:\n{}\nThat is all."])
def test_a_plan_from_an_endpoint_without_schemas_is_read(design, form):
    model = Model(plan=[form.replace("{}", json.dumps(PLAN))])
    assert design(model, review=False, structured=False).accepted
    assert model.stages == ["plan"]


def test_rules_mend_what_is_new_and_leave_faults_of_nodes_that_must_stay(design):
    base = first(design)
    faulty = replace(base.by_id["3"], params={"system": "", "user": "Sum up in {{#1.langage#}}: {{#2.text#}}"})
    base = replace(base, nodes=[faulty if spec.id == "3" else spec for spec in base.nodes])
    model = Model(plan=[into_french(user="Into French: {{#3.txt#}}")])
    made = design(model, CHANGE, base)
    assert made.graph.by_id["3"] is faulty
    assert made.graph.by_id["5"].params["user"] == "Into French: {{#3.text#}}"


def test_an_endpoint_that_breaks_down_leaves_what_was_made():
    class Down(Model):
        def __call__(self, request):
            answer = super().__call__(request)
            if self.asked[-1][0] == "judge":
                return BreakOff(after_chars=3)
            return answer

    with ScriptedModel(Down()) as scripted:
        made = Designer(scripted.model.model_copy(update={"max_retries": 0}), review=True).design(INSTRUCTION)
    assert not made.accepted
    assert "4" in made.graph.by_id
    assert "broke off" in made.message.evaluation


def test_where_nothing_was_made_the_error_is_raised():
    with ScriptedModel(lambda _: Fail(500)) as scripted, pytest.raises((OperatorError, ModelError)):
        Designer(scripted.model.model_copy(update={"max_retries": 0}), review=True).design(INSTRUCTION)


@pytest.mark.parametrize("instruction", ["", "  \n"])
def test_an_empty_instruction_is_refused(instruction):
    with ScriptedModel(Model()) as scripted, pytest.raises(InputError, match="the instruction is empty"):
        Designer(scripted.model).design(instruction)


def test_findings_and_the_nodes_that_they_name(design):
    graph = first(design)
    lesson = "Mend this:\n- [param] 3: user: is empty\n- [dangling-edge] 2 → 9: there is no node '9'\n- [variable] x: give it"
    findings = findings_in(lesson)
    assert len(findings) == 3
    assert nodes_in(findings, graph) == ["3", "2", "1", "4"]


def test_words_that_do_not_say_what_goes_in_leave_it_to_the_plan(design):
    terse = (
        "Sum up a paper file (variable paper) in a language (variable language); output the summary (variable summary)."
    )
    model = Model()
    made = design(model, terse)
    assert made.accepted, made.findings
    assert model.stages == ["plan", "judge"]


def test_a_workflow_without_findings_is_reviewed_only_on_request(design):
    model = Model(judge=[NOT_CONTENT])
    assert design(model, review=False).accepted
    assert model.stages == ["plan"]


def test_a_contested_finding_brings_a_review(design):
    model = Model(plan=[planned(**SUMMERY)], mend=[contest("summery is meant")])
    assert design(model, QUOTED, review=False).accepted
    assert model.stages == ["plan", "mend", "judge"]


def test_a_change_names_neither_the_type_nor_the_kind_of_change_of_nodes_that_are_there(design):
    changed = {"reasoning": "", "nodes": [{"id": "3", "params": {"user": "In ten words: {{#2.text#}}"}}]}
    made = design(Model(plan=[changed]), "Ten words are enough.", first(design), review=False)
    assert made.accepted
    assert made.graph.by_id["3"].params == {"system": "", "user": "In ten words: {{#2.text#}}"}
    assert str(made.changes).count("\n") == 0


def test_a_change_of_nothing_is_asked_for_again(design):
    model = Model(plan=[{"reasoning": "hm", "nodes": [{"id": "1"}]}])
    made = design(model, "Ten words are enough.", first(design), review=False)
    assert not made.made
    assert "the plan changes nothing" in model.asked[1][1]


def test_a_new_node_of_a_type_that_was_told_of_in_short_may_be_mended(design):
    plan = {
        "nodes": [
            {"id": "5", "type": "tts", "after": ["3"], "params": {"words": "{{#3.text#}}"}},
            {"id": "4", "after": ["5"], "params": {"outputs": [{"name": "summary", "value": "5.files"}]}},
        ],
    }
    model = Model(plan=[plan], mend=[mended(**{"5": {"text": "{{#3.text#}}", "words": None}})])
    made = design(model, "Make it something for the ears.", first(design), review=False)
    assert made.accepted
    assert model.stages == ["plan", "mend"]
    assert "\ntts(text), text2image(prompt), " in model.asked[0][1]
    assert "tts(text: text) → files" in model.asked[1][1]


LOOK = {"look": ["iteration", "3", "requests"]}


def test_a_change_may_once_ask_for_types_nodes_and_earlier_requests_before_it_is_planned(design):
    base = first(design)
    long = NodeSpec("3", "llm", {"system": "word " * 500, "user": "{{#2.text#}}"})
    base = replace(base, nodes=[long if spec.id == "3" else spec for spec in base.nodes])
    model = Model(plan=[LOOK, TO_FRENCH])
    made = design(model, CHANGE, base, review=False)
    assert made.accepted
    assert model.stages == ["plan", "plan"]
    before, after = model.asked[0][1], model.asked[1][1]
    assert "[… cut]" in before
    assert '[… cut]",' not in after
    assert "word " * 500 in after
    assert "iteration(iterator_selector: var" not in before
    assert "iteration(iterator_selector: var" in after
    assert "has its id in `inside`" in after
    assert INSTRUCTION not in before
    assert INSTRUCTION in after
    assert "\ntts(text), " in before
    assert "\ntts(text), " not in after


def test_what_a_change_has_looked_at_is_not_shown_twice(design):
    model = Model(plan=[LOOK])
    made = design(model, CHANGE, first(design), review=False)
    assert not made.made
    assert model.stages[:3] == ["plan", "plan", "plan"]
    assert "the plan changes nothing" in model.asked[2][1]


def test_nodes_are_shown_with_the_titles_that_people_gave_them_in_dify(design):
    file = DIFY.dump(first(design)).decode().replace("title: LLM\n", "title: The short version\n")
    base = DIFY.load(file)
    model = Model(plan=[TO_FRENCH])
    made = design(model, "Translate what 'The short version' gives into French (variable french).", base)
    assert made.accepted
    assert '\n3 llm "The short version" after 2: ' in model.asked[0][1]
    assert "\n4 end after 3: outputs={" in model.asked[0][1]
    assert '\n3 llm "The short version" after 2: {' in dict(model.asked)["judge"]


TO_FRENCH = {
    "reasoning": "",
    "nodes": [
        {"id": "5", "type": "llm", "after": ["3"], "params": {"system": "", "user": "Into French: {{#3.text#}}"}},
        {"id": "4", "after": ["5", "3"], "params": {"outputs": [{"name": "french", "value": "5.text"}]}},
    ],
}


def test_a_node_that_rules_put_in_its_place_adds_no_line_about_the_order_of_edges(design):
    base = first(design)
    made = design(Model(plan=[TO_FRENCH]), CHANGE, base, review=False)
    assert [spec.id for spec in made.graph.nodes] == ["1", "2", "3", "5", "4"]
    assert b"order:" not in OPERAD.dump(base)
    assert b"order:" not in OPERAD.dump(made.graph)


@pytest.mark.parametrize("places", [(0, 1, 2, 3), (3, 0, 2, 1)])
@pytest.mark.parametrize("edges", [(0, 1, 2), (2, 0, 1)])
def test_a_change_leaves_nodes_and_edges_in_the_order_of_the_file(design, places, edges):
    base = first(design)
    base = replace(base, nodes=[base.nodes[each] for each in places], edges=[base.edges[each] for each in edges])
    made = design(Model(plan=[TO_FRENCH]), CHANGE, base, review=False)
    assert made.accepted
    assert [spec.id for spec in made.graph.nodes if spec.id != "5"] == [spec.id for spec in base.nodes]
    new = {("3", "5"), ("5", "4")}
    kept = [(edge.source, edge.target) for edge in made.graph.edges if (edge.source, edge.target) not in new]
    assert kept == [(edge.source, edge.target) for edge in base.edges]


def test_a_designer_of_ones_own_can_do_without_a_judge(tmp_path):
    page = (Path(__file__).parents[4] / "docs" / "generation.md").read_text(encoding="utf-8")
    (tmp_path / "own.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    model = Model()
    with ScriptedModel(model) as scripted:
        made = Designer(scripted.model, config=tmp_path / "own.yaml").design(INSTRUCTION)
    assert made.accepted
    assert model.stages == ["plan"]
    assert len(made.plan) == 4
    assert made.repairs == []


LOOP_PLAN = {
    "reasoning": "Loop.",
    "nodes": [
        {
            "id": "1",
            "type": "start",
            "after": [],
            "params": {"variables": [{"name": "features", "type": "string"}]},
        },
        {
            "id": "2",
            "type": "loop",
            "after": ["1"],
            "params": {
                "loop_count": 4,
                "loop_variables": [{"name": "best", "type": "string", "value": ""}],
                "break_conditions": [{"variable": "2-2.score", "operator": "≥", "value": "8"}],
            },
        },
        {"id": "2-1", "type": "llm", "inside": "2", "params": {"system": "", "user": "{{#1.features#}} {{#2.best#}}"}},
        {
            "id": "2-2",
            "type": "parameter-extractor",
            "inside": "2",
            "after": ["2-1"],
            "params": {
                "query": "2-1.text",
                "parameters": [{"name": "score", "type": "number", "description": "1 to 10"}],
                "instruction": "Rate it.",
            },
        },
        {
            "id": "2-3",
            "type": "assigner",
            "inside": "2",
            "after": ["2-2"],
            "params": {"assignments": [{"variable": "2.best", "value": "{{#2-1.text#}}"}]},
        },
        {"id": "3", "type": "end", "after": ["2"], "params": {"outputs": [{"name": "description", "value": "2.best"}]}},
    ],
}


def test_until_it_is_good_enough_is_a_loop_in_one_call(design):
    model = Model(plan=[LOOP_PLAN])
    request = "Describe the product (variable features) and rate it until it is at least 8 (variable description)."
    made = design(model, request, review=False)
    assert made.accepted
    assert model.stages == ["plan"]
    inside = [(spec.id, spec.type) for spec in made.graph.nodes if spec.parent == "2"]
    assert inside == [("2-0", "loop-start"), ("2-1", "llm"), ("2-2", "parameter-extractor"), ("2-3", "assigner")]
    assert made.graph.by_id["2"].params["variables"] == [["best", "string", ""]]
    assert not made.unread


def test_a_dropped_iteration_takes_its_contents_along_in_one_call(design):
    base = NodeGraph(
        [
            NodeSpec("1", "start", {"variables": [["list", "array[file]"]]}),
            NodeSpec("2", "iteration", {"iterator_selector": ["list", "1"], "output_selector": ["text", "2-1"]}),
            NodeSpec("2-0", "iteration-start", {}, "2"),
            NodeSpec("2-1", "document-extractor", {"variable_selector": ["item", "2"]}, "2"),
            NodeSpec("3", "end", {"outputs": [["o", ["output", "2"]]]}),
        ],
        [Edge("1", "2"), Edge("2-0", "2-1"), Edge("2", "3")],
    )
    plan = {
        "nodes": [{"id": "3", "after": ["1"], "params": {"outputs": [{"name": "o", "value": "1.list"}]}}],
        "drop": ["2"],
    }
    model = Model(plan=[plan])
    made = design(model, "Give me the list itself.", base, review=False)
    assert made.accepted
    assert model.stages == ["plan"]
    assert [spec.id for spec in made.graph.nodes] == ["1", "3"]


# The form in which parameters are drafted, and back to what is declared without a loss


def as_json(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", NODE_TYPES)
def test_what_is_drafted_is_what_was_declared(name):
    node_type = NODE_TYPES[name]
    example = as_json(node_type.example)
    assert as_json(params_of(node_type, drafted(node_type, example))) == example


def test_conditions_are_read_with_and_without_a_value():
    cases = [{"logic": None, "conditions": [{"variable": "1.x", "operator": "empty", "value": None}]}]
    cases += [{"logic": "or", "conditions": [{"variable": "1.x", "operator": "in", "value": ["a", "b"]}]}]
    assert params_of(NODE_TYPES["if-else"], {"cases": cases}) == {
        "cases": [[None, [[["x", "1"], "empty"]]], ["or", [[["x", "1"], "in", ["a", "b"]]]]]
    }


@pytest.mark.parametrize("name", CHAT2WORKFLOW_TYPES)
@pytest.mark.parametrize("value", [None, 3, "x", [], [1], {}, {"a": {"b": [None]}}, [["x"]]])
def test_whatever_is_drafted_is_read_without_a_crash(name, value):
    node_type = NODE_TYPES[name]
    params_of(node_type, dict.fromkeys(node_type.params_type.model_fields, value))
    drafted(node_type, dict.fromkeys(node_type.params_type.model_fields, value))


def test_mappings_of_names_are_read_as_in_yaml():
    outputs = [["greeting", ["text", "2"]], ["french", ["text", "4"]]]
    assert params_of(NODE_TYPES["end"], {"outputs": {"greeting": "2.text", "french": "4.text"}}) == {"outputs": outputs}
    assert params_of(NODE_TYPES["end"], {"outputs": {"name": "greeting", "value": "2.text"}}) == {
        "outputs": outputs[:1]
    }
    assert params_of(NODE_TYPES["start"], {"variables": {"name": "string"}}) == {"variables": [["name", "string"]]}


@pytest.mark.parametrize(
    "outputs", [[{"variable": "sum", "value_selector": ["2", "text"]}], [["sum", "text", "2"]]], ids=["keys", "items"]
)
def test_values_of_another_form_are_kept_and_shown_as_the_model_wrote_them(outputs):
    end = NODE_TYPES["end"]
    declared = params_of(end, {"outputs": outputs})
    assert declared == {"outputs": outputs}
    assert drafted(end, declared) == {"outputs": outputs}


def test_a_field_that_a_record_leaves_out_before_its_last_has_its_default():
    drafted = {
        "assignments": [{"variable": "2.best", "value": "{{#2-1.text#}}"}, {"variable": "2.n", "operation": "add"}]
    }
    declared = params_of(NODE_TYPES["assigner"], drafted, ["2", "2-1"])
    assert declared == {"assignments": [[["best", "2"], "set", ["text", "2-1"]], [["n", "2"], "add"]]}


def test_a_parameter_whose_name_has_more_words_is_the_one_that_it_means():
    variables = [{"name": "best", "type": "string", "value": ""}]
    assert params_of(NODE_TYPES["loop"], {"loop_count": 4, "loop_variables": variables}) == {
        "loop_count": 4,
        "variables": [["best", "string", ""]],
    }
    both = {"variables": [], "loop_variables": variables}
    assert params_of(NODE_TYPES["loop"], both) == both, "it is given already"
    assert params_of(NODE_TYPES["llm"], {"system_user": "x"}) == {"system_user": "x"}, "two may be meant"
