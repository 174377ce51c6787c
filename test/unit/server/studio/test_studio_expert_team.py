"""Experts, their evaluators and the leader of a YAML file, changed in the studio; the file keeps all else."""

import pytest

TEAM = """\
# a team
app: {name: News}
operators:
  - &find {instruction: Find the news.}
  - &write {instruction: Write about it.}
  - &strict {instruction: Nothing passes.}
  - &polite {instruction: No insults.}
experts:
  - profile: {name: Finder, desc: Finds news.} # looks
    workflow:
      - [*find]
    evaluator: *strict # one
  # writes
  - profile: {name: Writer}
    workflow:
      - [*write]
    evaluator:
      instruction: |-
        Two sentences.
        No more.
    max_rounds: 2
"""

LISTED = """\
experts:
- profile: {name: E}
  workflow: [[{name: a, instruction: x}]]
  evaluator:
  - {name: long, instruction: Long.}  # first
  - name: kind
    instruction: Kind.
  max_rounds: 3
operators:
- {name: fair, instruction: Fair.}
"""


def judged(expert, *names):
    return {"op": "set", "node": expert, "path": "evaluator", "value": [*names]}


def added(name, kind="expert", **params):
    return {"op": "add_node", "id": name, "type": kind, "params": params}


def removed(node):
    return {"op": "remove_node", "node": node}


def refused(edit, text, operation):
    """The reason why an operation is refused; the file stays."""
    file = edit.studio.folder / "file.yaml"
    file.write_text(text)
    said = {"path": "file.yaml", "version": edit.studio.open("file.yaml")["version"], "operations": [operation]}
    answer = edit.studio.post("data/apply", said)
    assert (answer.status_code in (400, 422), file.read_text()) == (True, text)
    return answer.json()["error"]


IN_A_LIST = """\
    evaluator:
      - instruction: |-
          Two sentences.
          No more.
"""
IN_LINES = """\
    evaluator:
      instruction: |-
        Two sentences.
        No more.
"""


@pytest.mark.parametrize(
    ("expert", "names", "old", "new"),
    [
        ("Finder", ["polite"], "*strict #", "polite #"),
        ("Finder", ["strict", "polite"], "*strict #", "[*strict, polite] #"),
        ("Finder", ["polite", "strict"], "*strict #", "[polite, *strict] #"),
        ("Finder", [], "    evaluator: *strict # one\n", ""),
        ("Writer", ["polite"], IN_LINES, "    evaluator: polite\n"),
        ("Writer", ["polite", "strict"], IN_LINES, "    evaluator: [polite, strict]\n"),
        ("Writer", ["evaluator", "strict"], IN_LINES, IN_A_LIST + "      - strict\n"),
        (
            "Writer",
            ["polite", "evaluator", "strict"],
            IN_LINES,
            IN_A_LIST.replace("or:\n", "or:\n      - polite\n") + "      - strict\n",
        ),
        ("Writer", [], IN_LINES, ""),
    ],
)
def test_evaluators_are_chosen_in_the_form_of_an_expert(edit, expert, names, old, new):
    text, document = edit(TEAM, judged(expert, *names))
    assert text == TEAM.replace(old, new)
    said = {each["id"]: each["params"] for each in document["nodes"]}
    assert said[expert].get("evaluator", []) == names


def test_a_second_evaluator_leaves_comments_and_the_anchor_of_the_first_where_they_were(edit):
    before = """\
experts:
  - profile: {name: One}
    workflow: [[{name: a, instruction: x}]]
    evaluator: &own # strict
      name: own # its name
      # the criteria

      instruction: "One
        sentence."
  # another
  - profile: {name: Two}
    workflow: [[{name: b, instruction: x}]]
    evaluator: *own
operators:
  - {name: fair, instruction: Fair.}
"""
    after = before.replace(
        """\
    evaluator: &own # strict
      name: own # its name
      # the criteria

      instruction: "One
        sentence."
""",
        """\
    evaluator: # strict
      - &own
        name: own # its name
        # the criteria

        instruction: "One
          sentence."
      - fair
""",
    )
    text, document = edit(before, judged("One", "own", "fair"))
    assert text == after
    said = {each["id"]: each["params"] for each in document["nodes"]}
    assert (said["One"]["evaluator"], said["Two"]["evaluator"]) == (["own", "fair"], ["own"])


