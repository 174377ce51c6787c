"""Instructions with values of the job: by name in braces, or written by a function."""

from typing import Any, TypedDict, cast

import pytest

from operad import Evaluator, Map, Operator, OperatorConfig, RunContext, Workflow, operator
from operad.operators.nodes.models import LLM
from operad.runtime import Cache, InputError, InvalidError, Job, Policy, WorkflowMessage
from operad.runtime.durable.description import changes, describe_workflow
from operad.runtime.reasoning.prompt import DATA_RULE, render
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner


class Facts(TypedDict):
    title: str
    claims: list[str]


FACTS = '{"title": "Moon", "claims": ["air", "cheese"]}'
ACCEPTED = '{"evaluation": "", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}'


def prompts(flow, job, *answers, **options):
    """The messages that each operator of a run sends, as texts: `system: …` and `user: …`."""
    script = list(answers)
    reasoner = ScriptedReasoner(lambda task: script.pop(0) if script else "done")
    Workflow(flow, **options).run(job, reasoner)
    assert script == []
    return [[f"{each.role}: {each.text}" for each in render(task)] for task in reasoner.tasks]


def issues(flow, job: Any = "go", **options):
    """The issues with which a run is refused, before any operator runs: code, place and text."""
    with ScriptedReasoner([]) as reasoner, pytest.raises(InvalidError) as caught:
        Workflow(flow, **options).run(job, reasoner)
    return [(issue.code, issue.where, issue.message) for issue in caught.value.issues]


def facts(**options):
    return Operator("List facts.", id="facts", **options)


# Values


def test_inputs_of_the_job_are_named_and_not_shown_again():
    asked = prompts(Operator("Translate {text} into {language}."), {"text": "Bonjour {language}", "language": "German"})
    assert asked == [["user: Translate Bonjour {language} into German."]]


def test_other_inputs_and_the_goal_have_their_sections():
    (asked,) = prompts(Operator("Answer in {language}."), Job("Who?", inputs={"language": "German", "year": 1969}))
    assert asked == [
        f"system: {DATA_RULE}",
        'user: ## Job\nWho?\n\n## Inputs\n```\n{\n "year": 1969\n}\n```\n\n## Instruction\nAnswer in German.',
    ]


def test_the_answer_of_a_predecessor_is_named_beside_an_input():
    _, asked = prompts(facts() >> Operator("Write {facts} in {language}."), {"language": "German"}, "Moon")
    assert asked == ["user: Write Moon in German."]


def test_answers_that_are_not_named_have_their_section():
    flow = [facts(), Operator("List doubts.", id="doubts")] >> Operator("Weigh {facts}.")
    (asked,) = prompts(flow, "go", "F", "D")[2:]
    assert (
        asked[1]
        == "user: ## Job\ngo\n\n## Results of earlier operators\n### Result of doubts\n```\nD\n```\n\n## Instruction\nWeigh F."
    )


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("About {facts.title}.", "About Moon."),
        ("First {facts.claims.0}.", "First air."),
        ("All: {facts.claims}", 'All:\n```\n[\n "air",\n "cheese"\n]\n```'),
        ("{job.goal}: {facts.title}", "go: Moon"),
    ],
)
def test_a_part_of_an_answer_is_named_by_a_path(instruction, expected):
    _, asked = prompts(facts(output=Facts) >> Operator(instruction), "go", FACTS)
    assert asked[-1].endswith(f"## Instruction\n{expected}")
    assert "### Result of facts" in asked[-1]  # the rest of the answer is not lost


def test_an_object_is_put_in_as_messages_show_it():
    _, asked = prompts(facts(output=Facts) >> Operator("Write from {facts}"), {"x": 1}, FACTS)
    assert asked[-1].endswith(f"## Instruction\nWrite from {FACTS}")


def test_a_part_of_an_input_is_named_by_a_path():
    job = {"user": {"name": "Ada", "tags": ["x", "y"]}}
    assert prompts(Operator("Greet {user.name}, {user.tags.1}."), job)[0][-1].endswith("Greet Ada, y.")
    (found,) = issues(Operator("Greet {user.nme}.", id="a"), job)
    assert found[2].startswith(
        "its instruction has {user.nme}: input 'user' has no 'nme' (did you mean 'name'?); it has:"
    )


