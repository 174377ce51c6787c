"""Skills: folders with instructions for special tasks, in the open Agent Skills format (https://agentskills.io).

The prompt has the name and the description of each skill. The model reads the instructions and further files by a tool,
when a job needs them. Python scripts of a skill run in a limited process, if the user allows it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, cast

from operad.runtime.knowledge.folders import find_files, roots_of
from operad.runtime.tools.tool import Tool
from operad.runtime.values.document import Document, parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, ToolError, did_you_mean, shorten
from operad.runtime.values.near_names import near_name
from operad.runtime.values.value import Value

INSTRUCTIONS = "SKILL.md"

MAX_SKILLS = 100
"""Maximum number of skills of an operator: their descriptions are in each prompt."""

MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1024, 500
"""Maximum lengths of these fields, in characters, as the specification says."""

MAX_FILES, MAX_BYTES = 1_000, 16 * 2**20
"""Maximum number of files of a skill, and their maximum size together."""

MAX_TEXT = 2**20
"""Maximum size of a file that a model reads, in bytes."""

_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


class Skill(Value):
    """Skill of an operator: a folder with a file SKILL.md; see `load_skills`.

        skill: Skill
        for skill in load_skills("skills"):
            print(skill.name, skill.description)

    Attributes:
        name: Name, which is that of the folder.
        description: Purpose of the skill, and when to use it.
        license: Licence, or the file with its text.
        compatibility: Requirements of the skill, in words.
        metadata: Further values, by name.
        allowed_tools: Tools that the author wants to be called without approval; they have no effect here.
        folder: The folder.
        hashes: SHA-256 of each of its files, by path in the folder. Only files with this content are read and run.
        scripts: True if its Python scripts may run.
        notes: Parts of the folder that have no effect, each with its place.
    """

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    folder: str
    hashes: Mapping[str, str] = {}
    scripts: bool = False
    notes: tuple[str, ...] = ()

    _indifferent = Value._indifferent | {"folder", "notes"}

    @property
    def files(self) -> tuple[str, ...]:
        """Files besides SKILL.md, as paths in the folder."""
        return tuple(sorted(self.hashes.keys() - {INSTRUCTIONS}))

    @property
    def digest(self) -> str:
        """Hash of all files."""
        return sha256(repr(sorted(self.hashes.items())).encode()).hexdigest()

    @property
    def runnable(self) -> tuple[str, ...]:
        """Scripts that can run in the sandbox: Python files in the folder ``scripts``."""
        return tuple(name for name in self.files if name.startswith("scripts/") and name.endswith(".py"))


def load_skills(path: str | Path, *, scripts: bool = False) -> tuple[Skill, ...]:
    """Return the skill in a folder, or the skills in its subfolders.

        for skill in load_skills("skills"):
            print(skill.name, skill.files)

    Args:
        path: A folder with a file ``SKILL.md``, or with subfolders that have one.
        scripts: True if the Python scripts of the skills may run, in a limited process without network.

    Raises:
        InputError: The folder does not exist or cannot be read.
        InvalidError: A skill does not have the format; each issue has its file and line.
    """
    [(root, _)] = roots_of([path]).items()
    if not root.is_dir():
        raise InputError(f"{path}: is not a folder; name the folder of a skill, which has a file {INSTRUCTIONS}")
    try:
        entries = sorted(root.iterdir())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    folders = [root] if os.path.isfile(root / INSTRUCTIONS) else _folders_among(entries)
    if not folders:
        hint = did_you_mean(INSTRUCTIONS, [entry.name for entry in entries])
        raise InputError(f"{path}: neither the folder nor one in it has a file {INSTRUCTIONS}{hint}")
    found: list[Skill] = []
    issues: list[Issue] = []
    for folder in folders:
        try:
            found.append(_load(folder, Path(path) / folder.relative_to(root), scripts))
        except InvalidError as error:
            issues += error.issues
    if issues:
        raise InvalidError(f"the skills of {path} cannot be used", issues)
    return tuple(found)


def as_skills(given: Any) -> Any:
    """Return the skills for an iterable of skills and folders; a validator of pydantic fields.

    Raises:
        InputError: There are too many, or two have the same name.
    """
    if isinstance(given, str | Path | Mapping):
        raise InputError(f"skills: expected a list of folders and skills, got {given!r:.100}")
    skills: list[Skill] = []
    for each in given:
        skills += [each] if isinstance(each, Skill) else load_skills(each)
    if len(skills) > MAX_SKILLS:
        raise InputError(
            f"skills: {len(skills)} are more than {MAX_SKILLS}; name single skills in place of their folder"
        )
    by_name: dict[str, str] = {}
    for skill in skills:
        if by_name.setdefault(skill.name, skill.folder) != skill.folder:
            raise InputError(f"skills: two are named {skill.name!r}: {by_name[skill.name]} and {skill.folder}")
    return tuple({skill.name: skill for skill in skills}.values())


# Files of a skill


def _folders_among(entries: Sequence[Path]) -> list[Path]:
    """Return the folders of skills among the entries of a folder; links are not followed."""
    folders = (entry for entry in entries if not os.path.islink(entry) and not entry.name.startswith("."))
    return [folder for folder in folders if os.path.isfile(folder / INSTRUCTIONS)]


def read_file(folder: Path, name: str) -> bytes:
    """Return the content of a file of a skill, which was found before.

    Raises:
        ToolError: It was removed, or replaced by a link or another kind of file, or it grew.
    """
    path = folder / name
    try:
        if path.resolve(strict=True) != path:
            raise ToolError(f"{name}: became a link since the skill was loaded")
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError(f"{name}: is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:
        raise ToolError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_BYTES:
        raise ToolError(f"{name}: grew to more than {MAX_BYTES:,} bytes")
    return data


def _load(folder: Path, shown: Path, scripts: bool) -> Skill:
    """Return the skill in a folder.

    Args:
        shown: The folder as the user named it.
    """
    file = (shown / INSTRUCTIONS).as_posix()
    found = find_files({folder: ""})
    sizes = {name.name.lstrip("/"): name.size for name in found.files.values()}
    if INSTRUCTIONS not in sizes:
        raise InvalidError(file, [Issue("skill", found.skipped.get(str(folder / INSTRUCTIONS), "is a link"), file)])
    if len(sizes) > MAX_FILES or sum(sizes.values()) > MAX_BYTES:
        size = f"{len(sizes):,} files and {sum(sizes.values()):,} bytes"
        raise InvalidError(file, [Issue("skill", f"has {size}; at most {MAX_FILES:,} and {MAX_BYTES:,}", file)])
    if hidden := [name for name in sizes if not name.isprintable()]:  # they would forge lines where files are listed
        what = (
            f"has files with control characters in their names: {shorten([repr(name) for name in hidden])}; rename them"
        )
        raise InvalidError(file, [Issue("skill", what, file)])
    try:
        text = text_of(read_file(folder, INSTRUCTIONS), file)
        hashes = {name: sha256(read_file(folder, name)).hexdigest() for name in sizes}
    except ToolError as error:
        raise InvalidError(file, [Issue("skill", str(error), file)]) from error
    front = front_matter(text, file)[0]
    if issues := [
        Issue("skill", what, f"{file}:{front.line((key,))}") for key, what in _faults(front.data, folder.name)
    ]:
        raise InvalidError(file, issues)
    data = front.data
    return Skill(
        name=data["name"],
        description=data["description"].strip(),
        license=data.get("license") or "",
        compatibility=data.get("compatibility") or "",
        metadata=_metadata(front),
        allowed_tools=tuple(_words(data.get("allowed-tools"))),
        folder=str(folder),
        hashes=hashes,
        scripts=scripts,
        notes=tuple(_notes(front, file, found.skipped, scripts, sorted(sizes))),
    )


def front_matter(text: str, file: str) -> tuple[Document, str]:
    """Return the front matter of a SKILL.md and the text after it.

    Raises:
        InvalidError: There is no front matter, or it is not a mapping in YAML.
    """
    first, *lines = (text.removeprefix("\ufeff") or "\n").splitlines()
    end = next((number for number, line in enumerate(lines) if line.rstrip() == "---"), None)
    if first.rstrip() != "---" or end is None:
        what = "has no front matter: begin the file with a line ---, the keys name and description, and a line ---"
        raise InvalidError(file, [Issue("skill", what, f"{file}:1")])
    try:
        document = parse_document("\n".join(["", *lines[:end]]), file)  # an empty line keeps the lines of the file
    except InputError as error:
        raise InvalidError(
            file, [Issue("skill", "its front matter has no keys: name, description", f"{file}:1")]
        ) from error
    return document, "\n".join(lines[end + 1 :]).strip()


def _faults(data: Mapping[str, Any], folder: str) -> Iterator[tuple[str, str]]:
    """Yield the faults of a front matter, each with its key."""
    most = {"name": MAX_NAME, "description": MAX_DESCRIPTION, "compatibility": MAX_COMPATIBILITY, "license": MAX_TEXT}
    for key, limit in most.items():
        value = data.get(key)
        if value is None and key in ("name", "description"):
            near = near_name(key, [each for each in data if each not in _KEYS])
            yield key, f"has no {key}; " + (f"is it {near!r}?" if near else "add it to the front matter")
        elif value is not None and (not isinstance(value, str) or not value.strip()):
            yield key, f"{key}: must be text, not {value!r:.100}"
        elif value is not None and len(value) > limit:
            yield key, f"{key}: has {len(value):,} characters; at most {limit:,}"
    name = data.get("name")
    if isinstance(name, str) and name.strip():
        if not all(part.isalnum() and part == part.lower() for part in name.split("-")):
            yield "name", f"name: {name!r:.100} must be lower-case letters and digits, with single hyphens between them"
        elif name != folder:
            yield "name", f"name: {name!r:.100} must be the name of the folder, {folder!r}"
    metadata, tools = data.get("metadata"), data.get("allowed-tools")
    values = cast("dict[str, object]", metadata).values() if isinstance(metadata, dict) else ()
    if metadata is not None and (
        not isinstance(metadata, dict) or any(isinstance(each, dict | list) for each in values)
    ):
        yield "metadata", "metadata: must be a mapping of keys to texts"
    of_list = cast("list[object]", tools) if isinstance(tools, list) else [tools or ""]
    if not all(isinstance(each, str) for each in of_list):
        yield "allowed-tools", "allowed-tools: must be names of tools, in one text or a list"


def _metadata(front: Document) -> Mapping[str, str]:
    """Return the metadata as texts, as they are written: the version 1.10 is not 1.1."""
    metadata: dict[str, Any] = front.data.get("metadata") or {}
    return {key: front.written.get((id(metadata), key), str(value)) for key, value in metadata.items()}


def _words(given: str | Sequence[str] | None) -> Sequence[str]:
    return given.split() if isinstance(given, str) else given or ()


def _notes(
    front: Document, file: str, skipped: Mapping[str, str], scripts: bool, files: Sequence[str]
) -> Iterator[str]:
    """Yield the parts of a skill's folder that have no effect."""
    for key in front.data:
        if key not in _KEYS:
            hint = did_you_mean(key, [each for each in _KEYS if each not in front.data])
            yield f"{file}:{front.line((key,))}: the key {key!r} is not of the format, and has no effect{hint}"
    if front.data.get("allowed-tools"):
        yield (
            f"{file}:{front.line(('allowed-tools',))}: allowed-tools approves no tool here; `approve` of the tool "
            "decides whether a person is asked"
        )
    for path, why in skipped.items():
        yield f"{file}: {Path(path).name} is left out: {why}"
    unrun = [name for name in files if name.startswith("scripts/") and not (scripts and name.endswith(".py"))]
    if unrun:
        why = "only Python scripts run in the sandbox" if scripts else "`scripts: true` lets Python scripts run"
        yield f"{file}: {shorten(unrun)}: can be read and do not run; {why}"


