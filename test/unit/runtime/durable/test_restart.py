"""From where on a run is done anew: which paths that concerns, and which of what is kept."""

import json

import pytest
from pydantic import BaseModel

from operad import load_workflow
from operad.operators.nodes.containers import Loop
from operad.runtime import (
    BuiltinWorkflow,
    InputError,
    Job,
    Map,
    OperatorError,
    PausedError,
    RunContext,
    Workflow,
    WorkflowMessage,
    WorkflowStatus,
    operator,
)
from operad.runtime.durable import Ledger
from operad.runtime.durable.description import (
    changes,
    descendants,
    describe_workflow,
    failed_beside,
    following,
    is_again,
    is_under,
    leaves,
    merged,
)
from operad.runtime.durable.restart import origin_text


class Op:
    """Says its name and how often it ran, here in this test."""

    def __init__(self, name, version=1, runs=None):
        self.name = name
        self.version = version
        self.runs = runs if runs is not None else []

    def get_id(self):
        return self.name

    def fingerprint(self):
        return {"type": "op", "version": self.version}

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        self.runs.append(self.name)
        return WorkflowMessage(scratchpad=self.name, outputs={"list": [1, 2, 3]} if self.name == "a" else {})


def workflow(edges, *, name="w", judges=(), **versions):
    """A workflow from edges such as "a b" for b after a."""
    made = BuiltinWorkflow(name=name)
    names = dict.fromkeys(each for edge in edges for each in edge.split())
    operators = {each: Op(each, versions.get(each, 1)) for each in names}
    for each in names:
        made.add_operator(
            operators[each], [operators[p] for p, child in map(str.split, _pairs(edges)) if child == each]
        )
    for judge in judges:
        made.add_evaluator(Op(judge, versions.get(judge, 1)))
    return made


def _pairs(edges):
    return [edge for edge in edges if " " in edge]


def nested():
    made = BuiltinWorkflow(name="w")
    a, z = Op("a"), Op("z")
    outer = workflow(["x y", "side"], name="outer", judges=["inner-judge"])
    each = Map("each", workflow(["check tell"], name="body"))
    made.add_operator(a)
    made.add_operator(outer, [a])
    made.add_operator(each, [a])
    made.add_operator(z, [each])
    made.add_evaluator(Op("judge"))
    return describe_workflow(made)


def paths(graph, operator):
    return sorted(descendants(merged(graph, graph), operator, graph))


@pytest.mark.parametrize(
    ("operator", "again"),
    [
        ("a", ["a", "each", "judge", "outer", "z"]),
        ("z", ["judge", "z"]),
        ("judge", ["judge"]),
        ("outer", ["judge", "outer"]),
        ("outer/x", ["judge", "outer/inner-judge", "outer/x", "outer/y"]),
        ("outer/side", ["judge", "outer/inner-judge", "outer/side"]),
        ("outer/inner-judge", ["judge", "outer/inner-judge"]),
        ("each/tell", ["each/tell", "judge", "z"]),
        ("each[2]", ["each[2]", "judge", "z"]),
        ("each[2]/check", ["each[2]/check", "each[2]/tell", "judge", "z"]),
    ],
)
def test_an_operator_is_done_anew_with_all_that_comes_after_it(operator, again):
    assert paths(nested(), operator) == again


def test_the_operators_that_follow_are_found_by_reading_each_edge_once():
    class Described(dict):
        """Description of an operator that counts how often its predecessors are read."""

        reads = 0

        def __getitem__(self, key):
            Described.reads += key == "after"
            return super().__getitem__(key)

    chain = {str(each): Described(after={str(each - 1): []} if each else {}) for each in range(300)}
    assert following(["0", "7"], chain) == [each for each in chain if each not in ("0", "7")]
    assert following(["298", "judge"], chain) == ["299"]
    assert Described.reads == 2 * len(chain)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("outr", r"no operator has the path 'outr' \(did you mean 'outer'\?\); there are: a, outer, each, z, judge"),
        ("outer/xx", r"no operator has the path 'outer/xx'"),
        ("a/x", "'a' has no addressable operators inside"),
        ("a[1]", r"no operator has the path 'a\[1\]'"),
        ("judge/x", "no operator has the path 'judge'"),
        ("", "no operator has the path ''"),
        ("each[2]/check/x", r"'each\[2\]/check' has no addressable operators inside"),
    ],
)
def test_an_operator_that_is_not_there_is_named(operator, message):
    with pytest.raises(InputError, match=message):
        paths(nested(), operator)


def test_signs_of_keys_in_ids_are_written_as_in_keys():
    graph = describe_workflow(workflow(["a%/b@c d[1]"]))
    assert paths(graph, "a%25%2Fb%40c") == ["a%/b@c", "d[1]"]
    again = descendants(graph, "a%25%2Fb%40c", graph)
    assert is_again("a%25%2Fb%40c", again, 1)
    assert is_again("d[1]", again, 1)
    assert not is_again("a%25", again, 1)


