"""`operad generate --to expert`, as it is typed: files of experts that pass `operad check`, changes, and refusals."""

import json
import sys
from pathlib import Path

import pytest

from operad.cli import main as cli
from operad.cli.formats import report
from operad.configs.expert_generation import ExpertDesigner
from operad.configs.loader import load
from operad.runtime.testing import CallTools, Fail, Refuse, Say, ScriptedModel

ORDERS = """\
tools:
- shop.find_order
- shop.refund_order
- {type: WEB_SEARCH, name: search_web}
search: {type: duckduckgo}
models: {large: {name: large-model, base_url: "http://localhost:8000/v1"}}
knowledge: {handbook: {paths: [handbook]}}
"""

SHOP = '''\
def find_order(number: str) -> dict[str, str]:
    """Find an order by its number."""
    return {"number": number, "state": "unterwegs"}


def refund_order(number: str) -> str:
    """Pay an order back."""
    return number
'''

ASKED = (
    "An expert that answers questions about our orders, in German. It looks them up with the tool find_order. "
    "It answers with `answer` and `order_ids`, a list. The answer must name the order number."
)
ANSWER = {
    "name": "answer",
    "instruction": "Answer in German.",
    "output": {"answer": "string", "order_ids": ["string"]},
    "tools": ["find_order"],
}
SUPPORT = {
    "name": "Support",
    "description": "Answers questions about orders.",
    "operators": [ANSWER],
    "workflow": [["answer"]],
    "criteria": ["The answer is in German.", "The answer names the order number."],
    "unapproved": {"find_order": "it only reads", "shop.find_order": "it only reads"},
}

WRITTEN = """\
app: {name: Support, desc: Answers questions about orders.}
reasoner: {type: MONO}
tools: [{name: find_order, module_path: shop}]
operators:
- name: answer
  instruction: Answer in German.
  output: {answer: string, order_ids: [string]}
  tools: [find_order]
experts:
- profile: {name: Support, desc: Answers questions about orders.}
  workflow: [[answer]]
  evaluator:
    instruction: |-
      - The answer is in German.
      - The answer names the order number.
"""


SORRY = "I am sorry, but I cannot help with that."


def plan(**changes):
    """A plan that is right for `ASKED`, with changes of its keys."""
    return {**SUPPORT, **changes}


@pytest.fixture
def generate(tmp_path, monkeypatch, capsysbinary):
    """Runs the command with a model that answers with plans: exit status, stdout, stderr, and the prompts."""
    monkeypatch.chdir(tmp_path)
    Path("services.yaml").write_text(ORDERS)
    Path("shop.py").write_text(SHOP)
    Path("handbook").mkdir()
    Path("handbook/returns.md").write_text("Returns within 30 days.")

    def generate(answers, *arguments):
        steps = [Say(json.dumps(each, ensure_ascii=False)) if isinstance(each, dict) else each for each in answers]
        with ScriptedModel(steps) as model:
            monkeypatch.setattr(sys, "argv", ["operad", "generate", *arguments, "--base-url", model.base_url])
            with pytest.raises(SystemExit) as exit_:
                cli.main()
            captured = capsysbinary.readouterr()
            assert b"Traceback" not in captured.err
            prompts = [json.dumps(request["messages"], ensure_ascii=False) for request in model.requests]
        return exit_.value.code, captured.out.decode(), captured.err.decode(), prompts

    return generate


@pytest.fixture
def expert(generate):
    """Generates an expert with the services of the shop, into support.yaml."""

    def expert(answers, request=ASKED, *options):
        options = ("--to", "expert", "--services", "services.yaml", "--trust", "-o", "support.yaml", *options)
        return generate(answers, request, *options)

    return expert


def issues(file):
    return [f"{issue.where}: {issue.message}" for issue in report(file).issues]


def test_an_expert_has_typed_outputs_its_tools_and_the_criteria_of_the_request(expert):
    status, out, _, prompts = expert([plan()])
    assert status == 0
    assert Path("support.yaml").read_text() == WRITTEN
    assert issues("support.yaml") == []
    assert out == "".join(f"+{line}\n" for line in WRITTEN.splitlines())
    assert "find_order(number): Find an order by its number." in prompts[0]