def text_of(data: bytes, file: str) -> str:
    """Return the text of a SKILL.md.

    Raises:
        InvalidError: It is too long, or not UTF-8.
    """
    if len(data) > MAX_TEXT:
        what = f"has {len(data):,} bytes; at most {MAX_TEXT:,}. Move parts into further files"
        raise InvalidError(file, [Issue("skill", what, file)])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(file, [Issue("skill", f"is not text in UTF-8: {error}", file)]) from error


_GUIDE = """\
## Skills
A skill holds instructions for a kind of task. If the job fits the description of a skill, call read_skill with its name \
before you begin, and follow its instructions."""


def guide(skills: Sequence[Skill]) -> str:
    """Return the part of a prompt that describes skills; empty without any. It is the same for every job."""
    lines = [f"- {skill.name}: {' '.join(skill.description.split())}" for skill in skills]
    return "\n".join([_GUIDE, *lines]) if lines else ""


def skill_tools(skills: Sequence[Skill]) -> tuple[Tool, ...]:
    """Return the tools with which a model uses skills: a reader, and a runner if scripts may run."""
    tools = _SkillTools(skills)
    runs = any(skill.scripts and skill.runnable for skill in skills)
    return (Tool.of(tools.read_skill), *([Tool.of(tools.run_skill_script)] if runs else [])) if skills else ()


