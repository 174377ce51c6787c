"""The public face: what each package promises is there, and has words."""

import ast
import importlib
import inspect

import pytest

PACKAGES = ["operad.runtime", "operad.operators", "operad.evaluators", "operad.configs"]
FACES = [*PACKAGES, "operad.runtime.testing"]


def source_of(name):
    return ast.parse(inspect.getsource(importlib.import_module(name)))


@pytest.mark.parametrize("name", FACES)
def test_every_public_name_is_there_once_and_the_list_is_sorted(name):
    module = importlib.import_module(name)
    assert module.__all__
    assert [public for public in module.__all__ if not hasattr(module, public)] == []
    assert len(set(module.__all__)) == len(module.__all__)
    constants_classes_functions = sorted(
        module.__all__, key=lambda public: (not public.isupper(), public[:1].islower(), public)
    )
    assert module.__all__ == constants_classes_functions


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_package_imports_into_its_face_it_promises(name):
    body = source_of(name).body
    for_types = [node for part in body if isinstance(part, ast.If) for node in part.body]
    imported = {
        alias.asname or alias.name
        for node in (*body, *for_types)
        if isinstance(node, ast.ImportFrom) and node.module not in {"__future__", "typing"}
        for alias in node.names
    }
    assert imported == set(importlib.import_module(name).__all__)


def test_what_the_testing_module_defines_for_its_users_it_promises():
    defined = {
        node.name
        for node in source_of("operad.runtime.testing").body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    assert {name for name in defined if not name.startswith("_")} <= set(
        importlib.import_module("operad.runtime.testing").__all__
    )


@pytest.mark.parametrize("name", FACES)
def test_every_public_class_function_and_method_has_a_docstring_of_its_own(name):
    module = importlib.import_module(name)
    bare = []
    for public in module.__all__:
        thing = getattr(module, public)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        members = vars(thing).items() if inspect.isclass(thing) else ()
        methods = {
            f"{public}.{key}": inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", None) or value))
            for key, value in members
            if not key.startswith("_") and isinstance(value, classmethod | staticmethod | property | type(source_of))
        }
        for what, function in {public: thing, **methods}.items():
            text = vars(function).get("__doc__") if inspect.isclass(function) else function.__doc__
            if not text or text.startswith(f"{public}("):  # dataclasses write their signature there
                bare.append(what)
    assert bare == []


DESIGNED = {
    "operad.runtime": "Job SubJob Task WorkflowMessage WorkflowStatus Workflow BuiltinWorkflow DbgptWorkflow Reasoner "
    "Action Tool Toolkit",
    "operad.operators": "Operator OperatorConfig",
    "operad.evaluators": "Evaluator",
}


@pytest.mark.parametrize("name", DESIGNED)
def test_the_names_that_the_design_promises_are_public(name):
    assert set(DESIGNED[name].split()) - set(importlib.import_module(name).__all__) == set()


SIGNATURES = {
    "operad.operators.Operator.execute": "self reasoner job workflow_messages previous_expert_outputs lesson",
    "operad.evaluators.Evaluator.execute": "self reasoner job workflow_messages previous_expert_outputs lesson",
    "operad.runtime.Workflow.execute": "self job reasoner workflow_messages lesson run_id",
    "operad.runtime.Workflow.aexecute": "self job reasoner workflow_messages lesson run_id",
    "operad.runtime.Workflow.stream": "self job reasoner workflow_messages lesson only under options",
    "operad.runtime.Workflow.add_operator": "self operator previous_ops next_ops join policy",
    "operad.runtime.Reasoner.infer": "self task",
}


@pytest.mark.parametrize("path", SIGNATURES)
def test_the_signatures_that_the_design_promises_hold(path):
    package, kind, method = path.rsplit(".", 2)
    parameters = inspect.signature(getattr(getattr(importlib.import_module(package), kind), method)).parameters
    assert " ".join(parameters) == SIGNATURES[path]


def test_the_promised_values_have_the_promised_defaults():
    from operad.operators import OperatorConfig

    defaults = {name: field.default for name, field in OperatorConfig.model_fields.items()}
    assert next(iter(defaults)) == "instruction"
    assert (defaults["output_schema"], defaults["threshold"], defaults["hops"]) == ("", 0.5, 0)
    assert OperatorConfig.model_fields["instruction"].is_required()
