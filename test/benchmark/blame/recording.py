"""Recorded verdicts, by the hash of the judge's request, and prompts as files for whoever plays the judge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cases import Case
from costs import Request, form_of, schema_of, text_of

RECORDED = Path(__file__).parent / "recorded.jsonl"

_HEAD = """Answer the request below as the model that is asked. Know nothing else: neither the program that sent the request, nor
others' answers. Write the answer, a JSON object that fits the JSON Schema at the end, into the file {name}.json.
"""


@dataclass(frozen=True)
class Recorded:
    """Recorded answer of a judge.

    Attributes:
        hash: Hash of the request.
        case: Name of the case.
        answer: The answer.
        by: Name of the model, or of whoever played it.
        when: Date of the answer.
    """

    hash: str
    case: str
    answer: str
    by: str
    when: str


def hash_of(request: Request) -> str:
    """Return the hash of a request: of its messages and the schema of its answer."""
    asked = {"messages": request["messages"], "schema": schema_of(request)}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:20]


@dataclass
class Recording:
    """Recorded answers, and those that are added to them.

    Attributes:
        by_hash: The answers, by the hash of the request.
        used: Hashes of the answers that were asked for.
    """

    by_hash: dict[str, Recorded] = field(default_factory=dict[str, Recorded])
    used: set[str] = field(default_factory=set[str])

    @staticmethod
    def read(file: Path) -> Recording:
        """Return the recording in a file; an empty one if there is no such file."""
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        recorded = [Recorded(**json.loads(line)) for line in lines]
        return Recording({each.hash: each for each in recorded})

    def write(self, file: Path) -> None:
        """Write the recording into a file, sorted by case."""
        recorded = sorted(self.by_hash.values(), key=lambda each: (each.case, each.hash))
        lines = [json.dumps(asdict(each), ensure_ascii=False) for each in recorded]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def answer(self, case: Case, request: Request) -> str | None:
        """Return the recorded answer to a request of a case."""
        found = self.by_hash.get(hash_of(request))
        if found is None:
            return None
        self.used.add(found.hash)
        return found.answer

    def add(self, case: Case, request: Request, answer: str, by: str, when: str) -> None:
        """Add the answer to a request of a case."""
        recorded = Recorded(hash_of(request), case.name, answer, by, when)
        self.by_hash[recorded.hash] = recorded
        self.used.add(recorded.hash)

    def cases(self) -> list[str]:
        """Return the names of the cases that have an answer."""
        return sorted({each.case for each in self.by_hash.values()})

    def stale(self) -> list[Recorded]:
        """Return the answers that no request asked for, because the prompts have changed."""
        return [each for each in self.by_hash.values() if each.hash not in self.used]

    def drop_stale(self, cases: Collection[str]) -> None:
        """Drop the answers on earlier prompts of some cases."""
        for each in self.stale():
            if each.case in cases:
                del self.by_hash[each.hash]

    def players(self) -> Mapping[str, tuple[int, str, str]]:
        """Return, for each player, the number of its answers that were asked for, and their first and last date."""
        used = [each for each in self.by_hash.values() if each.hash in self.used]
        found: dict[str, tuple[int, str, str]] = {}
        for each in used:
            number, first, last = found.get(each.by, (0, each.when, each.when))
            found[each.by] = (number + 1, min(first, each.when), max(last, each.when))
        return found


def write_prompts(folder: Path, requests: Iterable[Request]) -> int:
    """Write each request into a file with its hash as name; return the number of files."""
    folder.mkdir(parents=True, exist_ok=True)
    names: set[str] = set()
    for request in requests:
        name = hash_of(request)
        schema = json.dumps(form_of(request), ensure_ascii=False)
        text = f"{_HEAD.format(name=name)}\n{text_of(request)}\n\n[JSON Schema of the answer]\n{schema}\n"
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        names.add(name)
    return len(names)


def read_answers(folder: Path) -> Mapping[str, str]:
    """Return the answers in a folder, by hash, without the fences of a code block.

    Raises:
        SystemExit: The folder has no answers.
    """
    answers = {file.stem: _unfenced(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}
    if not answers:
        raise SystemExit(f"{folder} has no answers: expected files HASH.json")
    return answers


def _unfenced(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if not line.startswith("```")]
    return "\n".join(lines).strip()
