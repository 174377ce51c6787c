"""How many recorded responses pass, before and after repair, without a model: raw, with the paper's four repairs, with all
that need no instruction, and aligned to what the instruction states; how many of these are sound, and what each rule adds.

    python test/benchmark/bench_repair.py [--json] [--ablation] [RUN.json …]

Passing is steps 1 to 4 of Chat2Workflow's Algorithm 1. Step 2, the conversion to a platform's file, is judged by what
the recorded verdicts show that it cannot convert; the first lines say how far this agrees with them. The answer key
is read here, by the judge, and by nothing that repairs. Exit status 1 where a response that passed does no longer, or
fewer pass aligned than AIM.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from operad.operators.check import Checker, lookup
from operad.operators.formats.chat2workflow import issues_of, load
from operad.operators.node_graph import NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.repair import ALIGNED, FORMAT, PAPER, read_contract, repair
from operad.operators.repair.shape import known_type
from operad.runtime.errors import InvalidError

AIM = 0.72
HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared/data/chat2workflow"
COLUMNS: Mapping[str, Collection[str] | None] = {
    "raw": None,
    "paper's four": PAPER,
    "format": FORMAT,
    "aligned": ALIGNED,
}
_SELECTION = re.compile(r"<node_selection>(.*?)</node_selection>", re.DOTALL)


class Record(NamedTuple):
    """A recorded response.

    Attributes:
        model: Who wrote it.
        task: Which task it answers, and in which round.
        response: The response, put together again.
        failed: The step that the recorded judge refused it at; 0 where it passed.
        rounds: The instructions so far.
        key: The answer key.
    """

    model: str
    task: str
    response: str
    failed: int
    rounds: Sequence[str]
    key: Mapping[str, Any]


def response_of(record: Mapping[str, Any]) -> str:
    """A recorded response with its tags, as far as it had them."""
    tags = ("node_selection", "design_principle", "workflow")
    return "\n".join(f"<{tag}>\n{record[tag]}\n</{tag}>" for tag in tags if record.get(tag) is not None)


def rounds_of(query: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The instructions of each task."""
    return {
        each["task"]: [each[f"query{number}"] for number in range(1, 20) if f"query{number}" in each] for each in query
    }


def records(paths: Sequence[Path], data: Path) -> Iterable[Record]:
    """All responses of recorded runs."""
    keys = json.loads((data / "dataset/check_pass_stage.json").read_text(encoding="utf-8"))
    rounds = rounds_of(json.loads((data / "dataset/query.json").read_text(encoding="utf-8")))
    for path in paths:
        for each in json.loads(path.read_text(encoding="utf-8")):
            task, number = each["task"], int(each["round"])
            step = str(each.get("fail_step") or "0")[-1]
            key = keys[f"{task}_{number}"]
            yield Record(path.stem, f"{task} {number}", response_of(each), int(step), rounds[task][:number], key)


def judge(response: str, key: Mapping[str, Any]) -> int:
    """The step that a response fails at; 0 where it passes all four."""
    tags = re.findall(r"<(node_selection|design_principle|workflow)>", response)
    if len(set(tags)) < 3:
        return 1
    inner = re.search(r"<workflow>(.*?)</workflow>", response, re.DOTALL)
    try:
        json.loads(inner[1] if inner else "")
    except (ValueError, RecursionError):
        return 1
    try:
        graph = load(response)
    except InvalidError:
        return 2
    if not converts(graph):
        return 2
    outputs = key["output_var"] if isinstance(key["output_var"][0], list) else [key["output_var"]]
    names = [_names(node.params, "outputs") for node in graph.nodes if node.type == "end"]
    given = [_names(node.params, "variables") for node in graph.nodes if node.type == "start"]
    if given != [frozenset(key["input_var"])] or set(names) != {frozenset(each) for each in outputs}:
        return 3
    return 0 if _nodes_agree(response, graph, key["related_nodes"]) else 4


def _nodes_agree(response: str, graph: NodeGraph, wanted: Iterable[str]) -> bool:
    found = _SELECTION.search(response)
    said = re.split(r"[,;\n]", re.sub(r"\([^()]*\)", "", found[1])) if found else []
    selected = {known_type(each.strip(" \t*.`'\"-")) or each.strip().lower() for each in said if each.strip(" \t*.-")}
    return set(wanted) <= selected and selected == {node.type for node in graph.nodes}


def _names(params: Any, key: str) -> frozenset[str]:
    listed = params.get(key, []) if isinstance(params, Mapping) else []
    return frozenset(str(each[0]) for each in listed if isinstance(each, list) and each)


TEXTS = ("user", "system", "md_text", "text", "prompt", "mermaid_code", "data", "chart_title", "x_axisORcategories", "instruction")  # fmt: skip
"""Parameters that the recorded program copied without a look at what they name."""