def test_an_id_that_is_no_name_is_named_as_a_parameter_would_be_or_as_it_is():
    first = Operator("Check.", id="check-facts")
    assert prompts(first >> Operator("Use {check_facts} and {check-facts}."), {"x": 1}, "A")[1][-1].endswith(
        "Use A and A."
    )


def test_a_skipped_predecessor_is_an_empty_text():
    @operator(ports=["a", "b"])
    def choose(job: Job):
        return WorkflowMessage("chosen", ports=("a",))

    one, two = Operator("One.", id="one"), Operator("Two.", id="two")
    flow = [choose["a"] >> one, choose["b"] >> two] >> Operator("Use <{one}{two}>.")
    assert prompts(flow, "go", "1")[1][-1].endswith("## Instruction\nUse <1>.")


def test_long_values_are_fenced_and_the_rule_for_fences_is_a_system_message():
    (asked,) = prompts(Operator("Sum up {text}\nin one line."), {"text": "one\ntwo"})
    assert asked == [f"system: {DATA_RULE}", "user: Sum up\n```\none\ntwo\n```\nin one line."]


def test_the_paragraphs_before_the_first_value_are_the_system_message():
    instruction = "You are terse.\n\nNever lie.\n\nTranslate {text}.\n\nEnd."
    first, second = (prompts(Operator(instruction), {"text": text})[0] for text in ("Bonjour", "Salut"))
    assert first == ["system: You are terse.\n\nNever lie.", "user: Translate Bonjour.\n\nEnd."]
    assert second[0] == first[0]


def test_an_instruction_without_values_is_the_system_message_with_its_braces():
    assert prompts(Operator('Answer {"a": {"b": 1}} or {}, not {{a}}.'), "go") == [
        ['system: Answer {"a": {"b": 1}} or {}, not {a}.', "user: go"]
    ]


def test_the_reasoner_is_given_the_whole_instruction():
    with ScriptedReasoner(["done"]) as reasoner:
        Workflow(Operator("Be terse.\n\nTranslate {text}.")).run({"text": "Bonjour"}, reasoner)
    assert reasoner.tasks[0].instruction == "Be terse.\n\nTranslate Bonjour."


# Maps and nested workflows


def test_the_body_of_a_map_names_the_item_its_index_and_operators_before_the_map():
    body = Operator("Check {item} ({index}) of {facts.title} in {language}.", id="check")
    flow = facts(output=Facts) >> Map(over="facts.claims", each=body, concurrency=1)
    _, one, two = prompts(flow, {"language": "German"}, FACTS, "yes")
    assert one[-1].endswith("## Instruction\nCheck air (0) of Moon in German.")
    assert two[-1].endswith("## Instruction\nCheck cheese (1) of Moon in German.")
    assert "Item to work on" not in one[-1]


def test_a_part_of_an_item_is_named_by_a_path():
    flow = Map(over="people", each=Operator("Greet {item.name}.", id="greet"), id="all")
    assert prompts(flow, {"people": [{"name": "Ada"}]})[0][-1].endswith("Greet Ada.")


def test_the_first_operators_of_a_nested_workflow_name_the_operators_before_it():
    inner = Workflow(Operator("Use {facts} and {topic}.", id="use"), name="inner")
    assert prompts(facts() >> inner, {"topic": "T"}, "F")[1] == ["user: Use F and T."]


# Checks