def test_a_generated_expert_runs_calls_its_tool_and_is_judged(expert):
    expert([plan()])
    verdict = {"evaluation": "Good.", "status": "SUCCESS", "unsure": [], "score": 9, "faults": []}
    answer = {"answer": "Bestellung A1 ist unterwegs.", "order_ids": ["A1"]}
    steps = [CallTools({"find_order": {"number": "A1"}}), Say(json.dumps(answer)), Say(json.dumps(verdict))]
    with ScriptedModel(steps) as model:
        flow = load("support.yaml", trust=True).expert(model=model.model).workflow
        result = flow.run("Where is A1?", model=model.model)
    assert (result.accepted, result.outputs) == (True, answer)


def test_without_a_file_the_expert_goes_to_stdout(generate):
    alone = plan(operators=[{**ANSWER, "tools": ["wikipedia"]}])
    status, out, err, _ = generate([alone], ASKED, "--to", "expert")
    assert (status, "tools: [{type: WIKIPEDIA}]\n" in out) == (0, True), err


def test_json_is_all_that_stdout_holds(expert, generate):
    status, out, _, _ = expert([plan(notes=["Orders have numbers."])], ASKED, "--json")
    found = json.loads(out)
    assert (status, found["accepted"], found["format"], found["notes"]) == (
        0,
        True,
        "expert",
        ["Orders have numbers.", "find_order runs without approval: it only reads"],
    )
    assert "expert" not in found
    _, out, _, _ = generate([plan(operators=[{**ANSWER, "tools": []}])], ASKED, "--to", "expert", "--json", "--explain")
    found = json.loads(out)
    assert found["expert"].startswith("app: {name: Support")
    assert found["explained"][0].startswith("write, round 1: prompt of about ")


# What is asked again


@pytest.mark.parametrize(
    ("wrong", "finding"),
    [
        ({"operators": [{**ANSWER, "tools": ["find_ordr"]}]}, "no tool is called 'find_ordr' (did you mean 'find_order'?)"),
        ({"operators": [{**ANSWER, "model": "lrge"}]}, "no model is called 'lrge' (did you mean 'large'?); there are: large"),
        ({"knowledge": "book"}, "no knowledge base is called 'book' (did you mean 'handbook'?); there are: handbook"),
        ({"operators": [{**ANSWER, "output": {"answer": "string"}}]}, "order_ids: the job marks it"),
        ({"operators": [{**ANSWER, "output": {"answer": "strng", "order_ids": []}}]}, "'strng' is not a type"),
        ({"operators": [ANSWER, {"name": "more", "instruction": "More."}]}, "operator 'more' never runs"),
        ({"operators": [{**ANSWER, "instruction": "In {lang}."}]}, "answer: {lang} is neither an input nor an operator"),
        ({"inputs": {"language": "of the answer"}}, "no operator reads the input 'language'"),
        ({"workflow": [["anwser"]]}, "no operator is called 'anwser' (did you mean 'answer'?)"),
        ({"criteria": []}, "there are no `criteria`"),
        ({"operators": []}, "there is no operator"),
    ],
)  # fmt: skip
def test_what_is_wrong_goes_back_to_the_model_with_its_answer(expert, wrong, finding):
    status, _, _, prompts = expert([plan(**wrong), plan()])
    assert (status, len(prompts)) == (0, 2)
    assert finding in prompts[1].replace("\\", "")
    assert "Your last answer" in prompts[1]
    assert Path("support.yaml").read_text() == WRITTEN


def test_after_three_answers_the_best_file_is_kept_and_what_is_left_is_said(expert):
    lost = {**ANSWER, "output": {"answer": "string"}}
    worse = plan(operators=[lost, {"name": "more", "instruction": "More."}])
    status, _, err, prompts = expert([worse, plan(operators=[lost]), worse])
    assert (status, len(prompts)) == (1, 3)
    assert "left: order_ids: the job marks it" in err
    assert "left: operator 'more'" not in err
    assert "output: {answer: string}" in Path("support.yaml").read_text()
    assert issues("support.yaml") == []


