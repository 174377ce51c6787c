"""Measure the effect of repair on recorded responses, without a model: raw, with the paper's four repairs (PAPER), with all
rules of Operad (FORMAT), and with those and rules that read the instructions (the folder aligned).

    python test/benchmark/bench_repair.py [--json] [--ablation] [RUN.json …]

Each column shows how many responses pass steps 1 to 4 of Chat2Workflow's Algorithm 1
(operad.integrations.chat2workflow.scores.judge), how many are sound, how many are both, and how many of the sound ones finish a dry
run. A response that passed before the repair and fails after it is broken. Only the judge reads the answer key. The exit
status is 1 if a response is broken, or, without named runs, if an aim is missed; stderr says which.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from aligned import align, read_contract

from operad.evaluators.dry_run import dry_run
from operad.flows.formats.chat2workflow import load
from operad.flows.repair import FORMAT, PAPER, Repaired, repair
from operad.integrations.chat2workflow.scores import (
    CaseFile,
    Dataset,
    PassVerdict,
    Record,
    Response,
    Subtask,
    judge,
    read_dataset,
    read_run,
)

AIMS: Mapping[str, Mapping[str, float]] = {
    "raw": {"passed": 0.447},
    "paper's four": {"passed": 0.523},
    "format": {"passed": 0.662, "sound": 0.829, "ended of the sound": 0.91},
    "aligned": {"passed": 0.768, "sound of the passed": 0.95, "ended of the sound": 0.98},
}
"""Minimum shares of the recorded responses of ../shared, in each column. No change may worsen the shares that pass; the last
two are aims that are not reached yet, and so the program fails."""

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared/data/chat2workflow"
Mend = Callable[[str, Sequence[str]], Repaired]
"""Function that repairs a response, with its instructions."""

COLUMNS: Mapping[str, Mend] = {
    "raw": lambda text, _: Repaired(text),
    "paper's four": lambda text, _: repair(text, PAPER),
    "format": lambda text, _: repair(text, FORMAT),
    "aligned": align,
}


class Said(NamedTuple):
    """Recorded response, with its model, run, task and round."""

    model: str
    run: str
    record: Record
    subtask: Subtask

    @property
    def label(self) -> str:
        """Return run, task and round as text."""
        return f"{self.run} {self.record.key}"


class Outcome(NamedTuple):
    """Result of a response in one column.

    Attributes:
        said: The recorded response.
        response: The response that was judged.
        rules: The rules that repaired something.
        verdict: The verdict of the judge.
        stopped: The error of its dry run; empty if it finished; None if it is not sound, and was not run.
    """

    said: Said
    response: Response
    rules: frozenset[str]
    verdict: PassVerdict
    stopped: str | None


async def column(found: Sequence[Said], mend: Mend, known: dict[str, str]) -> list[Outcome]:
    """Repair, judge and run every response.

    Args:
        found: The responses.
        mend: The repair.
        known: The results of dry runs so far, by response.
    """
    outcomes: list[Outcome] = []
    for each in found:
        response, used = mended(each, mend)
        verdict = judge(response, each.subtask)
        stopped = None
        if verdict.sound:
            key = f"{each.subtask.key} {response.text}"
            if key not in known:
                known[key] = await what_stops(response, each.subtask)
            stopped = known[key]
        outcomes.append(Outcome(each, response, used, verdict, stopped))
    return outcomes


def mended(said: Said, mend: Mend) -> tuple[Response, frozenset[str]]:
    """Return a response after repair, and the rules that repaired something."""
    response = said.record.response
    done = mend(response.text, said.subtask.instructions)
    return (Response.of(done.text) if done.repairs else response), frozenset(each.rule for each in done.repairs)


async def what_stops(response: Response, subtask: Subtask) -> str:
    """Return the error of a dry run with the inputs of the first test case; empty if it finishes."""
    case = {name: _named(value) for name, value in subtask.cases[0].inputs.items()}
    done = await dry_run(load(response.text), case)
    return done.skipped_reason or "; ".join(map(str, done.issues))


def _named(value: Any) -> Any:
    """Return a value of a test case; for files, their types."""
    if isinstance(value, tuple):
        return [_named(each) for each in value]
    return {"value": value.name} if isinstance(value, CaseFile) else value


def contracts(rounds: Iterable[tuple[Subtask, Sequence[str]]]) -> dict[str, int]:
    """Return the numbers of instructions whose inputs and whose outputs are read as in the answer key."""
    counts = Counter({"instructions": 0, "inputs": 0, "outputs": 0})
    for key, texts in rounds:
        read = read_contract(texts)
        counts["instructions"] += 1
        counts["inputs"] += set(read.input_names) == set(key.inputs)
        counts["outputs"] += {each.needed for each in read.outputs} == {frozenset(each) for each in key.outputs}
    return dict(counts)


def all_contracts(dataset: Dataset) -> dict[str, dict[str, int]]:
    """Return these numbers for the original instructions, and for the paraphrased ones."""
    again: Mapping[str, str] = json.loads((HERE / "paraphrased.json").read_text(encoding="utf-8"))
    every = dataset.subtasks
    kept = [(each, each.instructions) for each in every.values()]
    mixed = [
        (each, [again.get(f"{each.task}_{number}", text) for number, text in enumerate(each.instructions, 1)])
        for key, each in every.items()
        if key in again
    ]
    return {
        "original": contracts(kept),
        f"original, the same {len(mixed)}": contracts((each, texts) for each, texts in kept if each.key in again),
        "paraphrased": contracts(mixed),
    }


def ablation(full: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """Return for each rule that repaired something how many responses it repaired, and how many pass only with it."""
    result: dict[str, dict[str, int]] = {}
    for rule in sorted({name for each in full for name in each.rules}):
        touched = [each for each in full if rule in each.rules]
        without = (judge(mended(each.said, partial(align, without=rule))[0], each.said.subtask) for each in touched)
        lost = sum(each.verdict.passed and not after.passed for each, after in zip(touched, without, strict=True))
        result[rule] = {"mended": len(touched), "only": lost}
    return result


def figures(made: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """Return the numbers of responses, passed, sound, both, and finished, by model."""
    groups: dict[str, list[Outcome]] = {}
    for each in made:
        groups.setdefault(each.said.model, []).append(each)
    groups["all"] = list(made)
    return {
        name: {
            "responses": len(group),
            "passed": sum(each.verdict.passed for each in group),
            "sound": sum(each.verdict.sound for each in group),
            "both": sum(each.verdict.passed and each.verdict.sound for each in group),
            "ended": sum(each.stopped == "" for each in group),
        }
        for name, group in groups.items()
    }


def shares(made: Mapping[str, int]) -> dict[str, float]:
    """Return the shares of a column."""
    return {
        "passed": made["passed"] / max(made["responses"], 1),
        "sound": made["sound"] / max(made["responses"], 1),
        "sound of the passed": made["both"] / max(made["passed"], 1),
        "ended of the sound": made["ended"] / max(made["sound"], 1),
    }


def failures(result: Mapping[str, Any], aims: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield a line for each aim that is missed, and for each column with broken responses."""
    for column_name, least in aims.items():
        reached = shares(result["columns"][column_name]["all"])
        for name, aim in least.items():
            if reached[name] < aim:
                yield f"aim missed: {name}, {column_name}: {reached[name]:.2%}, and at least {aim:.1%} is the aim"
    for column_name, broken in result["broken"].items():
        if broken:
            yield f"broken by the repair, {column_name}: {', '.join(broken)}"


