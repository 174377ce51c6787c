"""Experts configured in YAML, and files of workflows."""

TYPE_CHECKING = False  # as of typing, which takes a while to import: until then, nothing handles Ctrl-C
if TYPE_CHECKING:
    from operad.configs.loader import Configuration, load
    from operad.configs.workflow_file import load_workflow

__all__ = ["Configuration", "load", "load_workflow"]


def __getattr__(name: str) -> object:  # imported when used, so that the command can start with little
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "load_workflow":
        from operad.configs.workflow_file import load_workflow

        return load_workflow
    from operad.configs import loader

    return getattr(loader, name)
