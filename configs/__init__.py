"""Files that configure experts: what they hold, what they can do, the objects that are made of them, and their optimisation.

A file of experts is loaded in passes: `reading` validates its text by the `schema`, `read_capabilities` lists what needs
trust, `build` makes its objects with the `services` that they use, and `remarks` says what has no effect.
"""

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
