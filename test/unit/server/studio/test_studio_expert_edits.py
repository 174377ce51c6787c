"""Operators of a YAML file of experts, added, removed and connected in the studio; the file keeps all else."""

import pytest
from studios import EXPERTS

ROUTED = """\
operators:
  - &triage
    instruction: A refund, or a complaint?
    ports: [refund, complaint]  # two ways
  # looks into the books
  - &check
    instruction: Check the order.
  - &refund
    instruction: Refund it.
    inputs: [check]
  - name: soothe
    instruction: >-
      Soothe the
      customer.
  - &reply {instruction: Write the reply.}
experts:
  - profile: {name: Clerk}
    workflow:
      - [{operator: *triage, port: refund}, *check, *refund, *reply] # money
      # words
      - - {operator: *triage, port: complaint}
        - soothe
        - *reply
    max_rounds: 2
"""

IN_PLACE = """\
experts:
  - profile: {name: Clerk}
    workflow:
      - - {name: facts, instruction: List what the letter asks for.}
        - name: answer # the last
          instruction: Write the answer.
"""


def refused(edit, text, *operations):
    """The reason why operations are refused; the file stays."""
    (edit.studio.folder / "file.yaml").write_text(text)
    said = {"path": "file.yaml", "version": edit.studio.open("file.yaml")["version"], "operations": list(operations)}
    answer = edit.studio.post("data/apply", said)
    assert answer.status_code in (400, 422), answer.text
    assert (edit.studio.folder / "file.yaml").read_text() == text
    return answer.json()["error"]


def add(name, said="Do it.", expert="Clerk", kind="operator"):
    return {
        "op": "add_node",
        "id": name,
        "type": kind,
        "params": {"instruction": said} if said else {},
        "inside": expert,
    }


def remove(name, **said):
    return {"op": "remove_node", "node": name, **said}


def connect(source, target, port=0):
    return {"op": "connect", "source": source, "target": target, "port": port}


def disconnect(source, target, port=0):
    return {"op": "disconnect", "source": source, "target": target, "port": port}


def edges(document):
    return [(each["source"], each["port"], each["target"]) for each in document["edges"]]


def test_an_operator_is_added_behind_another_and_taken_back(edit):
    text, document = edit(EXPERTS, add("style", "Mend: the style.", "Fact checker"), connect("check", "style"))
    assert text == EXPERTS.replace(
        "claim.\nexperts", "claim.\n  - name: style\n    instruction: 'Mend: the style.'\nexperts"
    ).replace("[*facts, *check]", "[*facts, *check, style]")
    assert ("check", 0, "style") in edges(document)
    assert [each["title"] for each in document["steps"]][-1] == "Add operator style, and 1 more"
    said = {"path": "file.yaml", "version": document["version"]}
    undone = edit.studio.told("undo", said)
    assert (edit.studio.folder / "file.yaml").read_text() == EXPERTS
    edit.studio.told("redo", {**said, "version": undone["version"]})
    assert (edit.studio.folder / "file.yaml").read_text() == text


def test_an_operator_is_removed_with_its_definition_and_the_rest_stays_as_it_is(edit):
    text, document = edit(ROUTED, remove("soothe"))
    assert text == ROUTED.replace(
        "  - name: soothe\n    instruction: >-\n      Soothe the\n      customer.\n", ""
    ).replace("        - soothe\n", "")
    assert ("triage", 1, "reply") in edges(document)


def test_an_operator_that_others_read_by_name_is_removed_from_their_inputs(edit):
    text, document = edit(ROUTED, remove("check"))
    assert text == ROUTED.replace(
        "  # looks into the books\n  - &check\n    instruction: Check the order.\n", ""
    ).replace("    inputs: [check]\n", "").replace(" *check,", "")
    assert ("triage", 0, "refund") in edges(document)


def test_an_operator_is_cut_out_without_new_edges(edit):
    _, document = edit(ROUTED, remove("soothe", edges="cut"))
    assert ("triage", 1, "reply") not in edges(document)


