"""The blame benchmark measures what its cases say: keys, evidence, replay and costs, without a model."""

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
from amounts import sample

from operad import WorkflowStatus

BENCHMARK = Path(__file__).parents[2] / "benchmark" / "blame"
sys.path.insert(0, str(BENCHMARK))
CASES, COSTS, FAMILIES = (import_module(name) for name in ("cases", "costs", "families"))
METRICS, PLAY, RECORDING = (import_module(name) for name in ("metrics", "play", "recording"))
sys.path.remove(str(BENCHMARK))

ALL = FAMILIES.cases_of()
EVERY_WAY = [
    "recipe-scale-1",
    "desk-branch-1",
    "suppliers-choose-1",
    "meters-sum-1",
    "newsletter-collect-1",
    "train-mail-1",
]
"""Cases with a chain, a router, tools, a map, a nested workflow and Chinese."""


def text_of(answer):
    return answer.text if isinstance(answer, CASES.Calls) else answer


def played(name, judge=None, method="blame"):
    return asyncio.run(PLAY.play(FAMILIES.case_of(name), judge or PLAY.key_answer, method))


def saying(status, *blame):
    """Return a judge that rejects round 1 with some blame, and answers by the key afterwards."""

    def judge(case, request, active, round):
        if round > 1:
            return PLAY.key_answer(case, request, active)
        verdict = json.loads(PLAY.key_answer(case, request, active))
        faults = [{"operator": each, "wrong": "a", "right": "b", "lesson": "c", "sure": True} for each in blame]
        said = {"status": status, "blame": list(blame), "lesson": "", "faults": faults}
        return json.dumps({**verdict, **{name: value for name, value in said.items() if name in verdict}})

    return judge


def test_there_are_at_least_150_cases_of_12_families_with_every_kind_of_fault():
    assert len(ALL) >= 150
    assert len({case.family for case in ALL}) >= 12
    assert {case.kind for case in ALL} == set(CASES.KINDS)
    assert len({case.name for case in ALL}) == len(ALL)


def said(case):
    """Return everything that operators and judge receive from a case, and the key."""
    job = (case.job.goal, case.job.context, case.job.inputs)
    return job, case.criteria, case.answers(case.active), case.faults, case.status


def test_a_name_gives_the_same_case_again():
    assert [said(FAMILIES.case_of(case.name)) for case in ALL] == [said(case) for case in ALL]


def test_a_case_is_the_same_in_every_process_and_version():
    [fault] = FAMILIES.case_of("recipe-scale-1").faults
    assert (fault.root, fault.wrong, fault.right) == ("scale", "= 2510 g", "420 g")


def test_another_seed_gives_another_job():
    cases = [case for case in FAMILIES.cases_of([11, 12]) if case.kind == "none"]
    jobs = {(case.job.goal, case.job.context, str(case.job.inputs)) for case in cases}
    assert len(jobs) == len(cases)


def test_a_name_without_a_case_is_refused():
    with pytest.raises(ValueError, match="recipe-flood-1"):
        FAMILIES.case_of("recipe-flood-1")


@pytest.mark.parametrize("family", FAMILIES.FAMILIES)
def test_the_wrong_value_of_a_fault_stands_where_the_key_says_and_vanishes_with_the_fault(family):
    for case in FAMILIES.cases_of([1, 2, 3, 4], [family]):
        answers = {place: text_of(answer) for place, answer in case.answers(case.active).items()}
        answers |= {message.operator_id: message.scratchpad for message in case.previous} | {"": case.job.context}
        for fault in case.faults:
            assert fault.wrong in answers[fault.root], case.name
            if fault.root in case.answers(frozenset()):
                right = text_of(case.answers(case.active - {fault.root})[fault.root])
                assert right != answers[fault.root], case.name
        right = text_of(case.answers(frozenset())[case.last])
        is_harmless = case.kind in ("vanished", "unnamed", "contradiction", "earlier") or not case.faults
        assert (answers[case.last] == right) is is_harmless, case.name


def test_the_long_document_has_6000_words():
    assert all(5_500 < len(case.job.context.split()) < 7_500 for case in FAMILIES.cases_of([1, 2], ["log"]))


