"""Release credits: reading, asking, writing and judging, and the whole expert."""

import json
from pathlib import Path

import pytest
from amounts import examples
from changelog import name_candidates
from credit_judge import CreditsEvaluator, credit_phrases, judge
from credit_operators import (
    EXAMPLES,
    Credit,
    CreditEntries,
    ReadRelease,
    WriteCredits,
    WrongCredit,
)
from hypothesis import given
from hypothesis import strategies as st

from operad.configs import load
from operad.operators import OperatorConfig
from operad.runtime import (
    Fault,
    FileDescriptor,
    InputError,
    Job,
    WorkflowMessage,
    WorkflowStatus,
    events,
)
from operad.runtime.graph.call import OperatorCall
from operad.runtime.reasoning.exchange import Rejection
from operad.runtime.testing import ScriptedReasoner

EXPERT = Path(__file__).parents[2] / "example" / "release_credits" / "release_credits.yaml"

NOBODY = ScriptedReasoner([])
"""A reasoner that must not be asked."""


def config(operator_id="op", instruction="Extract the credits."):
    return OperatorConfig(instruction=instruction, id=operator_id)


# Reading


async def read(job):
    return await ReadRelease(config("read")).execute(NOBODY, job)


NEWS = "Version 1.1\n\n* lib: Fix a leak. Reported by Ada Brook.\n* Cut size.\n\nVersion 1.0\n\n* Old.\n"


async def test_the_newest_release_is_read_from_a_file(tmp_path):
    (tmp_path / "NEWS").write_text(NEWS)
    message = await read(Job(goal="g", context="not this", files=(FileDescriptor.of(tmp_path / "NEWS"),)))
    assert message.scratchpad == "Version 1.1: 2 entries"
    assert message.outputs == {
        "release": "Version 1.1",
        "entries": ["lib: Fix a leak. Reported by Ada Brook.", "Cut size."],
    }


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ("", "the job's context: is empty; give a changelog, with --file or as the job's context"),
        (" \n", "the job's context: is empty; give a changelog, with --file or as the job's context"),
        ("Version 1.0\n\nFixes:\n", "the job's context: has no entries; a changelog lists the changes of each release"),
    ],
)
async def test_a_context_without_entries_is_an_error_that_says_what_to_give(context, problem):
    with pytest.raises(InputError) as caught:
        await read(Job(goal="g", context=context))
    assert str(caught.value) == problem


async def test_several_files_are_an_error_that_names_them(tmp_path):
    for name in ("NEWS", "CHANGES"):
        (tmp_path / name).write_text(NEWS)
    files = tuple(FileDescriptor.of(tmp_path / name) for name in ("NEWS", "CHANGES"))
    with pytest.raises(InputError, match=r"^give one changelog at a time; these are NEWS, CHANGES$"):
        await read(Job(goal="g", files=files))


# Asking

ADA = "lib: Fix the Blue Sky leak. Reported by Ada Brook."
TOM = "tool: New option. Patch from Tom Reed and Ines de Vries."
NONE = "Cut size, as the manual says."


def given_entries(*entries, **outputs):
    return WorkflowMessage(outputs={"release": "1.1", "entries": list(entries), **outputs}, operator_id="read")


def schema_of(task):
    return task.output_schema.schema["properties"]


def credit_all(task):
    """Credits every name that may be credited, for the first component offered."""
    fields = schema_of(task)
    names = {name: field["enum"][0] for name, field in fields["names"]["properties"].items()}
    return json.dumps({"component": fields["component"]["enum"][0], "names": names})


async def ask(reasoner, *messages, **arguments):
    return await CreditEntries(config("credit"), **arguments).execute(reasoner, Job(goal="g"), list(messages))


