"""Page of the compatibility with other platforms, from the recorded outcomes of test files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from architecture import ROOT

DATA = ROOT / "test" / "unit" / "data"
SERVER_RULES = DATA / "dify_cases" / "server_rules.json"
"""Rules that Dify's server adds to its engine, with the test files that show them."""

OUTCOMES = {
    "Dify": DATA / "dify_cases" / "outcomes.json",
    "ComfyUI": DATA / "comfyui_cases" / "outcomes.json",
    "Coze": DATA / "coze_cases" / "outcomes.json",
    "Flowise": DATA / "flowise_cases" / "outcomes.json",
    "Coze Studio": DATA / "coze_canvas_cases" / "outcomes.json",
    "Chat2Graph": DATA / "chat2graph_cases" / "outcomes.json",
    "AWEL": DATA / "awel_cases" / "outcomes.json",
}
"""File of the recorded outcomes, per platform."""

HEAD = """\
# Compatibility

<!-- Written by docs/make/compatibility.py from test/unit/data/*_cases/outcomes.json. -->

This page lists features of other platforms' files, each tested with files of our own: first those that Operad runs
differently, refuses or cannot compare, then those that give the same.

*Differently*: for Dify, Coze and Flowise, `operad check` names node and field, and the file runs only with `--lossy`; for ComfyUI,
`operad convert` names node and value; for Chat2Graph and AWEL, the difference is by design. *Refused*: the error names
the place, the reason and the fix.
"""

SAME = {
    "Dify": "*The same*: outputs, order of answers and nodes that ran are those of Dify's own engine, graphon. `make "
    "conformance` runs both, the engine with the rules of Dify's server that decide on a result: see below.",
    "ComfyUI": "*The same*: the prompt is the one that ComfyUI's page sends to its server, written by hand by the rules of "
    "that page. No server ran these files; the conversion is also tested with 32 prompts that a server of ComfyUI 0.3.64 "
    "accepted.",
    "Coze": "*The same*: the outputs are those that follow from the nodes' parameters, written by hand. Coze runs only on "
    "its own servers, so these files did not run there; a scripted model answers with its prompt.",
    "Flowise": "*The same*: the answer is the one that follows from the code of Flowise's engine, written by hand. No server of "
    "Flowise ran these files; a scripted model answers with its prompt.",
    "Coze Studio": "*The same*: the outputs are those that follow from the nodes' parameters by Coze Studio's source, written "
    "by hand; its server did not run these canvases. A scripted model answers with its prompt.",
    "Chat2Graph": "*The same*: the result is the one that follows from Chat2Graph's design, written by hand. Its program did "
    "not run these files; those in Python use its names for Operad's classes.",
    "AWEL": "*The same*: the result is that of AWEL's own runner in dbgpt, which each test runs on the same DAG, beside "
    "`AwelRunner` and beside a workflow with the DAG as its operator.",
}


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for platform in OUTCOMES for line in _section(platform))])


def _section(platform: str) -> Iterator[str]:
    folder = OUTCOMES[platform].parent
    outcomes: Mapping[str, Mapping[str, Any]] = json.loads(OUTCOMES[platform].read_text(encoding="utf-8"))
    others: dict[tuple[str, str], list[str]] = {}
    same: dict[str, dict[str, None]] = {}
    files: Counter[str] = Counter()
    for name, outcome in outcomes.items():
        if here := _here(outcome):
            others.setdefault((outcome["feature"], here), []).append(name)
        else:
            feature, _, detail = outcome["feature"].partition(": ")
            same.setdefault(feature, {}).update({detail: None} if detail else {})
            files[feature] += 1
    yield f"## {platform}\n"
    yield f"{SAME[platform]} [All files](../../{folder.relative_to(ROOT)}).\n"
    yield "| feature | here | files |\n|---|---|---|"
    for (feature, here), names in sorted(others.items()):
        more = f" and {len(names) - 1} more" if names[1:] else ""
        file = _file(folder, names[0]).relative_to(ROOT)
        yield f"| {feature} | {here.replace('|', chr(92) + '|')} | [{names[0]}](../../{file}){more} |"
    yield "\n| the same | cases | files |\n|---|---|---:|"
    for feature, details in sorted(same.items()):
        yield f"| {feature} | {'; '.join(sorted(details))} | {files[feature]} |"
    if platform == "Dify":
        yield from _server_rules(folder)
    yield ""


def _server_rules(folder: Path) -> Iterator[str]:
    yield "\n| Dify's server adds to its engine | here | files |\n|---|---|---|"
    for rule in json.loads(SERVER_RULES.read_text(encoding="utf-8")):
        files = ", ".join(f"[{name}](../../{_file(folder, name).relative_to(ROOT)})" for name in rule["cases"])
        files = files or "none: by the source of Dify's server"
        yield f"| {rule['rule']} | {rule['here']} | {files} |"


def _file(folder: Path, name: str) -> Path:
    """Return the file of a case."""
    [file] = folder.glob(f"{name}.*")
    return file


def _here(outcome: Mapping[str, Any]) -> str:
    """Return how a case ends here, or nothing if it ends the same."""
    if outcome.get("refused"):
        return f"refused: {outcome['refused']}"
    if outcome.get("alone"):
        return f"runs; not compared, since {outcome['alone']}"
    return f"differently: {outcome['differs']}" if outcome.get("differs") else ""