def test_an_endpoint_that_breaks_down_leaves_the_best_file(expert):
    status, _, err, _ = expert([plan(criteria=[]), Fail(400)])
    assert status == 1
    assert "left: there are no `criteria`" in err
    assert "rejects the request (400)" in err
    assert Path("support.yaml").exists()


@pytest.mark.parametrize("refusal", [[Say(SORRY)] * 2, [Refuse(SORRY)] * 2])
def test_a_refusal_is_shown_and_nothing_is_written(expert, refusal):
    status, out, err, _ = expert(refusal)
    assert (status, out) == (1, "")
    assert SORRY in err
    assert "not finished; nothing was written" in err
    assert not Path("support.yaml").exists()


def test_what_cannot_be_done_is_said_and_not_called_done(expert):
    mail = plan(operators=[{**ANSWER, "tools": []}], left_out={"read_mail": "there is no such tool"})
    status, _, err, _ = expert([mail], f"{ASKED} It reads my mail with `read_mail`.")
    assert status == 1
    assert "left out: read_mail: there is no such tool" in err
    assert issues("support.yaml") == []


LEFT = {"read_mail": "there is no such tool", "a schedule": "experts have none"}
COMMENTS = "# left out: read_mail: there is no such tool\n# left out: a schedule: experts have none\n"


def test_what_is_left_out_stays_in_the_file_until_it_is_done(expert, generate):
    def change(made, calls=1):
        options = ("--continue", "support.yaml", "-o", "support.yaml", "--services", "services.yaml", "--trust")
        status, _, err, prompts = generate([made] * calls, "Next.", *options)
        return status, [line for line in err.splitlines() if line.startswith("left")], prompts

    status, _, err, _ = expert([plan(operators=[{**ANSWER, "tools": []}], left_out=LEFT)])
    before = Path("support.yaml").read_text()
    assert (status, before.startswith(f"{COMMENTS}app: ")) == (1, True)
    assert "rejected: left out: read_mail, a schedule (JOB_TOO_COMPLICATED_ERROR)" in err
    assert issues("support.yaml") == []
    status, left, prompts = change({"replace": [{"old": "in German", "new": "in French"}]})
    assert (status, left) == (1, [f"left out: {what}: {why}" for what, why in LEFT.items()])
    assert Path("support.yaml").read_text() == before.replace("in German", "in French")
    assert "# left out: a schedule: experts have none" in prompts[0]
    status, left, _ = change({"outdated": ["schedules"]}, 3)
    assert (
        status,
        "`outdated`: no line `# left out` is called 'schedules' (did you mean 'a schedule'?)" in left[-1],
    ) == (
        1,
        True,
    )
    status, left, _ = change({"outdated": ["a schedule"], "left_out": {"read_mail": "still none"}})
    assert (status, left) == (1, ["left out: read_mail: still none"])
    assert Path("support.yaml").read_text().startswith("# left out: read_mail: still none\napp: ")
    status, left, prompts = change({"operators": []}, 3)
    assert (status, "nothing changes" in prompts[1]) == (1, True)
    text = Path("support.yaml").read_text().replace("read_mail", "find_order")
    Path("support.yaml").write_text(text)
    status, left, _ = change({"operators": [{"name": "answer", "tools": ["find_order"]}]})
    assert (status, left) == (0, [])
    assert Path("support.yaml").read_text().startswith("app: ")


def test_a_corrected_finding_is_printed(expert):
    _, _, err, _ = expert([plan(criteria=[]), plan()])
    assert "found and corrected: there are no `criteria`" in err
    assert "left:" not in err
    _, _, err, _ = expert([plan(criteria=[])] * 3, ASKED, "-o", "other.yaml")
    assert "found and corrected" not in err


def chain_of(*names, **more):
    """A plan with a chain of operators; `more` has keys of those that have any."""
    made = [{"name": name, "instruction": f"Do {name}.", **more.get(name, {})} for name in names]
    return plan(operators=made, workflow=[list(names)], unapproved={})


