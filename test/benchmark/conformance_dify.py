"""Compare outputs and executed nodes of the files of `dify_cases.py` in Dify's own engine and in Operad.

    python test/benchmark/conformance_dify.py --dify-python .venv-dify/bin/python [--write] [NAME …]

Runs the files unchanged, except those that Dify's server changes before its engine gets them: these run as the server
changes them. In both engines, models repeat their messages, code runs in Operad's sandbox, and requests go to a server of
this process. Prints a line per file; the exit status is 1 on any difference. With --write, the files and their results are
written to test/unit/data/dify_cases, where the tests find them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from conformance import RUNNER, Run, difference, sandbox
from dify_cases import cases
from dify_files import Case

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from dify_echo import BASE, echo_server
from dify_runs import hidden, remarked, run_dify

DATA = Path(__file__).parents[1] / "unit" / "data" / "dify_cases"


def run_there(cases: Sequence[Case], texts: Sequence[bytes], python: str, base: str) -> list[Run]:
    """Run the files in Dify's engine."""
    with sandbox() as address:
        process = subprocess.Popen(
            [python, str(RUNNER), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin
        assert process.stdout
        runs: list[Run] = []
        for case, text in zip(cases, texts, strict=True):
            given = case.given_inputs if case.as_given else case.inputs
            inputs = {name: base if value == BASE else value for name, value in given.items()}
            inputs = {name.removeprefix("sys."): value for name, value in inputs.items()}
            task = {
                "file": text.decode(),
                "inputs": inputs,
                "pick": case.pick,
                "turns": list(case.turns),
                "roles": True,
            }
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            said = json.loads(line) if line else {"outputs": {}, "ran": {}, "error": "the engine ended"}
            types = {each["id"]: each["data"]["type"] for each in case.nodes}
            ran = {name: count for name, count in said["ran"].items() if not types.get(name, "").endswith("-start")}
            runs.append(Run(said["outputs"], ran, said["error"]))
        process.stdin.close()
        process.wait()
        return runs


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="the beginnings of file names; default: all files")
    parser.add_argument("--dify-python", default=".venv-dify/bin/python", help="a Python with graphon")
    parser.add_argument("--write", action="store_true", help="write the files and their results")
    options = parser.parse_args()
    chosen = [each for each in cases() if not options.names or each.name.startswith(tuple(options.names))]
    texts = [yaml.safe_dump(each.file, allow_unicode=True, sort_keys=True, width=110).encode() for each in chosen]
    both = [number for number, each in enumerate(chosen) if each.is_proved]
    given = [yaml.safe_dump(each.as_given or each.file, allow_unicode=True).encode() for each in chosen]
    bad = 0
    records: dict[str, Any] = {}
    with echo_server() as base:
        found = run_there([chosen[n] for n in both], [given[n] for n in both], options.dify_python, base)
        there = dict(zip(both, found, strict=True))
        for number, (case, text) in enumerate(zip(chosen, texts, strict=True)):
            refusal, losses = remarked(text)
            if case.refused or case.differs:
                said, wanted = (refusal, case.refused) if case.refused else (losses, case.differs)
                wrong = "" if wanted in said else f"says {said!r}, and not {wanted!r}"
                result = "refused" if case.refused else "differs, and says so"
                record: dict[str, Any] = {"refused": case.refused, "differs": case.differs}
            else:
                said = asyncio.run(run_dify(text, base, case.inputs, case.turns, case.pick))
                ours = Run(said.outputs, said.ran, said.error)
                theirs = there.get(number) or Run(case.expects, ours.ran)
                if case.as_given and not case.nodes:  # an app, whose nodes are those that it is converted to
                    theirs = Run(theirs.outputs, ours.ran, theirs.error)
                wrong = difference(ours, _without_keys(case, theirs, text)) or (
                    losses and f"says that it differs: {losses}"
                )
                result = "fails in both" if ours.error else "same" if number in there else "as expected"
                record = {
                    "outputs": _json(ours.outputs),
                    "ran": dict(sorted(ours.ran.items())),
                    "fails": bool(ours.error),
                }
            bad += bool(wrong)
            print(f"{case.name:44} {case.feature:52} {'DIFFERS' if wrong else result}")
            if wrong:
                print(f"    {wrong}")
            if case.alone:
                record["given" if case.as_given else "alone"] = case.alone
            more = {"inputs": dict(case.inputs), "turns": list(case.turns), "pick": case.pick}
            records[case.name] = {"feature": case.feature, **{k: v for k, v in more.items() if v}, **record}
    features = len({each.feature for each in chosen})
    unproved = [each for each in chosen if not each.is_proved]
    for case in unproved:
        why = f"refused here: {case.refused}" if case.refused else f"runs differently here: {case.differs}"
        print(f"not proved: {case.name}: {case.alone or why}")
    print(f"{len(chosen)} files, {len(both)} of them in both engines, {features} features: {bad} differ")
    if options.write and not bad:
        DATA.mkdir(parents=True, exist_ok=True)
        for old in DATA.glob("*.yml"):
            old.unlink()
        for case, text in zip(chosen, texts, strict=True):
            (DATA / f"{case.name}.yml").write_bytes(text)
        (DATA / "outcomes.json").write_text(json.dumps(records, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    return 1 if bad else 0


def _without_keys(case: Case, run: Run, text: bytes) -> Run:
    """Return a run of Dify's engine without the keys that the server repeats, which requests of Operad hide."""
    return replace(run, outputs=hidden(run.outputs, text)) if "authorization" in case.name else run


def _json(outputs: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(outputs), default=str))


if __name__ == "__main__":
    sys.exit(main())
