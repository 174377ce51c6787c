"""Skills: folders in the Agent Skills format, read by the model on demand, and confined to their folder."""

import pytest

from operad.operators import Operator, skills
from operad.operators.skills import MAX_TEXT, load_skills
from operad.runtime.knowledge.folders import find_files
from operad.runtime.policies.cache import cache_key
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.message import Job
from operad.runtime.workflow.workflow import BuiltinWorkflow
from operad.testing import CallTools, Say, ScriptedModel

FRONT = "---\nname: {}\ndescription: Fill forms. Use for forms.\n{}---\n# Forms\nRead references/a.md.\n"


@pytest.fixture
def skill(tmp_path):
    """Returns a function that writes a skill: a SKILL.md with further front matter, and files."""

    def write(name="fill-forms", more="", text="", **files):
        folder = tmp_path / "skills" / name
        for file, content in {"SKILL.md": text or FRONT.format(name, more), **files}.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write


def asked(operator, *calls):
    """Return the requests of a model that calls tools, and the results that it is told."""
    steps = [CallTools([call]) for call in calls]
    with ScriptedModel([*steps, Say("done")]) as endpoint:
        BuiltinWorkflow(operator, model=endpoint.model).run("Fill the form.")
        requests = endpoint.requests
    return requests, [message["content"] for message in requests[-1]["messages"] if message["role"] == "tool"]


def read(**arguments):
    return ("read_skill", {"skill": "fill-forms", **arguments})


def run(script, *arguments):
    return ("run_skill_script", {"skill": "fill-forms", "script": script, "arguments": list(arguments)})


def test_names_and_descriptions_are_in_the_system_message_and_bodies_are_read_on_demand(skill):
    folder = skill(**{"references/a.md": "Use block letters."})
    requests, results = asked(Operator("Work.", skills=[folder]), read(), read(file="references/a.md"))
    system = requests[0]["messages"][0]["content"]
    assert system.startswith("Work.\n\n## Skills\n")
    assert system.endswith("\n- fill-forms: Fill forms. Use for forms.")
    assert "# Forms" not in str(requests[0])
    assert results == ["# Forms\nRead references/a.md.\n\nFiles, for read_skill: references/a.md", "Use block letters."]


def test_the_system_message_is_the_same_for_each_job(skill):
    operator = Operator("Work on {thing}.", skills=[skill()])
    with ScriptedModel([Say("a"), Say("b")]) as endpoint:
        for thing in ("one", "two"):
            BuiltinWorkflow(operator, model=endpoint.model).run(Job("x", inputs={"thing": thing}))
        first, second = (request["messages"][0]["content"] for request in endpoint.requests)
    assert first == second
    assert "- fill-forms:" in first


def test_all_skills_of_a_folder_are_found_and_fields_are_read(skill, tmp_path):
    skill("b", "license: MIT\ncompatibility: Needs git.\nmetadata: {version: 1.10}\nallowed-tools: Bash(git:*) Read\n")
    skill("a", "allowed-tools: [Read, Write]\n")
    (tmp_path / "skills" / "notes").mkdir()
    a, b = load_skills(tmp_path / "skills")
    assert (a.name, a.allowed_tools) == ("a", ("Read", "Write"))
    assert (b.license, b.compatibility, b.metadata) == ("MIT", "Needs git.", {"version": "1.10"})
    assert b.allowed_tools == ("Bash(git:*)", "Read")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# No front matter\n", [1]),
        ("\ufeff", [1]),
        ("---\nname: fill-forms\n", [1]),
        ("---\n---\n", [1]),
        ("---\nname: fill-forms\n---\n", [2]),
        ("---\nname: Fill-Forms\ndescription: ' '\n---\n", [2, 3]),
        ("---\nname: fill--forms\ndescription: d\n---\n", [2]),
        ("---\nname: other\ndescription: 5\n---\n", [3, 2]),
        (f"---\nname: fill-forms\ndescription: {'d' * 1025}\ncompatibility: {'c' * 501}\n---\n", [3, 4]),
        ("---\nname: fill-forms\ndescription: d\nmetadata: {a: [b]}\nallowed-tools: {a: b}\n---\n", [4, 5]),
        ("---\nname: fill-forms\ndescription: d\nlicense: [MIT]\n---\n", [4]),
    ],
)
def test_each_fault_is_an_issue_with_its_line(skill, text, lines):
    folder = skill(text=text)
    with pytest.raises(InvalidError) as caught:
        load_skills(folder)
    assert [issue.code for issue in caught.value.issues] == ["skill"] * len(lines)
    assert sorted(int(issue.where.rpartition(":")[2]) for issue in caught.value.issues) == sorted(lines)


def test_front_matter_that_is_no_yaml_names_its_line(skill):
    with pytest.raises(InvalidError) as caught:
        load_skills(skill(text="---\nname: fill-forms\ndescription: Use when: always\n---\n"))
    assert ":3" in caught.value.issues[0].where


def test_the_faults_of_all_skills_are_told_at_once(skill, tmp_path):
    skill("a", text="x")
    skill("b", text="---\nname: c\ndescription: d\n---\n")
    with pytest.raises(InvalidError) as caught:
        load_skills(tmp_path / "skills")
    assert [issue.where.rpartition("skills/")[2] for issue in caught.value.issues] == ["a/SKILL.md:1", "b/SKILL.md:2"]


def test_a_folder_without_a_skill_is_refused(tmp_path):
    (tmp_path / "skill.md").write_text("x")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "skill.md"):
        with pytest.raises(InputError):
            load_skills(path)