@pytest.mark.parametrize(
    ("reader", "chains"),
    [
        ({"instruction": "Write about {find} and {sort}."}, [["find", "sort", "write"], ["find", "write"]]),
        ({"check": "It has {find}."}, [["find", "sort", "write"], ["find", "write"]]),
        ({"map": "find.ids"}, [["find", "sort", "write"], ["find", "write"]]),
        ({"instruction": "Write about {sort}."}, [["find", "sort", "write"]]),
    ],
)
def test_an_operator_gets_an_edge_from_each_operator_before_it_that_it_reads(expert, reader, chains):
    made = chain_of("find", "sort", "write", find={"output": {"ids": ["string"]}}, write=reader)
    status, _, err, prompts = expert([made], "Write.")
    assert (status, len(prompts)) == (0, 1), err
    assert load("support.yaml").spec.experts[0].workflow == chains


def test_a_change_gets_the_edge_too(expert, generate):
    expert([chain_of("find", "sort", "write")], "Write.")
    made = {"replace": [{"old": "Do write.", "new": "Write about {find}."}]}
    status, _, err, prompts = generate([made], "About it.", "--continue", "support.yaml", "-o", "support.yaml")
    assert (status, len(prompts)) == (0, 1), err
    assert "  workflow: [[find, sort, write], [find, write]]\n" in Path("support.yaml").read_text()


def test_a_change_leaves_the_chains_of_an_operator_that_has_its_inputs_listed(generate):
    inner = "{instruction: Do it.}"
    text = f"""\
operators:
  - &find {inner}
  - &sort {inner}
  - &write {{instruction: 'About {{find}}.', inputs: [find]}}
experts:
  - profile: {{name: Writer}}
    workflow: [[*find, *sort, *write]]
"""
    Path("writer.yaml").write_text(text)
    made = {"replace": [{"old": "About", "new": "Write about"}]}
    status, _, err, _ = generate([made], "More.", "--continue", "writer.yaml", "-o", "writer.yaml")
    assert (status, Path("writer.yaml").read_text()) == (0, text.replace("About", "Write about")), err


def test_no_edge_goes_around_a_branch(expert):
    made = chain_of("find", "sort", "write", sort={"ports": ["a", "b"]}, write={"instruction": "About {find}."})
    made["workflow"] = [["find", "sort:a", "write"]]
    status, _, err, _ = expert([made] * 3, "Write.")
    assert (status, "operator 'find' has no edge to 'write'" in err) == (1, True)


def test_an_impossible_request_makes_no_file(expert):
    status, _, err, _ = expert([{"operators": [], "left_out": {"flying": "no model flies"}}], "Fly to Rome.")
    assert status == 1
    assert err.endswith("left out: flying: no model flies\nnot finished; nothing was written\n")
    assert not Path("support.yaml").exists()


# Names


@pytest.mark.parametrize(
    ("request_", "operator", "more"),
    [
        ("（变量 sentiment：正面、负面或中性）", {"output": {"sentiment": {"enum": ["正面", "负面", "中性"]}}}, {}),
        ("In der Sprache (Variable sprache).", {"instruction": "In {sprache}."}, {"inputs": {"sprache": "Sprache"}}),
        ("A list of items (variable items).", {"map": "items"}, {"inputs": {"items": "texts"}}),
        ("It is `yes` or `no`.", {"output": {"is": "yes | no"}}, {}),
        ("Use `find_order`.", {"tools": ["find_order"]}, {}),
        ("See `chapter`.", {}, {"neither": {"chapter": "a chapter of the handbook"}}),
    ],
)
def test_marked_names_are_inputs_results_tools_choices_or_accounted_for(expert, request_, operator, more):
    made = plan(operators=[{"name": "answer", "instruction": "Answer.", **operator}], **more)
    status, _, err, prompts = expert([made], request_)
    assert (status, len(prompts)) == (0, 1), err


