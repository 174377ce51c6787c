import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from amounts import amount
from typer.testing import CliRunner

from operad import Fault
from operad.cli.main import app
from operad.runtime import events
from operad.runtime.events.events_file import EventsFile, line_of
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Usage, WorkflowMessage, WorkflowStatus
from operad.server.view.markdown import markdown
from operad.server.view.page import page, report


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmark")
    return import_module("sample_runs")


@pytest.fixture
def written(tmp_path):
    """A file of these events."""

    def written(happened):
        path = tmp_path / "run.jsonl"
        path.write_text("".join(map(line_of, happened)), encoding="utf-8")
        return path

    return written


def told(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


# The command


def test_a_page_is_written_and_written_again(runs, written, tmp_path):
    path, out = written(runs.failing()), tmp_path / "run.html"
    for _ in range(2):
        result = told(path, "-o", out)
        assert (result.exit_code, result.output) == (0, "")
    assert out.read_text(encoding="utf-8") == report(Trace.of(EventsFile(path).events()))


def test_without_a_name_markdown_goes_to_stdout(runs, written, tmp_path):
    path = written(runs.failing())
    assert told(path).stdout == markdown(Trace.of(EventsFile(path).events()))
    told(path, "-o", tmp_path / "run.md")
    assert (tmp_path / "run.md").read_text(encoding="utf-8") == told(path).stdout


def test_a_file_that_was_cut_off_is_told_of_as_far_as_it_goes(runs, written):
    path = written(runs.failing())
    path.write_bytes(path.read_bytes()[:-30])
    result = told(path)
    assert result.exit_code == 0
    assert result.stderr == f"operad: {path}: the file ends before the run does\n"
    assert result.stdout.startswith("## `accounts`: unfinished")


def test_events_of_another_version_are_left_out(runs, written):
    path = written(runs.failing())
    path.write_text('{"event": "Unheard"}\n' + path.read_text())
    assert told(path).stderr == f"operad: {path}: 1 event of a type that is not known here, left out\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        ("", "contains no run"),
        ('{"event": "Progress", "done": 1, "total": 2}\n', "contains no run"),
        ("PK\x03\x04\n", "line 1 is not an event"),
        ('{"name": "a workflow"}\n', "it has no field 'event'"),
        ('{"event": "RunStarted"}\n', "line 1 is not an event"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line(tmp_path, content, says):
    path = tmp_path / "run.jsonl"
    if content is not None:
        path.write_text(content)
    error = told(path, "-o", tmp_path / "run.html").exception
    assert isinstance(error, InputError)
    assert says in str(error)
    assert "\n" not in str(error)
    assert not (tmp_path / "run.html").exists()


def test_a_name_says_what_is_written(runs, written, tmp_path):
    error = told(written(runs.failing()), "-o", tmp_path / "run.pdf").exception
    assert "ends with .html or .md" in str(error)


# The page as a text


def test_nothing_that_a_run_says_ends_what_it_stands_in(runs):
    text = report(Trace.of(runs.hostile()))
    assert len(re.findall("</script", text)) == len(re.findall("<script", text)) == 3
    assert "<img" not in text
    assert "\u2028" not in text


def test_numbers_that_json_lacks_are_null_in_the_page(runs):
    trace = Trace.of(runs.brief())
    trace.spans[0].details["message"] = {"outputs": {"share": float("nan"), "most": float("inf"), "half": "\ud800"}}
    held = report(trace).split('id="details-data">')[1].split("</script>")[0]
    assert json.loads(held)["0"]["message"]["outputs"] == {"share": None, "most": None, "half": "\ud800"}


def test_the_policy_lets_nothing_in_but_the_page_itself():
    live, kept = page("a run"), report(Trace())
    assert "default-src 'none'" in live
    assert "connect-src 'self'" in live
    assert "connect-src 'none'" in kept
    for text in (live, kept):
        [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        assert "unsafe" not in policy
        assert "http" not in policy
        assert not re.search(r"(src|href)=\"(?!data:)", text)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


# Markdown


def test_markdown_tells_state_totals_rounds_and_graph(runs):
    text = markdown(Trace.of(runs.brief()))
    assert text.startswith("## `market brief`: done\n")
    assert "2 rounds · 20 model calls" in text
    assert "| `write` | done | 2 | " in text
    assert "| `complaint desk` | skipped |" in text
    assert "**Round 1**: rejected (execution error), score 4 · " in text
    assert "findings:\n\n```text\nat fault: write\n```" in text
    assert (
        "changed:\n\n```text\nwrite:\n- The market for heat pumps grew.\n+ The market for heat pumps grew by 12%"
        in text
    )
    assert re.search(r"\*\*Round 2\*\*: accepted.* · [\d,]+ → \d+ tokens, cost 0\.\d+ USD", text)
    assert "Give each sentence its figure" in text
    [searched] = re.findall(r'^  (n\d+)\["search the web"\]$', text, flags=re.MULTILINE)
    [done] = re.findall(r"^  class (\S+) done$", text, flags=re.MULTILINE)
    assert searched in done.split(",")
    rows = dict(re.findall(r"^\| `(.+?)` \|.*\| (◆?) ?\|$", text, flags=re.MULTILINE))
    assert rows["approve"] == "◆"
    assert rows["chart"] == ""


def test_markdown_has_the_faults_what_was_kept_and_what_changed_in_a_blamed_item():
    fault = Fault(operator="sums", item=1, wrong="```174`.30", right="149.40", lesson="Six.", sure=False)
    at = {"path": ("sums",), "operator_id": "sums"}

    def ran(round, *texts):
        message = WorkflowMessage(
            scratchpad="\n".join(texts), parts=tuple(WorkflowMessage(scratchpad=text) for text in texts)
        )
        return events.OperatorFinished(round=round, seconds=1.0, message=message, **at)

    text = markdown(
        Trace.of(
            [
                events.RunStarted(workflow="w", goal="g", operators={"sums": (), "end": ("sums",)}),
                events.RoundStarted(round=1, operators=("sums", "end")),
                events.OperatorStarted(round=1, **at),
                ran(1, "20", "174.30"),
                events.RoundFinished(
                    round=1, status=WorkflowStatus.EXECUTION_ERROR, evaluation="Wrong.", lesson="Six.", faults=(fault,),
                    blame=("sums[1]",), unsure=("The rate.",), repairs={"facts": "no operator was blamed"},
                ),
                events.RoundStarted(round=2, operators=("sums", "end")),
                events.OperatorStarted(round=2, **at),
                ran(2, "20", "149.40"),
                events.OperatorKept(round=2, path=("sums[0]",), operator_id="sums"),
                events.OperatorKept(round=2, path=("end",), operator_id="end"),
                events.RoundFinished(round=2, status=WorkflowStatus.SUCCESS, evaluation="", lesson="", blame=()),
            ]
        )
    )  # fmt: skip
    findings = "\n".join(
        (
            "suspected: sums[1]",
            "  wrong: ```174`.30",
            "  right: 149.40",
            "  lesson: Six.",
            "not verified: The rate.",
            "runs again, too, because no operator was blamed: facts",
        )
    )
    assert f"findings:\n\n````text\n{findings}\n````\n" in text
    assert "**Round 2**: accepted · kept, as the input did not change: `end`" in text
    assert "changed:\n\n```text\nsums[1]:\n- 174.30\n+ 149.40\n```" in text


def test_markdown_tells_of_errors_where_they_began(runs):
    text = markdown(Trace.of(runs.failing()))
    assert "### Errors\n\n`check entries`:\n\n```text\nledger.json: line 3 is not an entry:\n  it is cut off" in text
    assert "| `report` | did not run |" in text
    assert "n2 --> n3" in text


def test_in_markdown_what_was_said_stands_in_code_alone(runs):
    text = markdown(Trace.of(runs.hostile()))
    without_blocks = re.sub(r"^(`{3,})(text|mermaid)\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    left = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", without_blocks)
    assert not re.search(r"[<>@\[\]]|script|http|example|\u202e", left)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert {line.count("|") for line in rows} == {8}


def test_markdown_is_of_a_bounded_length(runs):
    happened = runs.large(300)
    text = markdown(Trace.of(happened))
    assert "… and 200 more operators." in text
    assert "mermaid" not in text
    long = "x" * amount(10**5, 10**6) + "`" * 5000
    trace = Trace()
    trace.apply(events.RunStarted(workflow=long, goal=long, operators={f"{number}{long}": () for number in range(150)}))
    for number in range(50):
        trace.apply(events.RoundStarted(round=number, operators=()))
        trace.apply(events.OperatorStarted(path=(f"{number}{long}",), operator_id=f"{number}{long}", round=number))
        trace.apply(
            events.OperatorFailed(path=(f"{number}{long}",), operator_id="", seconds=1, usage=Usage(), error=long)
        )
        trace.apply(
            events.RoundFinished(
                round=number, status=WorkflowStatus.EXECUTION_ERROR, evaluation=long, lesson=long, blame=(long,) * 99
            )
        )
    assert len(markdown(trace)) < 60_000


def test_a_cost_that_is_not_known_is_no_zero():

    def run(cost, **more):
        usage = Usage(calls=1, prompt_tokens=10, completion_tokens=5, cost=cost, **more)
        return Trace.of([
            events.RunStarted(workflow="w", goal="", operators={"a": ()}),
            events.RunFinished(message=WorkflowMessage(usage=usage), seconds=1, rounds=1),
        ])  # fmt: skip

    assert "cost unknown" in markdown(run(0, unpriced=1))
    assert "cost 0.5" in markdown(run(0.5))