async def ask_again(reasoner, release, first, *wrong, **outputs):
    """Ask again after a verdict on the credits."""
    answer = WorkflowMessage(outputs={"credits": [credit.model_dump() for credit in first], "rejected": {}, **outputs})
    faults = tuple(Fault(operator="credit", wrong=each.model_dump_json()) for each in wrong)
    rejection = Rejection(answer=answer, faults=faults)
    return await CreditEntries(config("credit")).run(OperatorCall(reasoner, Job("g"), (release,), rejection=rejection))


def test_the_examples_shown_to_a_model_have_the_form_that_they_ask_for():
    for example in EXAMPLES:
        answer = json.loads(example.output)
        assert list(answer["names"]) == name_candidates(example.input)
        assert not list(judge(example.input, credit_of(answer)))


def credit_of(answer):
    persons = tuple(name for name, decision in answer["names"].items() if decision == "credited")
    return Credit(component=answer["component"], persons=persons)


async def test_of_a_long_entry_the_first_sentence_and_those_with_names_are_shown():
    with ScriptedReasoner(credit_all) as reasoner:
        await ask(reasoner, given_entries("lib: Fix. It took long. Reported by Ada Brook. All is well."))
    assert reasoner.tasks[0].job.goal == "lib: Fix. Reported by Ada Brook."


async def test_after_a_verdict_only_entries_at_fault_are_asked_again_each_with_its_own_lesson_and_the_later_verdict_on_a_name_holds():
    first = [Credit(component="lib", persons=("Blue Sky",)), Credit(component="x"), Credit(component="tool")]
    earlier = {"0": {"Blue Sky": "other"}, "1": {"Tom Reed": "other"}}
    with ScriptedReasoner(credit_all) as reasoner:
        message = await ask_again(
            reasoner,
            given_entries(ADA, NONE, TOM),
            first,
            WrongCredit(entry=0, text="'Blue Sky' is a thing", name="Blue Sky", rejected="credited"),
            WrongCredit(entry=0, text="'Ada Brook' is left out", name="Ada Brook", rejected="other"),
            rejected=earlier,
        )
    assert earlier == {"0": {"Blue Sky": "other"}, "1": {"Tom Reed": "other"}}
    [task] = reasoner.tasks
    assert (task.job.goal, task.lesson) == (ADA, "'Blue Sky' is a thing\n'Ada Brook' is left out")
    assert {n: f["enum"] for n, f in schema_of(task)["names"]["properties"].items()} == {
        "Blue Sky": ["other"],
        "Ada Brook": ["credited"],
    }
    assert message.outputs == {
        "credits": [
            {"component": "lib", "persons": ("Ada Brook",)},
            {"component": "x", "persons": ()},
            {"component": "tool", "persons": ()},
        ],
        "rejected": {"0": {"Blue Sky": "credited", "Ada Brook": "other"}, "1": {"Tom Reed": "other"}},
    }


# Writing


class Terse(ScriptedReasoner):
    """A reasoner that cannot write prose, and must not be asked to."""

    writes_prose = False


def credited(*credits, entries, **outputs):
    found = [Credit(component=component, persons=tuple(persons)).model_dump() for component, *persons in credits]
    return [
        WorkflowMessage(outputs={"credits": found, **outputs}, operator_id="credit"),
        given_entries(*entries),
    ]


async def write(reasoner, messages, instruction="Thank them."):
    return await WriteCredits(config("write", instruction)).execute(reasoner, Job(goal="g"), messages)


async def test_the_table_is_sorted_by_component_and_says_for_what():
    messages = credited(
        ("tool", "Tom Reed", "Ines de Vries"),
        ("x",),
        ("Lib", "Ada Brook"),
        ("tool", "Lena Moss"),
        entries=[TOM, NONE, "Lib: Fix a leak. Reported by Ada Brook.", "Mend the tool. Thanks to Lena Moss."],
        rejected={"0": {"Tom Reed": "other"}},
    )
    message = await write(Terse([]), messages)
    assert message.scratchpad == (
        "1.1\n\n"
        "| component | thanks to | for |\n"
        "|---|---|---|\n"
        "| Lib | Ada Brook | Fix a leak. |\n"
        "| tool | Tom Reed, Ines de Vries | New option. |\n"
        "| tool | Lena Moss | Mend the tool. |"
    )
    assert message.outputs == {
        "entries": messages[1].outputs["entries"],
        "credits": messages[0].outputs["credits"],
        "credited_by": "credit",
    }