def test_a_variable_of_an_earlier_operator_is_no_result_unless_the_plan_says_so(expert):
    operators = [
        {"name": "find", "instruction": "Find facts.", "output": {"facts": ["string"]}},
        {"name": "write", "instruction": "Write.", "output": {"text": "string"}},
    ]
    made = plan(operators=operators, workflow=[["find", "write"]])
    request = "Find facts (variable facts), and write a text (variable text)."
    status, _, _, prompts = expert([made, {**made, "neither": {"facts": "the answer of find"}}], request)
    assert (status, len(prompts)) == (0, 2)
    assert "facts: the job marks it" in prompts[1]
    status, _, _, prompts = expert(
        [{**made, "neither": {"mood": "none"}}] * 3, "A mood (variable mood) and `text`.", "-o", "x.yaml"
    )
    assert status == 1


def test_an_output_that_a_change_loses_is_said(expert, generate):
    expert([plan()])
    made = {"operators": [{"name": "answer", "output": {"answer": "string"}}]}
    status, _, err, _ = generate([made], "Only the answer.", "--continue", "support.yaml")
    assert status == 0
    assert "no longer an input or output: order_ids\n" in err


def test_an_answer_with_one_reading_is_read(expert):
    operator = {**ANSWER, "tools": "find_order"}
    made = {**SUPPORT, "operators": {"answer": operator}, "workflow": ["answer"], "notes": "Orders have numbers."}
    status, _, err, prompts = expert([made])
    assert (status, len(prompts)) == (0, 1), err
    assert Path("support.yaml").read_text() == WRITTEN
    assert "note: Orders have numbers.\n" in err


# Branches, maps, services, approval


def test_branches_and_maps_are_written_as_files_have_them(expert):
    made = plan(
        operators=[
            {"name": "sort", "instruction": "Refund or complaint?", "ports": ["refund", "complaint"]},
            {"name": "claims", "instruction": "List the claims.", "output": {"claims": ["string"]}},
            {
                "name": "verify",
                "instruction": "Check.",
                "map": "claims.claims",
                "tools": ["search_web"],
                "model": "large",
            },
            {"name": "soothe", "instruction": "Answer.", "check": "It is friendly."},
        ],
        workflow=[["sort:refund", "claims", "verify"], ["sort:complaint", "soothe"]],
        max_rounds=2,
        knowledge="handbook",
    )
    status, _, err, _ = expert([made], "Sort letters.")
    assert status == 0, err
    spec = load("support.yaml", trust=True).spec
    assert [[getattr(step, "port", step) for step in chain] for chain in spec.experts[0].workflow] == [
        ["refund", "claims", "verify"],
        ["complaint", "soothe"],
    ]
    text = Path("support.yaml").read_text()
    for line in (
        "tools: [{type: WEB_SEARCH, name: search_web}]",
        "services: {search: {type: duckduckgo}}",
        "knowledgebase: {paths: [handbook]}",
        "  map: {over: claims.claims}",
        "  model: {name: large-model, base_url: 'http://localhost:8000/v1'}",
        "  max_rounds: 2",
    ):
        assert f"{line}\n" in text


def test_a_person_is_asked_before_calls_of_tools_unless_the_plan_says_why_not(expert):
    made = plan(operators=[{**ANSWER, "tools": ["find_order", "refund_order", "wikipedia"]}])
    status, _, err, _ = expert([made])
    assert status == 0
    text = Path("support.yaml").read_text()
    for line in (
        "- {name: find_order, module_path: shop}\n",
        "- {name: refund_order, module_path: shop, approve: true}\n",
        "- {type: WIKIPEDIA}\n",
    ):
        assert line in text
    assert "note: find_order runs without approval: it only reads\n" in err
    assert "note: refund_order: a person is asked before each call; to leave this out, say in the request" in err


def test_neither_the_model_nor_the_file_gets_a_key_of_the_request(expert):
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    status, _, err, prompts = expert([plan()], f"{ASKED} Use the GitHub token {key}.")
    assert status == 0
    assert key not in prompts[0] + err + Path("support.yaml").read_text()
    assert "note: a key in the request was not stored; give it by: operad secrets set GITHUB_KEY\n" in err