@pytest.mark.parametrize(
    ("key", "operator", "round", "is_it"),
    [
        ("z", "z", 1, True),
        ("a", "z", 1, False),
        ("z@2", "z", 1, True),
        ("a@2", "z", 1, True),  # a later round follows from all of this one
        ("z", "z", 2, False),
        ("a@2", "z", 2, False),
        ("judge@2", "z", 2, True),
        ("each[0]/check", "each", 1, True),
        ("each[2]/check", "each[2]/check", 1, True),
        ("each[1]/check", "each[2]/check", 1, False),
        ("each[12]/check", "each[2]/check", 1, False),
        ("each[2]/check", "each[2]/tell", 1, False),
        ("each[2]/tell", "each[2]", 1, True),
        ("each[1]/tell", "each[2]", 1, False),
        ("each[1]/check", "each/check", 1, True),
        ("each~2/check", "each/check", 1, True),
        ("outer/y", "outer/x", 1, True),
        ("outer/side", "outer/x", 1, False),
        ("outer/side@2", "outer/x", 1, True),  # so does one inside
        ("outer@2/side", "outer/x", 1, True),
        ("each[0]/check@2", "outer/x", 1, False),
        ("outer@2/side@2", "outer/x", 2, True),
    ],
)
def test_which_of_what_is_kept_is_done_anew(key, operator, round, is_it):
    graph = nested()
    assert is_again(key, descendants(merged(graph, graph), operator, graph), round) is is_it


def test_later_passes_of_a_loop_follow_from_one_and_other_items_of_a_map_do_not():
    loop = Loop("loop", {"loop_count": 4}, body=workflow(["x y"], name="body"))
    made = BuiltinWorkflow(name="w")
    made.add_operator(loop)
    graph = describe_workflow(made)
    again = descendants(merged(graph, graph), "loop[1]/y", graph)
    kept = [f"loop[{number}]/{name}" for number in (0, 1, 2, 10) for name in "xy"]
    assert [key for key in kept if not is_again(key, again, 1)] == ["loop[0]/x", "loop[0]/y", "loop[1]/x"]


@pytest.mark.parametrize(
    ("now", "operator", "stray"),
    [
        (workflow(["a b", "b c"], b=2), "b", []),
        (workflow(["a b", "b c"], b=2), "a", []),
        (workflow(["a b", "b c"], b=2), "c", ["b"]),
        (workflow(["a b", "b c", "b d"]), "b", []),  # d is new, after it
        (workflow(["a b", "b c", "d"]), "b", ["d"]),  # beside it
        (workflow(["a b"]), "b", []),  # c is gone, which came after it
        (workflow(["b c"]), "c", ["a", "b"]),  # a is gone, which came before it
        (workflow(["a b", "a c"]), "b", []),  # c came after it
        (workflow(["a b", "b c"], judges=["j"]), "c", []),
        (workflow(["a b", "b c"], judges=["j"]), "j", []),
    ],
)
def test_what_differs_is_taken_from_the_operator_on_and_refused_elsewhere(now, operator, stray):
    before, after = describe_workflow(workflow(["a b", "b c"])), describe_workflow(now)
    again = descendants(merged(before, after), operator, after)
    assert [path for path in changes(before, after) if not is_under(path, again)] == stray


def test_what_is_around_a_workflow_is_compared_too():
    def mapped(over):
        made = BuiltinWorkflow(name="w")
        made.add_operator(Map("each", workflow(["check"], name="body"), over=over))
        return describe_workflow(made)

    assert changes(mapped("one"), mapped("other")) == {"each": ["has another over"]}
    assert leaves(nested()) == 9


@pytest.mark.parametrize(
    ("key", "failed", "beside"),
    [
        ("a", "a", True),
        ("b", "a", True),
        ("b@2", "a@2", True),
        ("b", "a@2", False),
        ("each[0]/x", "each[2]/y", True),
        ("side", "each[2]/y", True),
        ("each[0]/x", "side", False),  # the map may have kept it as an item
        ("outer/x", "outer/x@2", False),
        ("outer~2/x", "outer~2/x", True),
    ],
)
def test_a_retry_does_what_failed_at_the_same_time_again_too(key, failed, beside):
    assert failed_beside(key, failed) is beside


# With a ledger


class Content(Op):
    """Judges, and is content from a round on."""

    def __init__(self, least):
        super().__init__("judge")
        self.least = least

    async def execute(self, *_, **__):
        self.runs.append(self.name)
        is_enough = len(self.runs) >= self.least
        return WorkflowMessage(status=WorkflowStatus.SUCCESS if is_enough else WorkflowStatus.EXECUTION_ERROR)


@pytest.fixture
def kept(tmp_path):
    """Runs a workflow whose runs are kept, again and again; what ran each time."""
    pytest.importorskip("sqlalchemy")
    from operad.runtime.durable import Ledger

    ledger = Ledger(tmp_path / "runs.sqlite")

    class Kept:
        def __init__(self):
            self.ledger = ledger

        def run(self, workflow, runs, run_id="one"):
            runs.clear()
            workflow.keep_in(ledger)
            workflow.execute(Job(goal=""), None, run_id=run_id)
            return sorted(runs)

        def keys(self, run_id="one"):
            return {row.key for row in ledger.steps.of_run(run_id)}

    yield Kept()
    ledger.close()