@pytest.mark.parametrize(
    ("entry", "cell"),
    [
        (r"Let a|b be \n. By Ada Brook", r"Let a\|b be \\n."),
        ("x" * 90, "x" * 90),
        ("x" * 91, "x" * 89 + "…"),
        ("x" * 85 + "    yyyyy", "x" * 85 + "…"),
        ("|" * 91, r"\|" * 89 + "…"),
    ],
)
async def test_what_would_break_the_table_is_escaped_and_long_texts_are_cut(entry, cell):
    message = await write(Terse([]), credited(("c", "Ada Brook"), entries=[entry]))
    assert message.scratchpad.splitlines()[-1] == f"| c | Ada Brook | {cell} |"


async def test_a_reasoner_that_writes_prose_adds_a_sentence_per_component():
    messages = credited(
        ("tool", "Tom Reed"), ("lib", "Ada Brook"), ("tool", "Lena Moss"), entries=[TOM, ADA, "tool: Mend. By Lena Moss"]
    )  # fmt: skip
    with ScriptedReasoner(lambda task: f"Thanks\n  for {task.job.goal[11:]}!") as reasoner:
        message = await write(reasoner, messages)
    assert message.scratchpad.split("\n\n")[2] == "- **lib**: Thanks for lib!\n- **tool**: Thanks for tool!"
    assert [(task.instruction, task.job.goal, task.job.context) for task in reasoner.tasks] == [
        ("Thank them.", "Component: lib", "Ada Brook: Fix the Blue Sky leak."),
        ("Thank them.", "Component: tool", "Tom Reed: New option.\nLena Moss: Mend."),
    ]


# Judging

