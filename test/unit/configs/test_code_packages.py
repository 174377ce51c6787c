"""Packages of code that a services file allows for a workflow file."""

import pytest

from operad.configs.workflow_file import load_workflow
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.message import Job

FLOW = """
workflow: dump
nodes:
  1: {type: start, variables: {text: string}}
  2:
    type: code
    after: 1
    variables: {text: 1.text}
    outputs: {tree: string}
    code: |
      import ast
      def main(text):
          return {"tree": ast.dump(ast.parse(text))}
  3: {type: end, after: 2, outputs: {tree: 2.tree}}
"""


def test_a_workflow_may_import_what_its_services_allow(tmp_path):
    (tmp_path / "dump.operad.yaml").write_text(FLOW)
    (tmp_path / "services.yaml").write_text("code: {packages: [ast]}\n")
    with pytest.raises(InvalidError) as caught:
        load_workflow(tmp_path / "dump.operad.yaml")
    assert {issue.code for issue in caught.value.issues} == {"import"}
    workflow = load_workflow(tmp_path / "dump.operad.yaml", services=tmp_path / "services.yaml", trust=True)
    assert "Constant(value=1)" in workflow.run(Job("", inputs={"text": "1"})).outputs["tree"]