def test_two_skills_of_one_name_are_refused(skill, tmp_path):
    first = skill()
    second = tmp_path / "fill-forms"
    second.mkdir()
    (second / "SKILL.md").write_bytes((first / "SKILL.md").read_bytes())
    with pytest.raises(InputError):
        Operator("Work.", skills=[first, second])
    assert len(Operator("Work.", skills=[first, first]).config.skills) == 1


@pytest.mark.parametrize("file", ["../../secret.txt", "/etc/passwd", "link", "folder/secret.txt", ".hidden", "nothing"])
def test_a_skill_gives_only_files_of_its_folder(skill, tmp_path, file):
    (tmp_path / "secret.txt").write_text("SECRET")
    folder = skill(**{".hidden": "SECRET"})
    (folder / "link").symlink_to(tmp_path / "secret.txt")
    (folder / "folder").symlink_to(tmp_path)
    _, [result] = asked(Operator("Work.", skills=[folder]), read(file=file))
    assert result.startswith("ToolError: ")
    assert "SECRET" not in result


def test_a_file_that_becomes_a_link_or_a_pipe_is_not_read(skill, tmp_path):
    import os

    (tmp_path / "secret.txt").write_text("SECRET")
    folder = skill(**{"a.md": "a", "b.md": "b", "c/d.md": "d"})
    operator = Operator("Work.", skills=[folder])
    for name in ("a.md", "b.md"):
        (folder / name).unlink()
    (folder / "a.md").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(folder / "b.md")
    (folder / "c" / "d.md").rename(tmp_path / "d.md")
    (folder / "c").rmdir()
    (folder / "c").symlink_to(tmp_path)
    _, results = asked(operator, *(read(file=name) for name in ("a.md", "b.md", "c/d.md")))
    assert [result.startswith("ToolError: ") for result in results] == [True, True, True]


def test_only_the_content_that_was_loaded_is_read_and_run(skill):
    folder = skill(**{"a.md": "a", "scripts/fill.py": "print('filled')"})
    operator = Operator("Work.", skills=load_skills(folder, scripts=True))
    for name in ("SKILL.md", "a.md", "scripts/fill.py"):
        (folder / name).write_text("print('OTHER')")
    _, results = asked(operator, read(), read(file="a.md"), run("scripts/fill.py"))
    assert all(result.startswith("ToolError: ") and "OTHER" not in result for result in results)


def test_a_file_that_vanishes_while_a_skill_is_loaded_is_an_issue(skill, monkeypatch):
    folder = skill(**{"a.md": "a"})

    def find(*arguments):
        found = find_files(*arguments)
        (folder / "a.md").unlink()
        return found

    monkeypatch.setattr(skills, "find_files", find)
    with pytest.raises(InvalidError):
        load_skills(folder)


@pytest.mark.parametrize("name", ["a\nb.md", "a\x1b[2Kb.md", "a\u202eb.md"])
def test_files_with_control_characters_in_their_names_are_refused(skill, name):
    with pytest.raises(InvalidError) as caught:
        load_skills(skill(**{name: "a"}))
    assert caught.value.issues[0].message.isprintable()


def test_files_that_are_no_text_or_too_long_are_refused(skill):
    folder = skill(**{"a.bin": b"\xff\xfe\x00", "long.md": b"a" * (MAX_TEXT + 1)})
    _, results = asked(Operator("Work.", skills=[folder]), read(file="a.bin"), read(file="long.md"))
    assert all(result.startswith("ToolError: ") for result in results)


def test_scripts_do_not_run_without_permission(skill):
    folder = skill(**{"scripts/fill.py": "print(1)"})
    requests, [result] = asked(Operator("Work.", skills=[folder]), read())
    assert "run_skill_script" not in str(requests[0]["tools"])
    assert result.endswith("Its scripts do not run here.")
    assert "scripts/fill.py" in load_skills(folder)[0].notes[0]


def test_a_script_runs_with_its_arguments_and_files_without_network_and_outside_files(skill, tmp_path):
    (tmp_path / "secret.txt").write_text("SECRET")
    outside = f"open({str(tmp_path / 'secret.txt')!r})"
    folder = skill(
        **{
            "assets/a.txt": "form",
            "scripts/helper.py": "NAME = 'helper'",
            "scripts/fill.py": "import sys, helper\nprint(sys.argv[1:], helper.NAME, open('assets/a.txt').read())",
            "scripts/read.py": f"print({outside}.read())",
            "scripts/net.py": "import socket\nsocket.create_connection(('192.0.2.1', 80))",
            "scripts/end.py": "import sys\nsys.exit('no form')",
            "scripts/list.sh": "ls",
        }
    )
    operator = Operator("Work.", skills=load_skills(folder, scripts=True))
    scripts = ("scripts/read.py", "scripts/net.py", "scripts/end.py", "scripts/list.sh", "SKILL.md")
    _, [filled, *others] = asked(operator, run("scripts/fill.py", "a", "b"), *map(run, scripts))
    assert filled == "['a', 'b'] helper form\n"
    assert all(other.startswith("ToolError: ") for other in others)
    assert "SECRET" not in others[0]
    assert others[2].endswith("status 1:\nno form")
    assert not (folder / "scripts" / "__pycache__").exists()


def test_a_changed_skill_changes_the_fingerprint_of_its_operator(skill):
    folder = skill(**{"a.md": "a"})
    before = cache_key(Operator("Work.", skills=[folder]).config)
    assert cache_key(Operator("Work.", skills=[folder]).config) == before
    (folder / "a.md").write_text("b")
    assert cache_key(Operator("Work.", skills=[folder]).config) != before
    assert "skills" not in Operator("Work.").config.fingerprint()