@pytest.mark.parametrize(
    ("names", "old", "new"),
    [
        (["long", "kind", "fair"], "Kind.\n", "Kind.\n  - fair\n"),
        (["fair", "kind"], "  - {name: long, instruction: Long.}  # first\n", "  - fair\n"),
        (["kind"], "  - {name: long, instruction: Long.}  # first\n", ""),
        (["long", "fair"], "  - name: kind\n    instruction: Kind.\n", "  - fair\n"),
    ],
)
def test_a_list_of_evaluators_is_changed_item_by_item(edit, names, old, new):
    assert edit(LISTED, judged("E", *names))[0] == LISTED.replace(old, new)


def test_an_evaluator_is_added_where_there_is_none_and_its_criteria_are_set(edit):
    text, document = edit(TEAM, judged("Finder"), judged("Finder", "polite"))
    assert text == TEAM.replace("*strict # one", "polite")
    assert ("find", "polite") in [(each["source"], each["target"]) for each in document["edges"]]
    text, _ = edit(TEAM, {"op": "set", "node": "evaluator", "path": "instruction", "value": "One sentence."})
    assert text == TEAM.replace("|-\n        Two sentences.\n        No more.\n", "One sentence.\n")


def test_an_expert_is_added_behind_the_others_and_taken_back(edit):
    text, document = edit(
        TEAM, added("Fact checker", desc='Checks "facts".', operator="check", instruction="Check: all.")
    )
    assert text == TEAM + (
        '  - profile: {name: Fact checker, desc: Checks "facts".}\n'
        "    workflow: [[{name: check, instruction: 'Check: all.'}]]\n"
    )
    assert [each["id"] for each in document["nodes"]][-2:] == ["Fact checker", "check"]
    assert document["steps"][-1]["title"] == "Add expert Fact checker"
    edit.studio.told("undo", {"path": "file.yaml", "version": document["version"]})
    assert (edit.studio.folder / "file.yaml").read_text() == TEAM


def test_an_expert_can_begin_with_an_operator_that_the_file_defines(edit):
    text, _ = edit(TEAM, added("Editor", operator="write"))
    assert text == f"{TEAM}  - profile: {{name: Editor}}\n    workflow: [[write]]\n"


def test_an_expert_is_added_to_a_list_in_brackets(edit):
    text = "experts: [{profile: {name: E}, workflow: [[{name: a, instruction: x}]]}]\n"
    made = "profile: {name: F}, workflow: [[{name: b, instruction: y}]]"
    assert edit(text, added("F", operator="b", instruction="y"))[0] == text.replace("]}]\n", f"]}}, {{{made}}}]\n")


def test_an_expert_is_removed_with_the_operators_that_nothing_names_any_more(edit):
    text, _ = edit(TEAM, removed("Finder"))
    first = TEAM.index("  - profile: {name: Finder")
    assert text == (TEAM[:first] + TEAM[TEAM.index("  # writes") :]).replace(
        "  - &find {instruction: Find the news.}\n", ""
    ).replace("  - &strict {instruction: Nothing passes.}\n", "")


def test_a_leader_is_added_set_and_removed(edit):
    text, document = edit(TEAM, added("leader", "leader"))
    assert text == f"{TEAM}leader: {{profile: {{name: Leader}}}}\n"
    assert ("leader", "Finder") in [(each["source"], each["target"]) for each in document["edges"]]
    assert list(document["schemas"]["leader"]["properties"]) == ["profile", "max_splits", "life_cycles", "max_depth"]
    set_, _ = edit(text, {"op": "set", "node": "leader", "path": "max_depth", "value": 2})
    assert set_ == text.replace("leader: {", "leader: {max_depth: 2, ")
    assert edit(set_, removed("leader"))[0] == TEAM


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (judged("Finder", "strikt"), "there is no operator 'strikt' (did you mean 'strict'?)"),
        (judged("Finder", "strict", "strict"), "expected names of operators, each once"),
        ({**judged("Finder"), "value": {"a": 1}}, "expected names of operators"),
        (added("Writer", operator="write"), "expected a name that no expert of the file has, got 'Writer'"),
        (added("New"), "operator: name the first operator of the expert"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_the_reason(edit, operation, told):
    assert told in refused(edit, TEAM, operation)


def test_a_file_keeps_one_expert_and_one_leader(edit):
    assert "at least one expert" in refused(edit, LISTED, removed("E"))
    assert "has a leader already" in refused(edit, f"{TEAM}leader: {{}}\n", added("leader", "leader"))