@pytest.mark.parametrize(
    ("flow", "job", "code", "where", "message"),
    [
        (lambda: Operator("Into {langauge}.", id="a"), {"language": "German"}, "unknown-name", "a",
         "{langauge}: no operator before it and no input of the job is 'langauge' (did you mean 'language'?); before it: no operator; inputs: language."),
        (lambda: Operator("Say {text}.", id="a"), "go", "unknown-name", "a",
         "{text}: no operator before it and no input of the job is 'text'; before it: no operator; inputs: none; the text of the job is {job.goal}."),
        (lambda: facts() >> Operator("Use {fact}.", id="a"), {"topic": "x"}, "unknown-name", "a", "{fact}: no operator before it is 'fact' (did you mean 'facts'?); before it: facts."),
        (lambda: facts() >> Operator("B.", id="b") >> Operator("Use {facts}.", id="c"), "go", "unknown-name", "c",
         "{facts}: operator 'facts' has no edge to 'c'; add the edge, or name the input differently."),
        (lambda: facts(output=Facts) >> Operator("On {facts.titel}.", id="a"), "go", "unknown-output", "a",
         "{facts.titel}: 'facts' has no 'titel' (did you mean 'title'?); it has: title, claims."),
        (lambda: facts() >> Operator("On {facts.title}.", id="a"), "go", "unknown-output", "a", "{facts.title}: the answer of 'facts' is text, which has no 'title'."),
        (lambda: facts(output=Facts) >> Map("all", over="facts.claims", each=Operator("Check {itm}.", id="b")), "go", "unknown-name", "all/b",
         "{itm}: no operator before it is 'itm' (did you mean 'item'?); before it: facts, item, index."),
        (lambda: facts() >> Workflow(Operator("Use {fcts}.", id="b"), name="in"), "go", "unknown-name", "in/b",
         "{fcts}: no operator before it is 'fcts' (did you mean 'facts'?); before it: facts."),
        (lambda: facts() >> Workflow(Operator("Use {topic}.", id="b"), name="in"), {"theme": "x"}, "unknown-name", "in/b",
         "{topic}: no operator before it and no input of the job is 'topic'; before it: facts; inputs: theme."),
    ],
)  # fmt: skip
def test_a_name_that_names_nothing_is_an_issue_before_anything_runs(flow, job, code, where, message):
    [issue] = issues(flow(), job)
    assert issue[:2] == (code, where)
    assert issue[2].startswith(f"its instruction has {message}")


def test_names_are_checked_without_a_job_if_they_are_nearly_those_of_operators():
    flow = Workflow(facts() >> Operator("Use {fact} in {language}.", id="a"))
    assert [(issue.code, issue.where) for issue in flow.graph().check()] == [("unknown-name", "a")]


def test_an_input_may_have_a_name_that_resembles_one_that_is_named():
    assert prompts(facts() >> Operator("Use {facts} and {fact}."), {"fact": "f"}, "F")[1] == ["user: Use F and f."]


def test_the_names_of_a_fallback_are_checked():
    policy = Policy(fallback=Operator("Say {txt}.", id="spare"))
    assert [found[:2] for found in issues(Operator("Say.", id="a", policy=policy), {"text": "x"})] == [
        ("unknown-name", "spare")
    ]


async def test_outside_of_a_workflow_an_unknown_name_is_an_error():
    with (
        ScriptedReasoner([]) as reasoner,
        pytest.raises(InputError, match=r"has \{txt\}: no operator before it .*'text'"),
    ):
        await Operator("Say {txt}.", id="a").execute(reasoner, Job(inputs={"text": "x"}))


def test_the_author_of_an_answer_without_the_named_part_runs_again_with_a_lesson():
    first = Operator("List.", id="facts", output={"type": "object", "properties": {"title": {"type": "string"}}})
    with ScriptedReasoner(['{"titel": "Moon"}', '{"title": "Moon"}', "done"]) as reasoner:
        Workflow(first >> Operator("On {facts.title}.", id="a"), max_rounds=2).run("go", reasoner)
    assert [(task.instruction, task.lesson) for task in reasoner.tasks] == [
        ("List.", ""),
        ("List.", "Give title in the answer."),
        ("On Moon.", ""),
    ]


def test_typed_nodes_and_operators_with_a_run_of_their_own_use_their_texts_as_they_are():
    class Own(Operator):
        async def run(self, call):
            return self.instruction

    assert Workflow(Own("Say {it}.")).run("go").text == "Say {it}."
    assert not LLM("1", {"system": "", "user": "Say {it}."}).names_operators


# Evaluators


def test_the_criteria_name_inputs_and_every_operator():
    judge = Evaluator("It is in {language}, and rests on {facts}.")
    flow = facts() >> Operator("Write.", id="write")
    *_, asked = prompts(flow, {"language": "German"}, "Moon", "text", ACCEPTED, evaluator=judge)
    assert "## Instruction\nCriteria:\nIt is in German, and rests on Moon.\n\n## Form" in asked[-1]
    assert "### Result of write\n```\ntext\n```" in asked[-1]