class _SkillTools:
    """Functions of the tools for skills."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}

    def read_skill(self, skill: str, file: str = INSTRUCTIONS) -> str:
        """Read the instructions of a skill, or another of its files by its path.

        Args:
            skill: Name of the skill.
            file: Path of the file in the skill's folder.
        """
        found = self._skill(skill)
        name = str(PurePosixPath(file))
        if name == INSTRUCTIONS:
            return _instructions(found)
        _check_file(found, name, found.files, "file")
        data = _content(found, name)
        if len(data) > MAX_TEXT:
            raise ToolError(f"{name}: {len(data):,} bytes are more than the maximum of {MAX_TEXT:,}")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ToolError(f"{name}: is not text, and cannot be read") from error

    async def run_skill_script(self, skill: str, script: str, arguments: tuple[str, ...] = ()) -> str:
        """Run a Python script of a skill, without network, in a copy of the skill's folder, and return its output.

        Args:
            skill: Name of the skill.
            script: Path of the script in the skill's folder, such as scripts/fill.py.
            arguments: Arguments of its command line.
        """
        from operad.operators.sandbox.code import USUAL, dict_of, failure, json_of  # not at import: few skills run code
        from operad.operators.sandbox.process import run_in_process, task_of
        from operad.operators.sandbox.snippet import read as read_snippet

        found, name = self._skill(skill), str(PurePosixPath(script))
        if not found.scripts:
            raise ToolError(f"the scripts of {skill!r} do not run here")
        _check_file(found, name, found.runnable, "script that can run")
        files = await asyncio.to_thread(_contents, found)
        given = json_of({"files": files, "script": name, "arguments": list(arguments)})
        result = await run_in_process(task_of(read_snippet(_RUNNER), given), USUAL)
        if "error" in result:
            raise failure(_RUNNER, result)
        returned = dict_of(result.get("text"), str(result.get("kind")), USUAL)
        if returned["status"]:
            raise ToolError(f"{name} ended with status {returned['status']}:\n{returned['output']}")
        return returned["output"]

    def _skill(self, name: str) -> Skill:
        if name not in self._skills:
            raise ToolError(
                f"there is no skill {name!r}{did_you_mean(name, self._skills)}; {shorten(list(self._skills))}"
            )
        return self._skills[name]


_RUNNER = """\
def main(files, script, arguments):
    import base64, contextlib, io, os, runpy, sys, traceback
    for name, data in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(base64.b64decode(data))
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.abspath(os.path.dirname(script)))
    written, status = io.StringIO(), 0
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            print(end.code if isinstance(end.code, str) else "", end="")
        except BaseException:
            status = 1
            traceback.print_exc(limit=-5)
    return {"output": written.getvalue(), "status": status}