def mapping(runs, version=1):
    made = BuiltinWorkflow(name="w")
    a, side, z = Op("a", runs=runs), Op("side", runs=runs), Op("z", runs=runs)
    body = BuiltinWorkflow(name="body")
    check, tell = Op("check", runs=runs), Op("tell", version, runs=runs)
    body.add_operator(check)
    body.add_operator(tell, [check])
    each = Map("each", body)
    made.add_operator(a)
    made.add_operator(side, [a])
    made.add_operator(each, [a])
    made.add_operator(z, [each])
    return made


def test_an_item_is_done_anew_with_what_follows_from_it(kept):
    runs = []
    first = mapping(runs)
    assert len(kept.run(first, runs)) == 9
    assert kept.run(first, runs) == []
    copy = kept.ledger.restart_from("one", "each[1]/tell", first)
    assert kept.keys() - kept.keys(copy) == {"each[1]/tell", "z"}
    assert kept.run(first, runs, copy) == ["tell", "z"]
    changed = mapping(runs, version=2)
    with pytest.raises(InputError, match=r"each/tell has another version(.|\n)*--restart-from each/tell$"):
        kept.run(changed, runs)
    with pytest.raises(InputError, match="each/tell changed, too, but does not depend on 'z'"):
        kept.ledger.restart_from("one", "z", changed)
    assert runs == []
    third = kept.ledger.restart_from("one", "each/tell", changed)
    assert (copy, third) == ("one-2", "one-3")
    assert kept.run(changed, runs, third) == ["tell", "tell", "tell", "z"]


def test_a_restart_changes_nothing_of_the_run_itself(kept):
    runs = []
    first = mapping(runs)
    kept.run(first, runs)
    before = (kept.ledger.run("one"), kept.ledger.events("one"), kept.ledger.timeline("one"))
    copy = kept.ledger.restart_from("one", "each", mapping(runs))
    assert kept.ledger.run(copy).state == "running"
    kept.run(first, runs, copy)
    assert (kept.ledger.run("one"), kept.ledger.events("one"), kept.ledger.timeline("one")) == before
    assert kept.ledger.result(copy) == kept.ledger.result("one")
    assert kept.run(first, runs) == []
    kept.ledger.delete("one")
    assert kept.run(first, runs, copy) == []


def test_a_round_is_done_anew_and_those_before_it_are_not(kept):
    runs = []
    made = BuiltinWorkflow(max_rounds=3, name="w")
    a, b, judge = Op("a", runs=runs), Op("b", runs=runs), Content(3)
    made.add_operator(a)
    made.add_operator(b, [a])
    made.add_evaluator(judge)
    assert kept.run(made, runs) == ["a", "a", "a", "b", "b", "b"]
    with pytest.raises(InputError, match="'b' did not run in round 4; it ran in: 1, 2, 3"):
        kept.ledger.restart_from("one", "b", made, round=4)
    copy = kept.ledger.restart_from("one", "b", made, round=2)
    assert kept.keys() - kept.keys(copy) == {"a@3", "b@2", "b@3", "judge@2", "judge@3"}
    judge.runs.clear()
    judge.least = 1
    assert kept.run(made, runs, copy) == ["b"]
    assert judge.runs == ["judge"]
    assert kept.ledger.run(copy).state == "finished"


def test_a_copy_keeps_the_answers_of_operators_that_do_not_run_again_and_asks_the_others(kept):
    @operator
    async def first(job: Job, context: RunContext) -> str:
        return f"first {await context.ask('First?')}"

    @operator
    async def second(first: str, context: RunContext) -> str:
        return f"{first}, second {await context.ask('Second?')}"

    flow = BuiltinWorkflow(first >> second, durable=kept.ledger)
    with pytest.raises(PausedError):
        flow.run("", run_id="one")
    with pytest.raises(PausedError):
        flow.resume("one", "a")
    assert flow.resume("one", "b").text == "first a, second b"
    copy = kept.ledger.restart_from("one", "second", flow)
    with pytest.raises(PausedError):
        flow.run("", run_id=copy)
    assert flow.resume(copy, "c").text == "first a, second c"
    assert flow.run("", run_id="one").text == "first a, second b"


def test_a_retry_uses_the_answers_that_people_gave(kept):
    broken = [True]

    @operator
    async def publish(job: Job, context: RunContext) -> str:
        answer = await context.ask("Publish?")
        if broken:
            raise OSError("no network")
        return f"published: {answer}"

    flow = BuiltinWorkflow(publish, durable=kept.ledger)
    with pytest.raises(PausedError):
        flow.run("", run_id="one")
    with pytest.raises(OperatorError, match="no network"):
        flow.resume("one", "yes")
    broken.clear()
    kept.ledger.retry("one")
    assert flow.run("", run_id="one").text == "published: yes"


# Copies of runs with other outputs of operators, or other inputs of the job


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