FATAL = ("unknown-type", "missing-param", "undefined-node", "dangling-edge", "isolated", "outside-body", "no-nodes", "duplicate-id")  # fmt: skip


def converts(graph: NodeGraph) -> bool:
    """Whether the recorded program would have made a platform's file of it: as the verdicts show, it looks up the types of
    variables that selectors name, in the order of the list, and reads no texts."""
    checker = Checker(graph, NODE_TYPES)
    in_text = re.compile(rf"({'|'.join(TEXTS)}):")
    if any(issue.code in FATAL and not in_text.match(issue.message) for issue in checker.issues):
        return False
    if any(node.id not in checker.nodes and not _is_literal_only(node) for node in graph.nodes):
        return False
    seen: set[str] = set()
    for node in graph.nodes:
        if node.id in checker.nodes and not (_finds_all(node, checker, seen) and _has_ports(node, checker)):
            return False
        seen.add(node.id)
    return any(node.type == "start" for node in graph.nodes)


def _finds_all(node: NodeSpec, checker: Checker, seen: set[str]) -> bool:
    """Whether every variable that the selectors of a node name is there by then."""
    for each in checker.nodes[node.id].references:
        if each.where.split("[")[0] in TEXTS:
            continue
        holder = checker.graph.by_id.get(each.selector.node)
        if holder is None or (holder.id not in seen and holder.id != node.parent):
            return False
        outputs = checker.inner if holder.id == node.parent else checker.outputs
        missing = lookup(outputs.get(holder.id, {}), each.selector.variable) is None
        if missing and holder.type in ("start", "code", "iteration-start", "end") and node.type != "end":
            return False
    return True


def _has_ports(node: NodeSpec, checker: Checker) -> bool:
    ports = checker.nodes[node.id].ports
    return not ports or all(0 <= edge.port < len(ports) for edge in checker.graph.edges if edge.source == node.id)


def _is_literal_only(node: NodeSpec) -> bool:
    """Whether only a word that is none of the declared ones is wrong with it, as in a chart's type."""
    return (
        node.type == "echarts"
        and isinstance(node.params, Mapping)
        and all(isinstance(each, str) for each in node.params.values())
    )


def is_sound(response: str) -> bool:
    """Whether the full static check finds nothing in it."""
    try:
        return not issues_of(load(response), NODE_TYPES)
    except InvalidError:
        return False


class Outcome(NamedTuple):
    """What came of one response in one column."""

    record: Record
    failed: int
    sound: bool
    text: str
    rules: frozenset[str]


def column(found: Sequence[Record], rules: Collection[str] | None) -> list[Outcome]:
    """Every response repaired with some rules, and judged."""
    outcomes: list[Outcome] = []
    for each in found:
        made = None if rules is None else repair(each.response, each.rounds, rules)
        text = each.response if made is None else made.text
        used = frozenset(one.rule for one in made.repairs) if made else frozenset[str]()
        outcomes.append(Outcome(each, judge(text, each.key), is_sound(text), text, used))
    return outcomes


def contracts(
    found: Mapping[str, Sequence[str]], keys: Mapping[str, Any], only: Collection[str] = ()
) -> tuple[int, int, int]:
    """Of instructions, how many there are, of how many the inputs that are read are those of the answer key, and the outputs."""
    count = inputs = outputs = 0
    for task, rounds in found.items():
        for number in range(1, len(rounds) + 1):
            if only and f"{task}_{number}" not in only:
                continue
            key = keys[f"{task}_{number}"]
            wanted = key["output_var"] if isinstance(key["output_var"][0], list) else [key["output_var"]]
            read = read_contract(rounds[:number])
            count += 1
            inputs += set(read.input_names) == set(key["input_var"])
            outputs += {each.needed for each in read.outputs} == {frozenset(each) for each in wanted}
    return count, inputs, outputs


