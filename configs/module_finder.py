"""Finder and loader of the modules beside a file, which runs the trusted source alone."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from operad.configs.static_code import Module


class Finder:
    """Finder for the modules of a private package; it finds only the files that were trusted."""

    def __init__(self, package: str, modules: Mapping[str, Module]) -> None:
        self._prefix = f"{package}."
        self._modules = modules
        self._top_level_names = {name.partition(".")[0] for name in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the package; None for other modules."""
        if not fullname.startswith(self._prefix):
            return None
        name = fullname.removeprefix(self._prefix)
        module = self._modules.get(name)
        if module is None or module.path is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=fullname)
        if module.data is None:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(module.path)]
            return spec
        locations = [str(module.path.parent)] if module.is_package else None
        loader = _Loader(fullname, module.path, module.data, self._import)
        return spec_from_file_location(fullname, module.path, loader=loader, submodule_search_locations=locations)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module for the modules of this package, which import each other by their plain names."""
        top = name.partition(".")[0]
        module = self._modules.get(name)
        if level or top not in self._top_level_names or (module is not None and imported_by_program(module)):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(self._prefix + name, globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[self._prefix + top]


class _Loader(SourceFileLoader):
    """Loader that runs the trusted source, never a compiled file or a changed source."""

    def __init__(self, fullname: str, path: Path, data: bytes, import_: Any) -> None:
        super().__init__(fullname, str(path))
        self._data = data
        self._import = import_

    def get_code(self, fullname: str) -> Any:
        return compile(self._data, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        super().exec_module(module)


def imported_by_program(module: Module) -> bool:
    """Return True if the program has already imported a module by its plain name, from the same file."""
    file = getattr(sys.modules.get(module.name), "__file__", None)
    return file is not None and module.path is not None and Path(file).resolve() == module.path.resolve()