async def measured(found: Sequence[Said], dataset: Dataset, *, by_rule: bool) -> dict[str, Any]:
    """Return all figures."""
    known: dict[str, str] = {}
    columns = {name: await column(found, mend, known) for name, mend in COLUMNS.items()}
    raw, aligned = columns["raw"], columns["aligned"]
    by_model = {name: figures(made) for name, made in columns.items()}
    return {
        "responses": len(found),
        "columns": by_model,
        "broken": {
            name: [each.said.label for each, was in zip(made, raw, strict=True) if was.verdict.passed > each.verdict.passed]
            for name, made in columns.items()
        },
        "failing": {
            name: dict(sorted(Counter(str(each.verdict.fail_step) for each in made if not each.verdict.passed).items()))
            for name, made in columns.items()
        },
        "contracts": all_contracts(dataset),
        "passed and unsound": [
            {"response": each.said.label, "issues": [str(issue) for issue in each.verdict.issues]}
            for each in aligned
            if each.verdict.passed and not each.verdict.sound
        ],
        "sound and stopped": [{"response": each.said.label, "by": each.stopped} for each in aligned if each.stopped],
        "rules": ablation(aligned) if by_rule else {},
    }  # fmt: skip


def _table(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"{result['responses']} responses; of 100, how many pass, are sound, are both, and, of 100 sound ones, end\n"
    yield f"{'':14}" + "".join(f"{name:>28}" for name in result["columns"])
    yield f"{'':14}" + f"{'passed sound  both   ended':>28}" * len(result["columns"])
    models = [*(name for name in result["columns"]["raw"] if name != "all"), "all"]
    for model in models:
        row = f"{model:14}"
        for by_model in result["columns"].values():
            one = by_model[model]
            cells = [100 * one[key] / max(one["responses"], 1) for key in ("passed", "sound", "both")]
            ended = 100 * one["ended"] / max(one["sound"], 1)
            row += "    " + "".join(f"{each:6.1f}" for each in cells) + f"{ended:6.1f}"
        yield row
    yield ""
    for column_name, least in AIMS.items():
        reached = shares(result["columns"][column_name]["all"])
        yield from (f"{name}, {column_name}: {reached[name]:.1%} (aim {aim:.1%})" for name, aim in least.items())
    yield f"broken: { {name: len(each) for name, each in result['broken'].items()} }"
    for name, each in result["failing"].items():
        yield f"failing at step, {name}: {each}"
    for name, each in result["contracts"].items():
        yield f"contracts, {name}: {each['instructions']} instructions, as in the key: inputs {each['inputs']}, outputs {each['outputs']}"
    yield "\npassed, and not sound:"
    yield from (f"  {each['response']}: {'; '.join(each['issues'])}" for each in result["passed and unsound"])
    yield "\nsound, and stopped in a dry run:"
    yield from (f"  {each['response']}: {each['by']}" for each in result["sound and stopped"])
    for name, each in sorted(result["rules"].items(), key=lambda pair: -pair[1]["only"]):
        yield f"  {name:22} mended {each['mended']:4}   pass only with it {each['only']:4}"


def main() -> int:
    """Print the tables, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="recorded runs; default: those of ../shared")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the benchmark's dataset/")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--ablation", action="store_true", help="show for each rule how many responses only it repairs; takes a while"
    )
    options = parser.parse_args()
    runs = options.runs or sorted([*options.data.glob("may/*.json"), *options.data.glob("apr/*.json")])
    if not runs:
        print(f"no recorded runs: none is named, and none is at {options.data}", file=sys.stderr)
        return 0
    dataset = read_dataset(options.data / "dataset")
    read = [read_run(path, dataset) for path in runs]
    found = [Said(run.model, run.label, each, dataset.subtasks[each.key]) for run in read for each in run.records]
    result = asyncio.run(measured(found, dataset, by_rule=options.ablation))
    print(json.dumps(result, ensure_ascii=False, indent=1) if options.json else "\n".join(_table(result)))
    failed = list(failures(result, {} if options.runs else AIMS))
    print(*failed, sep="\n", end="\n" if failed else "", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