def test_an_operator_is_put_into_an_edge_with_a_port(edit):
    operation = {"op": "insert_between", "source": "triage", "target": "check", "port": 0, "id": "look", "type": "operator",
        "params": {"instruction": "Look.\nTwice."}}  # fmt: skip
    text, document = edit(ROUTED, operation)
    assert text == ROUTED.replace(
        "reply.}\n", "reply.}\n  - name: look\n    instruction: |-\n      Look.\n      Twice.\n"
    ).replace("refund}, *check", "refund}, look, *check")
    assert {("triage", 0, "look"), ("look", 0, "check")} <= set(edges(document))


def test_an_edge_of_a_port_is_added_and_cut(edit):
    text, document = edit(ROUTED, connect("triage", "refund", 1))
    assert text == ROUTED.replace(
        "        - *reply\n", "        - *reply\n      - [{operator: triage, port: complaint}, refund]\n"
    )
    assert ("triage", 1, "refund") in edges(document)
    text, document = edit(text, disconnect("triage", "refund", 1))
    assert text == ROUTED


def test_the_form_changes_the_port_of_a_chain(edit):
    chains = [
        [{"operator": "triage", "port": "complaint"}, "check", "refund", "reply"],
        [{"operator": "triage", "port": "complaint"}, "soothe", "reply"],
    ]
    (edit.studio.folder / "file.yaml").write_text(ROUTED)
    document = edit.studio.open("file.yaml")
    [expert] = [each for each in document["nodes"] if each["id"] == "Clerk"]
    assert expert["params"]["workflow"][1] == chains[1]
    [step] = [
        each
        for each in document["schemas"]["expert"]["properties"]["workflow"]["items"]["items"]["enum"]
        if each == {"operator": "triage", "port": "refund"}
    ]
    assert step
    text, _ = edit(ROUTED, {"op": "set", "node": "Clerk", "path": "workflow", "value": chains})
    assert text == ROUTED.replace("port: refund", "port: complaint")


@pytest.mark.parametrize("written", ["*triage", "{name: look, instruction: Look., ports: [退款]}"])
def test_a_port_in_another_script_is_written_as_it_is(edit, written):
    text = ROUTED.replace("[refund, complaint]", "[退款, complaint]").replace(
        "{operator: *triage, port: refund}", written
    )
    name = "triage" if written == "*triage" else "look"
    chains = [
        [{"operator": name, "port": "退款"}, "check", "refund", "reply"],
        [{"operator": "triage", "port": "complaint"}, "soothe", "reply"],
    ]
    after, _ = edit(text, {"op": "set", "node": "Clerk", "path": "workflow", "value": chains})
    assert after == text.replace(f"[{written},", f"[{{operator: {written}, port: 退款}},")


def test_operators_that_are_written_in_chains_are_followed_and_cut_there(edit):
    text, _ = edit(IN_PLACE, add("style", "Mend it."), connect("answer", "style"))
    assert text == IN_PLACE + "        - {name: style, instruction: Mend it.}\n"
    text, document = edit(IN_PLACE, add("tone", "Which tone?"), connect("facts", "tone"))
    assert text == IN_PLACE.replace("- {name: facts", "- &facts {name: facts") + (
        "      - [*facts, {name: tone, instruction: 'Which tone?'}]\n"
    )
    assert edges(document) == [("facts", 0, "answer"), ("facts", 0, "tone")]
    text, _ = edit(IN_PLACE, remove("answer"))
    assert text == IN_PLACE[: IN_PLACE.index("        - name: answer")]


def test_an_operator_is_renamed_with_all_that_name_it(edit):
    text, document = edit(ROUTED, {"op": "set", "node": "soothe", "path": "name", "value": "calm down"})
    assert text == ROUTED.replace("name: soothe", "name: calm down").replace("- soothe", "- calm down")
    assert ("calm down", 0, "reply") in edges(document)
    text, document = edit(ROUTED, {"op": "set", "node": "check", "path": "name", "value": "look"})
    assert text == ROUTED.replace("- &check\n", "- &check\n    name: look\n").replace("[check]", "[look]")
    assert ("look", 0, "refund") in edges(document)
    said = {"op": "set", "node": "check", "path": "name", "value": "reply"}
    assert refused(edit, ROUTED, said) == "name: expected a name that no operator of the file has, got 'reply'"