@pytest.mark.parametrize("name", sample(EVERY_WAY, 3))
def test_a_request_of_the_judge_has_the_same_hash_in_every_run(name):
    first, second = (
        [RECORDING.hash_of(each.request) for each in played(name).asked if each.who == PLAY.JUDGE] for _ in range(2)
    )
    assert first == second
    assert len(first) >= 2


@pytest.mark.parametrize("name", EVERY_WAY)
def test_the_right_verdict_is_exact_and_mends_the_result(name):
    run = played(name)
    assert run.error == ""
    found = METRICS.judged(run)
    assert (found.exact.hits, found.mended.hits, found.accepted_faults.hits) == (1, 1, 0)


def test_blame_of_an_operator_after_the_root_is_neither_exact_nor_mends():
    found = METRICS.judged(played("recipe-scale-1", saying("EXECUTION_ERROR", "card")))
    assert found.exact == METRICS.Share(0, 1)
    assert (found.precision, found.recall) == (METRICS.Share(0, 1), METRICS.Share(0, 1))
    assert found.before_others == METRICS.Share(0, 1)
    assert found.mended == METRICS.Share(0, 1)


def test_an_operator_that_runs_again_without_being_told_of_its_fault_keeps_it():
    run = played("recipe-two-1", saying("EXECUTION_ERROR", "scale"))
    assert next(each.who for each in run.asked if each.round == 2 and each.who != PLAY.JUDGE) == "scale"
    found = METRICS.judged(run)
    assert (found.recall, found.mended) == (METRICS.Share(1, 2), METRICS.Share(0, 1))


def test_a_rejected_right_result_and_an_accepted_wrong_one_are_counted():
    rejected = METRICS.judged(played("recipe-none-1", saying("EXECUTION_ERROR", "card")))
    assert (rejected.false_rejections, rejected.accepted_faults) == (METRICS.Share(1, 1), METRICS.Share())
    accepted = METRICS.judged(played("recipe-scale-1", saying("SUCCESS")))
    assert (accepted.false_rejections, accepted.accepted_faults) == (METRICS.Share(), METRICS.Share(1, 1))


def asked(text, round=1):
    request = {"model": PLAY.JUDGE, "messages": [{"role": "user", "content": text}]}
    return PLAY.Asked(PLAY.JUDGE, round, request, "")


def test_evidence_is_the_share_of_values_that_the_judge_received_in_round_1():
    case = FAMILIES.case_of("recipe-scale-1")
    [fault] = case.faults
    wrong_alone = PLAY.Played(case, [asked(fault.wrong), asked(fault.right, round=2)], None, None, False)
    assert METRICS.hidden(wrong_alone) == [(fault, fault.right)]
    assert METRICS.evidence(wrong_alone) == METRICS.Share(1, 2)
    in_two_requests = PLAY.Played(case, [asked(fault.wrong), asked(fault.right)], None, None, False)
    assert METRICS.evidence(in_two_requests) == METRICS.Share(2, 2)


def test_a_case_without_a_recorded_verdict_is_open_and_a_recorded_one_is_replayed(tmp_path):
    recording = RECORDING.Recording()

    def replay(case, request, active, round):
        return recording.answer(case, request) if round == 1 else PLAY.key_answer(case, request, active)

    run = played("stock-value-1", replay)
    for _ in range(3):  # a verdict may take several requests
        run = played("stock-value-1", replay)
        if run.open is None:
            break
        assert run.verdict is None
        answer = PLAY.key_answer(run.case, run.open, run.case.active)
        recording.add(run.case, run.open, answer, "the key", "2026-01-01")
    assert run.open is None
    assert METRICS.judged(run).exact == METRICS.Share(1, 1)
    assert recording.stale() == []

    recording.write(tmp_path / "recorded.jsonl")
    again = RECORDING.Recording.read(tmp_path / "recorded.jsonl")
    assert again.by_hash == recording.by_hash
    assert [each.case for each in again.stale()] == ["stock-value-1"] * len(again.by_hash)
    assert again.answer(run.case, {"messages": [], "response_format": {}}) is None
    again.drop_stale(["stock-value-2"])
    assert again.by_hash == recording.by_hash
    again.drop_stale(["stock-value-1"])
    assert again.by_hash == {}