def test_a_misspelt_name_in_the_criteria_is_an_issue():
    flow = facts() >> Operator("Write.", id="write")
    (found,) = issues(flow, evaluator=Evaluator("It rests on {fatcs}.", id="judge"))
    assert found[:2] == ("unknown-name", "judge")
    assert "(did you mean 'facts'?)" in found[2]


def test_the_result_that_is_judged_stays_in_its_section():
    *_, asked = prompts(facts(), "go", "Moon", ACCEPTED, evaluator=Evaluator("{facts} is right."))
    assert "Moon is right." in asked[-1]
    assert "### Result of facts\n```\nMoon\n```" in asked[-1]


# Functions


def test_a_function_writes_the_instruction_from_the_values_that_its_parameters_name():
    def write(facts: Facts) -> str:
        return f"Write about {facts['title']}."

    _, asked = prompts(facts(output=Facts) >> Operator(write), "go", FACTS)
    assert asked[-1].endswith("## Instruction\nWrite about Moon.")
    assert "### Result of facts" in asked[-1]


def test_an_async_function_and_one_that_takes_the_job_write_it_too():
    async def write(job: Job) -> str:
        return f"Say {job.goal} twice."

    for instruction in (write, lambda job: f"Say {job.goal} twice."):
        assert prompts(Operator(instruction), "hi") == [["user: ## Job\nhi\n\n## Instruction\nSay hi twice."]]


def test_braces_in_the_text_of_a_function_are_text():
    assert prompts(Operator(lambda text: f"{{text}} is {text}"), {"text": "x"})[0][-1].endswith("{text} is x")


def test_a_function_gets_the_deps_of_the_run():
    def write(context: RunContext[dict]) -> str:
        return f"Serve {context.deps['customer']}."

    flow = Workflow(Operator(write, id="serve"))
    with ScriptedReasoner(["done"]) as reasoner:
        flow.run("go", reasoner, deps={"customer": "Ada"})
        assert reasoner.tasks[0].instruction == "Serve Ada."
        with pytest.raises(InputError, match="serve"):
            flow.run("go", reasoner)


def test_the_parameters_of_a_function_are_checked_when_the_workflow_is_built():
    def write(fcts) -> str:
        return "x"

    def count(written) -> int:
        return 1

    flow = [facts(), Operator("List doubts.", id="doubts")] >> Operator(write) >> [Operator(cast("Any", count))]
    assert [(code, where) for code, where, _ in issues(flow)] == [
        ("parameter", "write"),
        ("instruction", "count"),
    ]


def test_a_function_names_the_operator_and_its_docstring_describes_it():
    def write_letter(facts):
        """Write a letter.

        More.
        """
        return "x"

    made = Operator(write_letter)
    assert (made.get_id(), made.instruction) == ("write_letter", "Write a letter.")
    assert OperatorConfig(instruction=cast("Any", write_letter)) == made.config
    assert Operator(write_letter, id="mine").get_id() == "mine"


def test_a_function_writes_the_criteria_of_an_evaluator():
    def criteria(facts, write):
        return f"{write} rests on {facts}."

    flow = facts() >> Operator("Write.", id="write")
    *_, asked = prompts(flow, "go", "Moon", "text", ACCEPTED, evaluator=Evaluator(criteria))
    assert "Criteria:\ntext rests on Moon.\n\n" in asked[-1]


# Kept runs


def test_another_template_or_function_is_another_workflow():
    def one(job):
        return "x"

    def two(job):
        return "x"

    def described(instruction):
        return describe_workflow(Workflow(Operator(instruction, id="a")))

    assert changes(described("Say {a}."), described("Say {a}.")) == {}
    assert changes(described("Say {a}."), described("Say {b}.")) == {"a": ["has another instruction"]}
    assert changes(described(one), described(one)) == {}
    assert "has another written_by" in changes(described(one), described(two))["a"]


def test_a_cached_answer_is_not_used_for_other_values():
    flow = Workflow(Operator("Say {text}.", policy=Policy(cache=Cache())))
    with ScriptedModel([Say("one"), Say("two")]) as endpoint:
        assert [flow.run({"text": text}, endpoint.model).text for text in "aba"] == ["one", "two", "one"]