LEFT_OUT = "is left out, but stands"
RULES = {
    "no name in it": (ADA, ["Tom Reed", "Ada Brook"], "Tom Reed", "is no name in it", "credited"),
    "listed twice": (ADA, ["Ada Brook", "Ada Brook"], "Ada Brook", "is listed twice", None),
    "a group": (
        "lib: Fix for Copper Kettle Team. Reported by Ada Brook.", ["Copper Kettle Team", "Ada Brook"],
        "Copper Kettle Team", "is a group, a company or a bug", "credited",
    ),
    "a company": (
        "lib: Fix for Blue Sky GmbH. Reported by Ada Brook.", ["Blue Sky GmbH", "Ada Brook"],
        "Blue Sky GmbH", "is a group, a company or a bug", "credited",
    ),
    "an issue's number": (
        "lib: Fix Silver Fern #4. Reported by Ada Brook.", ["Silver Fern", "Ada Brook"],
        "Silver Fern", "has a number: an issue", "credited",
    ),
    "after the": (ADA, ["Blue Sky", "Ada Brook"], "Blue Sky", "stands after 'the': a thing or a place", "credited"),
    "after at": (
        "lib: Fix. Thanks to Ada Brook at Amber Gate.", ["Ada Brook", "Amber Gate"],
        "Amber Gate", "stands after 'at': a thing or a place", "credited",
    ),
    "in quotes": (
        'lib: Say "Blue Sky" again. Thanks to Ada Brook.', ["Blue Sky", "Ada Brook"],
        "Blue Sky", "stands in quotes", "credited",
    ),
    "in brackets after a name": (
        "lib: Fix. Thanks to Ada Brook (Amber Gate).", ["Ada Brook", "Amber Gate"],
        "Amber Gate", "stands in brackets after a name: where that person works", "credited",
    ),
    "nowhere near a credit": (
        "lib: Accept what Blue Sky writes. Thanks to Ada Brook.", ["Blue Sky", "Ada Brook"],
        "Blue Sky", "stands nowhere near a credit, while 'Ada Brook' does", "credited",
    ),
    "nothing credits": (
        "lib: Accept what Blue Sky writes.", ["Blue Sky"], "Blue Sky", "is not credited by anything in it", "credited",
    ),
    "left out after words of credit": (ADA, [], "Ada Brook", f"{LEFT_OUT} after 'Reported by'", "other"),
    "left out of an enumeration": (
        "lib: Fix. Reported by Ada Brook and Tom Reed.", ["Ada Brook"],
        "Tom Reed", f"{LEFT_OUT} after 'Reported by'", "other",
    ),
    "left out in the midst of an enumeration": (
        "lib: Fix. Thanks to Ada Brook <a@b.example>, Tom Reed, and Lena Moss.", ["Ada Brook", "Lena Moss"],
        "Tom Reed", f"{LEFT_OUT} after 'Thanks to'", "other",
    ),
    "left out though an owner": ("lib: Ada Brook's patch makes it fast.", [], "Ada Brook", f"{LEFT_OUT} before 'patch'", "other"),
    "left out of the last bracket": (
        "lib: Fix. [Ada Brook, Tom Reed]", ["Ada Brook"], "Tom Reed", f"{LEFT_OUT} in a bracket of names", "other",
    ),
    "left out of one of several brackets": (
        "lib: Fix (Ada Brook) and mend (Tom Reed) it.", ["Ada Brook"],
        "Tom Reed", f"{LEFT_OUT} in a bracket, as others do", "other",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_what_the_text_contradicts_is_found_and_nothing_else(rule):
    entry, persons, name, why, rejected = RULES[rule]
    [fault] = judge(entry, Credit(component=entry.split(":")[0], persons=tuple(persons)))
    assert (fault.text, fault.name, fault.rejected) == (f"{name!r} {why}", name, rejected)


def test_a_component_that_does_not_occur_in_its_entry_is_a_fault():
    [fault] = judge(ADA, Credit(component="libx", persons=("Ada Brook",)))
    assert (fault.text, fault.name, fault.rejected) == ("'libx' does not occur in it", "", None)


@pytest.mark.parametrize(
    ("entry", "persons"),
    [
        (ADA, ["Ada Brook"]),
        (TOM, ["Tom Reed", "Ines de Vries"]),
        (NONE, []),
        ("lib: Fix. Ada Brook found it.", ["Ada Brook"]),
        ("lib: Fix. Ada Brook, Tom Reed.", ["Ada Brook", "Tom Reed"]),
        ("lib: Fix (Ada Brook).", ["Ada Brook"]),
        ("lib: Suggested by Blue Sky Foundation.", []),
        ("lib: Fix. Reported by Ada Brook, Tom Reed.", ["Ada Brook"]),
        ("lib: Fix. [Ada Brook, see the manual]", []),
    ],
)
def test_what_the_text_allows_is_no_fault(entry, persons):
    assert list(judge(entry, Credit(component=entry.split(":")[0].split()[0], persons=tuple(persons)))) == []


@examples(30, 100)
@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(["Ada Brook", "Tom Reed", "by", "and", ",", "(", ")", "[", "]", "'s patch", "the", ".", "#1", '"']))
        .map(" ".join),
    )
)  # fmt: skip
def test_any_entry_can_be_judged_and_what_is_credited_beyond_doubt_is_never_rejected(entry):
    certain = credit_phrases(entry)
    assert set(certain) <= set(name_candidates(entry))
    faults = list(judge(entry, Credit(component="", persons=tuple(name_candidates(entry)))))
    assert not {fault.name for fault in faults if fault.rejected == "credited"} & set(certain)
    assert all(fault.rejected == "credited" for fault in faults)


async def verdict_on(*credits, entries, **outputs):
    found = [Credit(component=component, persons=tuple(persons)).model_dump() for component, *persons in credits]
    table = WorkflowMessage(
        outputs={"entries": entries, "credits": found, "credited_by": "credit", **outputs}, operator_id="write"
    )
    return await CreditsEvaluator(config("judge")).execute(NOBODY, Job(goal="g"), [table])


