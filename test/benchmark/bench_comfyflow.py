"""Measure which metrics of ComfyFlow detect faults seeded into ComfyUI's official workflows.

    python test/benchmark/bench_comfyflow.py [--data ../shared/data] [--rounds 3]

Each kind of fault is seeded into every workflow that it fits, in the API format and as code, at places that a seed
selects. The table shows, for each kind: the number of faults, how many were detected by all metrics that must detect
them, how many by a metric that must not, and which other metrics detected them as a consequence. The exit status is 1 if
a fault is not detected, or is detected by a metric that must not. With the extra `evaluate`, each workflow is also
compared with a copy whose nodes are reordered and renumbered: F1 must be 1.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from operad.integrations.comfyui.comfyflow import ComfyScore, score
from operad.integrations.comfyui.comfyflow.judging import Metric
from operad.integrations.comfyui.formats import Definitions, dump_api, dump_code, executable, load, read_definitions
from operad.integrations.comfyui.formats.definitions import accepts
from operad.runtime.values.errors import MissingExtraError

DATA = Path(__file__).resolve().parents[3] / "shared/data"
ALL: frozenset[str] = frozenset(get_args(Metric))
END = frozenset({"terminal", "terminal_but_outputs"})
LOST = END | {"connected"}
"""Metrics that a lost link may affect: its source becomes terminal, or the workflow falls into parts."""

Nodes = dict[str, Any]
"""A workflow as a server runs it."""


class Link(NamedTuple):
    """A link of a workflow."""

    target: str
    input: str
    source: str
    port: int


@dataclass
class Broken:
    """Workflow into which a fault is seeded.

    Attributes:
        nodes: The workflow, which the fault changes.
        definitions: The classes.
        chance: The random generator that selects the place.
    """

    nodes: Nodes
    definitions: Definitions
    chance: random.Random

    def links(self) -> list[Link]:
        """All links."""
        return [
            Link(target, name, *value)
            for target, node in self.nodes.items()
            for name, value in node["inputs"].items()
            if isinstance(value, list)
        ]

    def choose(self, among: Sequence[Any]) -> Any:
        """Return a random item, or None for an empty list."""
        return self.chance.choice(among) if among else None

    def is_required(self, target: str, name: str) -> bool:
        """Return whether a class requires an input."""
        found = self.definition(target).inputs.get(name)
        return found is not None and found.required and not found.is_dynamic

    def definition(self, node: str) -> Any:
        """The class of a node."""
        return self.definitions.classes[self.nodes[node]["class_type"]]

    def after(self, node: str) -> set[str]:
        """Return all nodes that depend on a node, directly or indirectly."""
        found: set[str] = set()
        waiting = [node]
        links = self.links()
        while waiting:
            last = waiting.pop()
            fresh = {link.target for link in links if link.source == last} - found
            found |= fresh
            waiting += fresh
        return found

    def set(self, link: Link, value: Any) -> bool:
        """Replace the link of an input by another value."""
        self.nodes[link.target]["inputs"][link.input] = value
        return True


# Ways to break a workflow; each says whether it could


def missing_link(broken: Broken) -> bool:
    """Remove the link of a required input."""
    link = broken.choose([each for each in broken.links() if broken.is_required(each.target, each.input)])
    return link is not None and broken.nodes[link.target]["inputs"].pop(link.input) is not None


def dangling_source(broken: Broken) -> bool:
    """Let a link begin at a missing node."""
    link = broken.choose(broken.links())
    return link is not None and broken.set(link, ["no-such-node", link.port])


def bad_slot(broken: Broken) -> bool:
    """Let a link begin at an output that its class lacks."""
    link = broken.choose(broken.links())
    return link is not None and broken.set(link, [link.source, 99])


def wrong_type(broken: Broken) -> bool:
    """Let a link begin at an output of another type, of the same node or of one that is not later."""
    found: list[tuple[Link, str, int]] = []
    for link in broken.links():
        fills = broken.definition(link.target).inputs.get(link.input)
        later = broken.after(link.target) | {link.target}
        if fills is not None and not fills.is_dynamic:
            found += [
                (link, source, port)
                for source in broken.nodes
                if source not in later
                for port, kind in enumerate(broken.definition(source).outputs)
                if not accepts(fills.type, kind)
            ]
    chosen = broken.choose(found)
    return chosen is not None and broken.set(chosen[0], [chosen[1], chosen[2]])


def unknown_class(broken: Broken) -> bool:
    """Give a node an unknown class."""
    broken.nodes[broken.choose(list(broken.nodes))]["class_type"] += "Deluxe"
    return True


def illegal_parameter(broken: Broken) -> bool:
    """Give a node a parameter that its class lacks."""
    broken.nodes[broken.choose(list(broken.nodes))]["inputs"]["quality_boost"] = 1
    return True


def missing_parameter(broken: Broken) -> bool:
    """Remove a required value."""
    found = [
        (node, name)
        for node, said in broken.nodes.items()
        for name, value in said["inputs"].items()
        if not isinstance(value, list) and broken.is_required(node, name)
    ]
    node, name = broken.choose(found) or (None, None)
    if node is not None:
        del broken.nodes[node]["inputs"][name]
    return node is not None


def no_output(broken: Broken) -> bool:
    """Remove all output nodes."""
    ends = [node for node in broken.nodes if broken.definition(node).output_node]
    used = {link.source for link in broken.links()}
    if used & set(ends):
        return False
    for node in ends:
        del broken.nodes[node]
    return bool(broken.nodes)


def cycle(broken: Broken) -> bool:
    """Link two nodes in a cycle."""
    found = [
        (link, node)
        for link in broken.links()
        for node in sorted(broken.after(link.target))
        if broken.definition(node).outputs
    ]
    link, node = broken.choose(found) or (None, None)
    return link is not None and broken.set(link, [node, 0])


def second_part(broken: Broken) -> bool:
    """Add an unconnected copy of the whole workflow."""
    for node, said in list(broken.nodes.items()):
        inputs = {
            name: [f"{value[0]}x2", value[1]] if isinstance(value, list) else value
            for name, value in said["inputs"].items()
        }
        broken.nodes[f"{node}x2"] = {**said, "inputs": inputs}
    return True


def stray_node(broken: Broken) -> bool:
    """Add an unconnected node with outputs."""
    linked = {link.target for link in broken.links()}
    node = broken.choose(
        [each for each in broken.nodes if each not in linked and not broken.definition(each).output_node]
    )
    if node is not None:
        broken.nodes[f"{node}x2"] = copy.deepcopy(broken.nodes[node])
    return node is not None


# Of text


def cut_off(text: str, chance: random.Random) -> str | None:
    """Truncate the text: at the bracket of a call, or before the last brace."""
    if text.startswith("{"):
        return text[: chance.randrange(1, text.rindex("}"))]
    calls = list(re.finditer(r"^[^(#]*\(", text, re.MULTILINE))
    return text[: chance.choice(calls).end()]


def renamed_variable(text: str, chance: random.Random) -> str | None:
    """Rename a variable where it is used."""
    uses = list(re.finditer(r"(?<==)[A-Z]\w*_\d+(?=[,)\[}])", text))
    if not uses:
        return None
    use = chance.choice(uses)
    return f"{text[: use.start()]}{use[0]}0000{text[use.end() :]}"


def late_variable(text: str, chance: random.Random) -> str | None:
    """Move a call behind the calls that use its result."""
    lines = text.splitlines(keepends=True)
    found = [
        place
        for place, line in enumerate(lines)
        if any(
            re.search(rf"={re.escape(name.strip())}\b", later)
            for name in line.partition(" = ")[0].split(",")
            for later in lines[place + 1 :]
        )
    ]
    if not found:
        return None
    place = chance.choice(found)
    return "".join([*lines[:place], *lines[place + 1 :], lines[place]])


@dataclass(frozen=True)
class Fault:
    """Kind of fault.

    Attributes:
        name: Its name.
        must: The metrics that must detect it.
        may: Other metrics that may detect it, with the reason.
        nodes: Seeds the fault into nodes; or else `text`.
        text: Seeds the fault into a text; returns None if it does not fit.
        forms: The forms of workflows that it applies to.
    """

    name: str
    must: frozenset[str]
    may: frozenset[str] = frozenset()
    nodes: Callable[[Broken], bool] | None = None
    text: Callable[[str, random.Random], str | None] | None = None
    forms: Sequence[str] = ("api", "code")


FAULTS = (
    Fault("missing link", frozenset({"missing", "sound"}), LOST, missing_link),
    Fault("dangling source", frozenset({"undefined", "sound"}), LOST, dangling_source),
    Fault("bad slot", frozenset({"sound"}), frozenset(), bad_slot),
    Fault("wrong type", frozenset({"sound"}), LOST, wrong_type),  # the right source is left
    Fault("unknown class", ALL, frozenset(), unknown_class),
    Fault("illegal parameter", frozenset({"illegal", "sound"}), frozenset(), illegal_parameter),
    Fault("missing parameter", frozenset({"missing", "sound"}), frozenset(), missing_parameter),
    Fault("no output", END | {"sound"}, frozenset({"connected"}), no_output),  # it may have held two parts together
    Fault("cycle", frozenset({"connected", "sound"}), END, cycle, forms=("api",)),
    Fault("cycle", frozenset({"connected", "sound", "undefined"}), END, cycle, forms=("code",)),  # no order has none
    Fault("second part", frozenset({"connected"}), frozenset(), second_part),
    Fault("stray node", END | {"connected"}, frozenset(), stray_node),
    Fault("renamed variable", frozenset({"undefined", "sound"}), LOST, text=renamed_variable, forms=("code",)),
    Fault("late variable", frozenset({"undefined", "sound"}), LOST, text=late_variable, forms=("code",)),
    Fault("cut off", ALL, frozenset(), text=cut_off),
)


class Case(NamedTuple):
    """Workflow with a fault.

    Attributes:
        fault: The fault.
        form: The form of the workflow.
        file: The file of the workflow.
        text: The text with the fault.
        before: The metrics that the workflow failed without the fault.
    """

    fault: Fault
    form: str
    file: str
    text: str
    before: frozenset[str]


class Finding(NamedTuple):
    """Result of a case.

    Attributes:
        case: The case.
        unnoticed: The metrics that must detect the fault and did not.
        wrongly: The metrics that must not detect it and did.
        also: The metrics that may detect it and did.
    """

    case: Case
    unnoticed: frozenset[str]
    wrongly: frozenset[str]
    also: frozenset[str]


def failed(found: ComfyScore) -> frozenset[str]:
    """Return the metrics that a workflow fails."""
    right = {"format", "connected", "sound"}
    return frozenset(name for name in ALL if getattr(found, name) is not (name in right))


def classes_of(data: Path) -> Definitions:
    """Return the node classes."""
    return read_definitions((data / "comfyui/object_info.json").read_text(encoding="utf-8"))


def workflows(data: Path, definitions: Definitions) -> Iterator[tuple[Path, Nodes]]:
    """Return the workflows in the API format."""
    for file in sorted((data / "comfyui/workflows").iterdir()):
        yield file, json.loads(dump_api(executable(load(file.read_bytes()), definitions)))


def cases(data: Path, rounds: int, definitions: Definitions, seed: int = 20260706) -> Iterator[Case]:
    """Yield each fault in each workflow that it fits and that passed all of its metrics before."""
    for file, nodes in workflows(data, definitions):
        before = failed(score(json.dumps(nodes), definitions))
        for fault in FAULTS:
            for form in fault.forms:
                for number in range(0 if fault.must & before else rounds):
                    chance = random.Random(f"{seed} {file.name} {fault.name} {form} {number}")  # noqa: S311 - a seed
                    text = _broken(fault, form, nodes, definitions, chance)
                    if text is not None:
                        yield Case(fault, form, file.stem, text, before)


def finding(case: Case, definitions: Definitions) -> Finding:
    """Return the result of a case."""
    after = failed(score(case.text, definitions))
    changed = case.before ^ after
    return Finding(case, case.fault.must - after, changed - case.fault.must - case.fault.may, changed & case.fault.may)


def _broken(fault: Fault, form: str, nodes: Nodes, definitions: Definitions, chance: random.Random) -> str | None:
    broken = Broken(copy.deepcopy(nodes), definitions, chance)
    if fault.nodes is not None and not fault.nodes(broken):
        return None
    written = json.dumps(broken.nodes)
    text = written if form == "api" else dump_code(load(written.encode()), definitions)
    return text if fault.text is None else fault.text(text, chance)


def renumbered(nodes: Nodes, chance: random.Random) -> Nodes:
    """Return the workflow with its nodes reordered and renumbered."""
    ids = list(nodes)
    chance.shuffle(ids)
    new = {old: f"n{place}" for place, old in enumerate(ids)}
    return {
        new[node]: {
            **nodes[node],
            "inputs": {
                name: [new[value[0]], value[1]] if isinstance(value, list) else value
                for name, value in nodes[node]["inputs"].items()
            },
        }
        for node in ids
    }


def _print_faults(found: Sequence[Finding]) -> None:
    print(f"{'fault':<18} {'form':<5} {'made':>5} {'noticed':>8} {'wrongly':>8}  as a consequence")
    by_way: dict[tuple[str, str], list[Finding]] = {}
    for each in found:
        by_way.setdefault((each.case.fault.name, each.case.form), []).append(each)
    for (name, form), those in by_way.items():
        also = Counter(metric for each in those for metric in each.also)
        told = ", ".join(f"{metric} {count}" for metric, count in sorted(also.items()))
        noticed = sum(not each.unnoticed for each in those)
        wrongly = sum(bool(each.wrongly) for each in those)
        print(f"{name:<18} {form:<5} {len(those):>5} {noticed:>8} {wrongly:>8}  {told}")
    noticed, wrongly = sum(not each.unnoticed for each in found), sum(bool(each.wrongly) for each in found)
    print(f"{'all':<18} {'':<5} {len(found):>5} {noticed:>8} {wrongly:>8}")


def f1_of_itself(data: Path, definitions: Definitions) -> Mapping[str, tuple[float | None, float | None]]:
    """Return node and graph F1 of each workflow, compared with its renumbered copy."""
    found: dict[str, tuple[float | None, float | None]] = {}
    for file, nodes in workflows(data, definitions):
        other = renumbered(nodes, random.Random(file.name))  # noqa: S311 - a seed
        scores = score(json.dumps(other), definitions, file.read_bytes())
        found[file.stem] = (scores.node_f1, scores.graph_f1)
    return found


def main() -> int:
    """Seed the faults and print which were detected."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    definitions = classes_of(arguments.data)
    found = [finding(each, definitions) for each in cases(arguments.data, arguments.rounds, definitions)]
    _print_faults(found)
    wrong = [each for each in found if each.unnoticed or each.wrongly]
    for each in wrong[:20]:
        case = each.case
        print(f"{case.file} {case.form} {case.fault.name}: not {set(each.unnoticed)}, wrongly {set(each.wrongly)}")
    try:
        f1 = f1_of_itself(arguments.data, definitions)
    except MissingExtraError as error:
        print(f"\nno F1: {error}")
        f1 = {}
    below = {name: each for name, each in f1.items() if each != (1, 1)}
    print(f"\nof {len(f1)} workflows against themselves, renumbered, those with an F1 below 1: {below or 'none'}")
    return 1 if wrong or below else 0


if __name__ == "__main__":
    sys.exit(main())