def test_a_function_is_a_tool_if_the_request_names_it_with_its_module(generate):
    made = plan(operators=[{**ANSWER, "tools": ["shop.find_order"]}])
    assert generate([made], f"{ASKED} It is in shop.py.", "--to", "expert", "-o", "support.yaml")[0] == 0
    assert Path("support.yaml").read_text() == WRITTEN
    other = plan(operators=[{**ANSWER, "tools": ["shop.lose_order"]}])
    status, _, err, _ = generate([other] * 3, f"Use lose_order of shop.py. {ASKED}", "--to", "expert")
    assert status == 1
    assert "tool 'lose_order': module 'shop' has no 'lose_order' (did you mean 'refund_order'?) [tool-module]" in err
    status, _, err, _ = generate([other] * 3, ASKED, "--to", "expert")
    assert "no tool is called 'shop.lose_order'" in err


# Changes

BEFORE = """\
# Our support
operators: # two
  - &topic
    instruction: What is it about? # short
    output: {topic: delivery | refund}
  - &reply {instruction: Answer in two sentences.}
  - &judge {instruction: The reply is polite.}

experts:
  - profile: {name: Support, description: Answers letters.}
    workflow:
      - [*topic, *reply] # in this order
    evaluator: *judge
"""


@pytest.fixture
def change(generate):
    """Changes the file expert.yaml, whose text is `BEFORE` unless there is one."""

    def change(answers, request, *options):
        Path("expert.yaml").write_text(BEFORE)
        return generate(answers, request, "--continue", "expert.yaml", "-o", "expert.yaml", *options)

    return change


def test_a_change_of_one_operator_leaves_every_other_line(change):
    made = {
        "operators": [{"name": "reply", "instruction": "Answer in French."}],
        "criteria": ["The reply is in French."],
    }
    status, out, err, prompts = change([made], "In French.")
    assert status == 0, err
    changed = BEFORE.replace("Answer in two sentences.", "Answer in French.").replace("is polite.", "is in French.")
    assert Path("expert.yaml").read_text() == changed
    assert out.splitlines() == [
        "-  - &reply {instruction: Answer in two sentences.}",
        "-  - &judge {instruction: The reply is polite.}",
        "+  - &reply {instruction: Answer in French.}",
        "+  - &judge {instruction: The reply is in French.}",
    ]
    assert "What is it about? # short" in prompts[0]


def test_words_are_replaced_in_instructions_checks_and_criteria(change):
    made = {"replace": [{"old": "polite", "new": "short"}, {"old": "two sentences", "new": "one sentence"}]}
    status, _, err, prompts = change([made], "One sentence.")
    assert (status, len(prompts)) == (0, 1), err
    changed = BEFORE.replace("two sentences", "one sentence").replace("polite", "short")
    assert Path("expert.yaml").read_text() == changed
    status, _, err, _ = change([{"replace": [{"old": "rude", "new": ""}]}] * 3, "Not rude.")
    assert (status, Path("expert.yaml").read_text()) == (1, BEFORE)
    assert "left: `replace`: no instruction, check or criterion has 'rude'; copy the words from the file" in err


def test_several_criteria_in_place_of_one_are_lines(expert, generate):
    expert([plan(criteria=["The answer is in German."])])
    made = {"criteria": ["The answer is in German.", "It is short."]}
    assert generate([made], "Short.", "--continue", "support.yaml", "-o", "support.yaml")[0] == 0
    lines = "  evaluator:\n    instruction: |-\n      - The answer is in German.\n      - It is short.\n"
    assert Path("support.yaml").read_text().endswith(lines)


def test_a_change_is_asked_with_rules_of_its_own(expert, change):
    _, _, _, drafts = expert([plan()])
    _, _, _, changes = change([{"description": "Writes."}], "Writes.")
    assert len(changes[0]) < len(drafts[0]) / 2 + len(BEFORE)