async def test_a_verdict_names_entries_in_words_and_data_and_blames_whom_the_credits_came_from():
    verdict = await verdict_on(("Cut",), ("lib", "Blue Sky"), ("tool", "Tom Reed"), entries=[NONE, ADA, TOM])
    assert (verdict.status, verdict.evaluation) == (WorkflowStatus.EXECUTION_ERROR, "2 of 3 entries are at fault")
    assert verdict.lesson.splitlines() == [
        "Entry 2: 'Blue Sky' stands after 'the': a thing or a place.",
        "Entry 2: 'Ada Brook' is left out, but stands after 'Reported by'.",
        "Entry 3: 'Ines de Vries' is left out, but stands after 'Patch from'.",
    ]
    assert (verdict.blame, verdict.score) == (("credit",), 1 - 2 / 3)
    assert [json.loads(fault.wrong) for fault in verdict.faults] == [
        {"entry": number, "text": text, "name": name, "rejected": rejected}
        for number, text, name, rejected in (
            (1, "'Blue Sky' stands after 'the': a thing or a place", "Blue Sky", "credited"),
            (1, "'Ada Brook' is left out, but stands after 'Reported by'", "Ada Brook", "other"),
            (2, "'Ines de Vries' is left out, but stands after 'Patch from'", "Ines de Vries", "other"),
        )
    ]


# All together

CHANGES = f"Version 1.1\n\n* {ADA}\n* {NONE}\n* {TOM}\n"
TABLE = (
    "Version 1.1\n\n| component | thanks to | for |\n|---|---|---|\n"
    "| lib | Ada Brook | Fix the Blue Sky leak. |\n| tool | Tom Reed, Ines de Vries | New option. |"
)


async def test_the_expert_asks_again_about_the_one_entry_that_it_got_wrong():
    workflow = load(EXPERT, trust=True).expert().workflow
    reasoner = Terse(credit_all)  # credits Blue Sky, too, until that is not offered
    heard = [event async for event in workflow.stream(Job(goal="Thank.", context=CHANGES), reasoner)]
    finished = heard[-1]
    assert isinstance(finished, events.RunFinished)
    assert (finished.message.scratchpad, finished.message.status) == (TABLE, WorkflowStatus.SUCCESS)
    assert finished.rounds == 2
    assert [task.job.goal for task in reasoner.tasks] == [ADA, TOM, ADA]
    assert reasoner.tasks[2].lesson == "'Blue Sky' stands after 'the': a thing or a place"
    assert [event.operators for event in heard if isinstance(event, events.RoundStarted)] == [
        ("read", "credit", "write"),
        ("credit", "write"),
    ]
    assert [event.blame for event in heard if isinstance(event, events.RoundFinished)] == [("credit",), ()]


async def test_a_model_that_errs_anew_each_round_does_not_return_to_what_was_rejected():
    entry = "lib: Fix the Blue Sky leak at Amber Gate. Reported by Ada Brook."
    errs = iter(["Blue Sky", "Amber Gate", "Blue Sky"])

    def answer(task):
        wrong = next(errs)
        offered = {name: field["enum"] for name, field in schema_of(task)["names"]["properties"].items()}
        names = {
            name: "credited" if name in (wrong, "Ada Brook") and "credited" in offered[name] else "other"
            for name in offered
        }
        return json.dumps({"component": "lib", "names": names})

    workflow = load(EXPERT, trust=True).expert().workflow
    reasoner = Terse(answer)
    message = await workflow.aexecute(Job(goal="Thank.", context=f"1.0\n\n* {entry}\n"), reasoner)
    assert len(reasoner.tasks) == 3
    assert (message.status, message.outputs["credits"]) == (
        WorkflowStatus.SUCCESS,
        [{"component": "lib", "persons": ("Ada Brook",)}],
    )