def test_a_prompt_file_has_the_conversation_and_not_the_key(tmp_path):
    run = played("desk-branch-1", lambda *_: None)
    assert RECORDING.write_prompts(tmp_path, [run.open, run.open]) == 1
    [file] = tmp_path.iterdir()
    text = file.read_text(encoding="utf-8")
    assert file.stem == RECORDING.hash_of(run.open)
    assert run.case.criteria in text
    assert '"properties"' in text
    assert not any(word in text for word in (run.case.name, run.case.kind, "branch-1"))


def request_of(*texts, **more):
    return {"messages": [{"role": "user", "content": text} for text in texts], **more}


def test_four_characters_are_a_token_and_a_chinese_character_is_07():
    assert COSTS.tokens("abcdefgh") == 2
    assert COSTS.tokens("番茄ab") == pytest.approx(1.9)


def test_a_beginning_of_at_least_1024_tokens_is_cached_at_a_tenth_of_the_price():
    long, short = "a" * 4 * 2_000, "a" * 4 * 500
    both = COSTS.cost_of([(request_of(long), "x" * 40), (request_of(long, "more"), "x" * 40)])
    prompt = COSTS.tokens(COSTS.prompt_of(request_of(long)))
    assert both.cached == pytest.approx(prompt)
    assert both.answer == 20
    assert both.price == pytest.approx(both.prompt - 0.9 * prompt + 4 * 20)
    assert COSTS.cost_of([(request_of(short), ""), (request_of(short, "more"), "")]).cached == 0
    assert COSTS.cost_of([(request_of(long), ""), (request_of("b" + long), "")]).cached == 0


def test_requests_with_other_tools_or_another_schema_share_no_beginning():
    long = "a" * 8_000
    schema = {"json_schema": {"schema": {"type": "object"}}}
    assert COSTS.cost_of([(request_of(long), ""), (request_of(long, response_format=schema), "")]).cached == 0


def test_an_accepted_run_is_compared_with_its_operators_alone():
    run = played("roster-none-1")
    found = METRICS.costs(run, None, None)
    judging = [each for each in run.asked if each.who == PLAY.JUDGE]
    assert found.unjudged.prompt == pytest.approx(
        found.blame.prompt - sum(COSTS.tokens(COSTS.prompt_of(each.request)) for each in judging)
    )


def test_other_methods_are_charged_with_the_same_judge_or_a_plain_one():
    runs = [played("suppliers-order-1", method=method) for method in ("blame", "all", "last")]
    found = METRICS.costs(*runs)
    judging = COSTS.cost_of([(each.request, each.answer) for each in runs[0].asked if each.who == PLAY.JUDGE])
    operators = COSTS.cost_of([(each.request, each.answer) for each in runs[1].asked])
    assert found.all_again.prompt == pytest.approx(operators.prompt + judging.prompt)
    assert found.all_again_plain.prompt < found.all_again.prompt
    assert found.last_only.tokens < found.all_again.tokens


def test_the_other_methods_end_right_and_everything_again_asks_every_operator_twice():
    again, last = (played("recipe-scale-1", method=method) for method in ("all", "last"))
    assert (again.is_right, last.is_right) == (True, True)
    assert [each.who for each in again.asked] == ["scale", "shop", "price", "card"] * 2
    assert [each.who for each in last.asked] == ["scale", "shop", "price", "card", "card"]


def test_the_statuses_of_keys_are_those_of_their_kinds():
    for case in ALL:
        if case.kind in ("none", "vanished", "unnamed"):
            assert case.status is WorkflowStatus.SUCCESS
            assert not case.roots
        elif case.kind in ("contradiction", "earlier"):
            assert case.status is WorkflowStatus.INPUT_DATA_ERROR
        else:
            assert case.status is WorkflowStatus.EXECUTION_ERROR
            assert case.roots