def test_a_new_file_of_experts_has_an_operator_and_runs_as_it_is(edit):
    path = edit.studio.told("files", {"new": "experts", "path": "notes.yaml"})["path"]
    document = edit.studio.open(path)
    assert [(each["id"], each["type"]) for each in document["nodes"]] == [("Expert", "expert"), ("answer", "operator")]
    assert document["name"] == "notes"


def test_evaluators_are_added_and_removed(edit):
    text, document = edit(ROUTED, add("judge", "It is polite.", kind="evaluator"))
    assert text == ROUTED.replace("reply.}\n", "reply.}\n  - name: judge\n    instruction: It is polite.\n").replace(
        "    max_rounds", "    evaluator: judge\n    max_rounds"
    )
    assert ("reply", 0, "judge") in edges(document)
    text, _ = edit(text, add("short", "It is short.", kind="evaluator"))
    assert "    evaluator: [judge, short]\n" in text
    text, _ = edit(text, remove("short"), remove("judge"))
    assert text == ROUTED


def test_an_operator_of_two_experts_keeps_its_definition_until_the_last_one_goes(edit):
    two = EXPERTS + "  - profile: {name: Writer}\n    workflow: [[*facts, *check]]\n"
    text, _ = edit(two, remove("Writer/check"))
    assert text == two.replace("[[*facts, *check]]", "[[*facts]]")


def test_an_edit_that_cannot_be_is_refused_with_the_reason(edit):
    for text, operation, told in [
        (EXPERTS, remove("Fact checker"), "a file has at least one expert; add another one first"),
        (EXPERTS, remove("chekc"), "there is no 'chekc' (did you mean 'check'?)"),
        (EXPERTS, add("facts", expert="Fact checker"), "'Fact checker' has 'facts' already; give another name"),
        (EXPERTS, add("new", expert="facts"), "inside: 'facts' is not an expert; operators belong to experts"),
        (EXPERTS, add("new", expert="Fact checker", kind="llm"), "type: 'llm' cannot be added here; add an operator, an evaluator, an expert or a leader"),
        (EXPERTS, connect("check", "judge"), "'judge' is not an operator but the evaluator"),
        (EXPERTS, disconnect("check", "facts"), "no chain leads from 'check' to 'facts'"),
        (EXPERTS, {"op": "set", "node": "Fact checker", "path": "workflow", "value": []}, "workflow: give at least one"),
        ("experts:\n- profile: {name: E}\n  workflow: [[{name: a, instruction: x}]]\n", remove("a"), "'a' is the only operator"),
        (ROUTED, connect("reply", "triage"), "the operators wait for each other"),
    ]:  # fmt: skip
        assert told in refused(edit, text, operation)


BELOW = """\
operators:
- &a
  instruction: Choose.
  examples:
  actions:
  - name: look
  retry: &twice {attempts: 2}
- &b
  instruction: Answer.
  retry: *twice
experts:
- profile: {name: E}
  workflow: [[*a, *b]]
"""


def test_an_empty_value_and_a_list_below_its_key_are_replaced(edit):
    text, _ = edit(BELOW, {"op": "set", "node": "a", "path": "examples", "value": []})
    assert text == BELOW.replace("examples:", "examples: []")
    text, _ = edit(BELOW, {"op": "set", "node": "a", "path": "actions", "value": [{"name": "find"}]})
    assert text == BELOW.replace("name: look", "name: find")


def test_a_part_of_a_value_that_an_alias_stands_for_is_refused_with_the_reason(edit):
    told = refused(edit, BELOW, {"op": "set", "node": "b", "path": "retry.attempts", "value": 3})
    assert told == "operators[1].retry: others share it by an anchor (& and *); edit it in the file"


def test_what_an_edge_can_lead_to_is_told_with_the_reasons(edit):
    (edit.studio.folder / "file.yaml").write_text(ROUTED)
    edit.studio.open("file.yaml")
    told = edit.studio.told("connectable", {"path": "file.yaml", "source": "check", "port": 0})["targets"]
    assert told["reply"] is None
    assert told["triage"] == "'triage' leads to 'check' already; this edge would close a cycle"
    assert told["Clerk"] == "'Clerk' is not an operator; edges lead between operators"
