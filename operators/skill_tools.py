"""Tools with which a model uses skills, and the part of a prompt that names these."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath

from operad.operators.skills import INSTRUCTIONS, MAX_TEXT, Skill, front_matter, read_file, text_of
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import ToolError, did_you_mean, shorten

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