def test_a_new_operator_joins_the_chains_and_brings_its_tools(change):
    made = {
        "operators": [{"name": "look", "instruction": "Look it up.", "tools": ["wikipedia"]}],
        "workflow": [["topic", "look", "reply"]],
        "description": "Looks it up.",
    }
    status, _, err, _ = change([made], "Look it up on Wikipedia first.")
    assert status == 0, err
    text = Path("expert.yaml").read_text()
    assert "      - [*topic, look, *reply] # in this order\n" in text
    assert "  - {name: look, instruction: Look it up., tools: [wikipedia]}\n" in text
    assert "description: Looks it up." in text
    assert text.endswith("tools: [{type: WIKIPEDIA}]\n")
    assert issues("expert.yaml") == []


def test_a_tool_of_the_file_is_approved_from_now_on(expert, generate):
    expert([plan()])
    made = {"operators": [], "approve": ["find_order"]}
    assert generate([made], "Ask me before.", "--continue", "support.yaml", "-o", "support.yaml")[0] == 0
    changed = WRITTEN.replace("module_path: shop}", "module_path: shop, approve: true}")
    assert Path("support.yaml").read_text() == changed


def test_a_dropped_operator_leaves_the_chain(change):
    made = {"operators": [], "drop": ["topic"]}
    assert change([made], "Without the topic.")[0] == 0
    assert "      - [*reply] # in this order\n" in Path("expert.yaml").read_text()
    status, _, err, _ = change([{"operators": [], "drop": ["topc"]}] * 3, "Without the topic.")
    assert (status, Path("expert.yaml").read_text()) == (1, BEFORE)
    assert "left: no operator is called 'topc' (did you mean 'topic'?)" in err


def test_a_change_that_changes_nothing_says_why_and_leaves_the_file(change):
    status, _, err, prompts = change([{"operators": []}, {"operators": [], "left_out": {"it": "no"}}], "Send it.")
    assert (status, Path("expert.yaml").read_text()) == (1, BEFORE)
    assert "nothing changes" in prompts[1]
    assert err.endswith("left out: it: no\nnot finished; expert.yaml is as it was\n")


# What is refused before the model is asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x", "--to", "expert", "--run", "a=b", "--review"], "--run, --review: is for workflows, not for experts"),
        (["x", "--to", "expert", "-o", "expert.yaml"], "-o expert.yaml: configures experts; change it with --continue"),
        (["x", "--to", "expert", "-o", "flow.yaml"], "-o flow.yaml: holds a workflow; name another file"),
        (["x", "--to", "expert", "--continue", "flow.yaml"], "--continue flow.yaml: does not configure an expert"),
        (["x", "--continue", "two.yaml"], "only a file with one expert can be changed in words"),
        (["x", "--continue", "wrong.yaml"], "wrong.yaml:1: operators[0].instruction: this key is missing"),
        (["", "--to", "expert"], "the instruction is empty"),
        (
            ["x", "--to", "expert", "--services", "services.yaml", "-o", "other/e.yaml"],
            "must be in the folder of services",
        ),
        (["x", "--to", "export"], "there is no such format (did you mean 'expert'?)"),
    ],
)
def test_what_cannot_be_is_refused(generate, arguments, said):
    Path("expert.yaml").write_text(BEFORE)
    Path("two.yaml").write_text(BEFORE + "  - {profile: {name: B}, workflow: [[*topic]]}\n")
    Path("wrong.yaml").write_text("operators: [{name: a}]\nexperts: [{profile: {name: A}, workflow: [[a]]}]\n")
    Path("flow.yaml").write_text("workflow: a\nnodes:\n  s: {type: start}\n  e: {type: end, after: s}\n")
    Path("other").mkdir()
    status, _, err, _ = generate([], *arguments)
    assert status == 2
    assert said in err


def test_in_python_a_designer_returns_the_text():
    with ScriptedModel([Say(json.dumps(plan(operators=[{**ANSWER, "tools": []}])))]) as model:
        design = ExpertDesigner(model.model).design(ASKED)
    assert (design.accepted, design.before, design.text.splitlines()[1]) == (True, "", "reasoner: {type: MONO}")
