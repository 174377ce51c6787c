"""Skills of experts in YAML: faults with their places, remarks, and scripts only with trust."""

import pytest

from operad.configs.capabilities import UntrustedError
from operad.configs.loader import load_text, preview_text
from operad.runtime.values.errors import InvalidError
from operad.testing import CallTools, Say, ScriptedModel

EXPERT = "experts: [{{profile: {{name: G}}, workflow: [[{{name: fill, instruction: Fill., skills: {}}}]]}}]\n"
SKILL = "---\nname: forms\ndescription: Fill forms.\n{}---\nBody.\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine" / "skills" / "forms" / "scripts").mkdir(parents=True)
    (tmp_path / "mine" / "skills" / "forms" / "SKILL.md").write_text(SKILL.format(""))
    (tmp_path / "mine" / "skills" / "forms" / "scripts" / "fill.py").write_text("print('filled')")
    return (tmp_path / "mine").resolve()


def test_skills_in_the_folder_of_a_file_need_no_trust(folder):
    expert = load_text(EXPERT.format("[skills]"), "e.yaml", folder).expert()
    with ScriptedModel([CallTools({"read_skill": {"skill": "forms"}}), Say("done")]) as endpoint:
        assert expert.workflow.run("x", endpoint.model).text == "done"
        assert "- forms: Fill forms." in endpoint.requests[0]["messages"][0]["content"]


def test_scripts_and_skills_outside_of_the_folder_need_trust(folder):
    with pytest.raises(UntrustedError) as caught:
        load_text(EXPERT.format("[{path: skills/forms, scripts: true}]"), "e.yaml", folder)
    assert caught.value.capabilities.lines == ("runs skills/forms/scripts/fill.py (script of a skill)",)
    (folder / "inner").mkdir()
    with pytest.raises(UntrustedError) as caught:
        load_text(EXPERT.format("[../skills]"), "e.yaml", folder / "inner")
    assert caught.value.capabilities.lines == (f"reads {folder / 'skills'} (skills)",)


def test_a_changed_file_of_a_skill_with_scripts_changes_what_was_trusted(folder):
    text = EXPERT.format("[{path: skills, scripts: true}]")
    before = preview_text(text, "e.yaml", folder).capabilities.digest
    (folder / "skills" / "forms" / "scripts" / "fill.py").write_text("print('other')")
    assert preview_text(text, "e.yaml", folder).capabilities.digest != before


def test_trusted_scripts_run(folder):
    call = {"run_skill_script": {"skill": "forms", "script": "scripts/fill.py"}}
    text = EXPERT.format("[{path: skills/forms, scripts: true}]")
    expert = load_text(text, "e.yaml", folder, trust=True).expert()
    with ScriptedModel([CallTools(call), Say("done")]) as endpoint:
        expert.workflow.run("x", endpoint.model)
        assert endpoint.requests[-1]["messages"][-1]["content"] == "filled\n"


def test_all_faults_of_skills_are_issues_at_their_places(folder):
    (folder / "skills" / "forms" / "SKILL.md").write_text("---\nname: Forms\ndescrption: x\n---\n")
    (folder / "outside").symlink_to(folder.parent)
    skills = "[skills/forms, nowhere, {path: outside, scripts: true}, {path: ../, scripts: true}]"
    with pytest.raises(InvalidError) as caught:
        preview_text(EXPERT.format(skills), "e.yaml", folder)
    issues = caught.value.issues
    assert {issue.code for issue in issues} == {"skill"}
    ends = [issue.where.partition("skills")[2] for issue in issues]
    assert ends == ["[0]", "[0]", "[1]", "[2].scripts", "[3].scripts"]
    assert all("skills/forms/SKILL.md:" in issue.message for issue in issues[:2])


def test_parts_without_effect_are_remarks_with_their_lines(folder):
    (folder / "skills" / "forms" / "SKILL.md").write_text(SKILL.format("version: 2\nallowed-tools: Bash\n"))
    remarks = preview_text(EXPERT.format("[skills]"), "e.yaml", folder).remarks
    assert [remark.partition(": ")[0] for remark in remarks] == [
        "skills/forms/SKILL.md:4",
        "skills/forms/SKILL.md:5",
        "skills/forms/SKILL.md",
    ]
    assert "scripts/fill.py" in remarks[2]


def test_a_script_that_changes_while_a_person_is_asked_to_trust_it_is_refused(folder):
    def trust(_):
        (folder / "skills" / "forms" / "scripts" / "fill.py").write_text("print('other')")
        return True

    with pytest.raises(InvalidError) as caught:
        load_text(EXPERT.format("[{path: skills, scripts: true}]"), "e.yaml", folder, trust=trust)
    assert [issue.code for issue in caught.value.issues] == ["skill"]