def ablation(found: Sequence[Record], full: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """For each rule that mended something: how many responses it mended, and how many pass only with it."""
    result: dict[str, tuple[int, int]] = {}
    for rule in sorted({name for each in full for name in each.rules}):
        mended = [each for each in full if rule in each.rules]
        without = column([each.record for each in mended], ALIGNED - {rule})
        lost = sum(not before.failed and bool(after.failed) for before, after in zip(mended, without, strict=True))
        result[rule] = (len(mended), lost)
    return result


def share(count: int, of: int) -> str:
    return f"{100 * count / max(of, 1):5.1f}"


def main() -> int:
    """Print the tables, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="recorded runs; those of ../shared where none is named")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the benchmark's dataset/")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ablation", action="store_true", help="say of each rule what only it mends; takes a while")
    parser.add_argument("--keep", type=Path, help="write the aligned responses here, in the form of the recorded runs")
    options = parser.parse_args()
    runs = options.runs or sorted([*options.data.glob("may/*.json"), *options.data.glob("apr/*.json")])
    if not runs:
        print(f"no recorded runs: none is named, and none is at {options.data}", file=sys.stderr)
        return 0
    found = list(records(runs, options.data))
    columns = {name: column(found, rules) for name, rules in COLUMNS.items()}
    raw = columns["raw"]
    broken = {
        name: [f"{each.record.model} {each.record.task}" for each, was in zip(made, raw, strict=True) if each.failed and not was.failed]
        for name, made in columns.items()
    }  # fmt: skip
    result = {
        "responses": len(found),
        "agreement": _agreement(raw),
        "columns": {name: _figures(made) for name, made in columns.items()},
        "broken": broken,
        "failing": {name: Counter(each.failed for each in made if each.failed) for name, made in columns.items()},
        "contracts": _contracts(options.data),
    }
    if options.ablation:
        result["rules"] = {
            name: {"mended": mended, "only": only}
            for name, (mended, only) in ablation(found, columns["aligned"]).items()
        }
    if options.keep:
        _keep(options.keep, columns["aligned"])
    print(json.dumps(result, indent=1) if options.json else _table(result))
    passed = result["columns"]["aligned"]["all"]["passed"]
    return 0 if passed >= AIM * len(found) and not any(broken.values()) else 1


def _agreement(raw: Sequence[Outcome]) -> dict[str, Any]:
    """How the judge here agrees with the recorded verdicts, by (recorded step, step here); step 4 held a model's judgement, too."""
    pairs = Counter((each.record.failed, each.failed) for each in raw)
    same = sum(count for (was, now), count in pairs.items() if was == now or (was == 4 and now == 0))
    return {"same": same, "pairs": {f"{was} here {now}": count for (was, now), count in sorted(pairs.items())}}


def _figures(made: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    groups: dict[str, list[Outcome]] = {}
    for each in made:
        groups.setdefault(each.record.model, []).append(each)
    groups["all"] = list(made)
    return {
        name: {
            "responses": len(group),
            "passed": sum(not each.failed for each in group),
            "sound": sum(each.sound for each in group),
            "both": sum(each.sound and not each.failed for each in group),
        }
        for name, group in groups.items()
    }


def _contracts(data: Path) -> dict[str, Any]:
    keys = json.loads((data / "dataset/check_pass_stage.json").read_text(encoding="utf-8"))
    original = rounds_of(json.loads((data / "dataset/query.json").read_text(encoding="utf-8")))
    said = {"original": contracts(original, keys)}
    path = HERE / "paraphrased.json"
    if path.exists():
        again = json.loads(path.read_text(encoding="utf-8"))
        mixed = {
            task: [again.get(f"{task}_{number}", text) for number, text in enumerate(texts, 1)]
            for task, texts in original.items()
        }
        said["original, the same 30"] = contracts(original, keys, again)
        said["paraphrased"] = contracts(mixed, keys, again)
    return {name: dict(zip(("instructions", "inputs", "outputs"), each, strict=True)) for name, each in said.items()}


def _table(result: Mapping[str, Any]) -> str:
    lines = [
        f"{result['responses']} responses; the judge here and the recorded one agree on {result['agreement']['same']}: {result['agreement']['pairs']}"
    ]
    models = [*(name for name in result["columns"]["raw"] if name != "all"), "all"]
    lines.append(f"\n{'':16}" + "".join(f"{name:>24}" for name in result["columns"]))
    lines.append(f"{'':16}" + f"{'passed  sound   both':>24}" * len(result["columns"]))
    for model in models:
        row = f"{model:16}"
        for figures in result["columns"].values():
            one = figures[model]
            row += (
                "    "
                + "".join(f"{share(one[key], one['responses']):>6} " for key in ("passed", "sound", "both")).rstrip()
            )
        lines.append(row)
    aligned = result["columns"]["aligned"]["all"]
    lines.append(f"\nof those that pass aligned, sound: {share(aligned['both'], aligned['passed'])}%")
    lines.append(f"broken: { {name: len(each) for name, each in result['broken'].items()} }")
    lines.append(f"failing at step: { {name: dict(sorted(each.items())) for name, each in result['failing'].items()} }")
    for name, each in result["contracts"].items():
        lines.append(
            f"contracts, {name}: {each['instructions']} instructions, inputs as in the key {each['inputs']}, outputs {each['outputs']}"
        )
    for name, each in sorted(result.get("rules", {}).items(), key=lambda pair: -pair[1]["only"]):
        lines.append(f"  {name:22} mended {each['mended']:4}   pass only with it {each['only']:4}")
    return "\n".join(lines)


def _keep(folder: Path, made: Sequence[Outcome]) -> None:
    """The passing ones, for run_recorded.py."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = [
        {"task": task, "round": number, "workflow": match[1]}
        for each in made
        if not each.failed and (match := re.search(r"<workflow>(.*?)</workflow>", each.text, re.DOTALL))
        for task, number in [each.record.task.split(" ")]
    ]
    (folder / "aligned.json").write_text(json.dumps(kept), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