"""
"""Program that runs a script as a command line does; it runs in a limited process."""


def _instructions(skill: Skill) -> str:
    """Return the instructions of a skill, with its requirements and its files."""
    file = f"{skill.name}/{INSTRUCTIONS}"
    parts = [front_matter(text_of(_content(skill, INSTRUCTIONS), file), file)[1]]
    if skill.compatibility:
        parts.append(f"Requirements: {skill.compatibility}")
    if skill.files:
        parts.append(f"Files, for read_skill: {shorten(skill.files, 100)}")
    if runnable := skill.runnable if skill.scripts else ():
        parts.append(f"Scripts, for run_skill_script: {shorten(runnable, 100)}")
    elif any(name.startswith("scripts/") for name in skill.files):
        parts.append("Its scripts do not run here.")
    return "\n\n".join(parts)


def _check_file(skill: Skill, name: str, known: Sequence[str], kind: str) -> None:
    if name not in known:
        hint = did_you_mean(name, known)
        raise ToolError(
            f"skill {skill.name!r} has no {kind} {name!r:.200}{hint}; it has: {shorten(known, 20) or 'none'}"
        )


def _contents(skill: Skill) -> dict[str, str]:
    """Return the content of all files of a skill in Base64."""
    return {name: base64.b64encode(_content(skill, name)).decode() for name in skill.hashes}


def _content(skill: Skill, name: str) -> bytes:
    """Return the content of a file of a skill.

    Raises:
        ToolError: It cannot be read, or has changed since the skill was loaded, and perhaps trusted.
    """
    data = read_file(Path(skill.folder), name)
    if sha256(data).hexdigest() != skill.hashes[name]:
        raise ToolError(f"{name}: has changed since the skill was loaded, and is not used until it is loaded again")
    return data
