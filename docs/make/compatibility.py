"""The page of what files of other platforms do here, from the outcomes of files of our own in the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from architecture import ROOT

DATA = ROOT / "test" / "unit" / "data"
OUTCOMES = {
    "Dify": DATA / "dify_cases" / "outcomes.json",
    "ComfyUI": DATA / "comfyui_cases" / "outcomes.json",
    "Coze": DATA / "coze_cases" / "outcomes.json",
    "Chat2Graph": DATA / "chat2graph_cases" / "outcomes.json",
    "AWEL": DATA / "awel_cases" / "outcomes.json",
}
"""File of the recorded outcomes, per platform."""

HEAD = """\
# Compatibility

<!-- Written by docs/make/compatibility.py from test/unit/data/*_cases/outcomes.json. -->

This page lists features of other platforms' files. Each row is tested with files of our own.

| platform | *the same* means that Operad gives the same as |
|---|---|
| Dify | Dify's own engine, graphon: outputs, order of answers and nodes that ran. `make conformance` runs both; files that Dify's server changes before its engine gets them are compared as changed |
| ComfyUI | the prompt that ComfyUI's page sends to its server, written by hand by the rules of that page. No server ran these files; the conversion is also tested with 32 prompts that a server of ComfyUI 0.3.64 accepted |
| Coze | the outputs that follow from the nodes' parameters, written by hand. Coze runs only on its own servers, so these files did not run there; a scripted model answers with its prompt |
| Chat2Graph | the result that follows from Chat2Graph's design, written by hand. Its program did not run these files; those in Python use its names for Operad's classes |
| AWEL | AWEL's own runner in dbgpt, which each test runs on the same DAG, beside `AwelRunner` and beside a workflow with the DAG as its operator |

*Differently*: for Dify and Coze, `operad check` names node and field, and the file runs only with `--lossy`; for ComfyUI,
`operad convert` names node and value; for Chat2Graph and AWEL, the difference is by design. *Refused*: the error names
the place, the reason and what to do; faults of values and links in ComfyUI files have codes, for which
[errors](errors.md) says what to do.

| platform | feature | here | files |
|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    rows = [row for platform in OUTCOMES for row in _rows(platform)]
    return HEAD + "\n".join(rows) + "\n"


def _rows(platform: str) -> Iterator[str]:
    path = OUTCOMES[platform]
    outcomes: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    found: dict[tuple[str, str], list[str]] = {}
    for name, outcome in outcomes.items():
        found.setdefault((outcome["feature"], _here(outcome)), []).append(name)
    for (feature, here), names in sorted(found.items()):
        first, more = names[0], len(names) - 1
        files = f"[{first}](../../{_file(path.parent, first).relative_to(ROOT)})" + (
            f" and {more} more" if more else ""
        )
        yield f"| {platform} | {feature} | {here.replace('|', chr(92) + '|')} | {files} |"


def _file(folder: Path, name: str) -> Path:
    """Return the file of a case."""
    [file] = folder.glob(f"{name}.*")
    return file


def _here(outcome: Mapping[str, Any]) -> str:
    if outcome.get("refused"):
        return f"refused: {outcome['refused']}"
    if outcome.get("alone"):
        return f"runs; not compared, since {outcome['alone']}"
    return f"differently: {outcome['differs']}" if outcome.get("differs") else "the same"
