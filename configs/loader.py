"""Loader of configuration files. All faults of a file are reported together."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path

from operad.configs.build import build, make_budget
from operad.configs.capabilities import Capabilities, Trust, UntrustedError, is_trusted, pins_of
from operad.configs.faults import Faults
from operad.configs.imports import LoadedModules, Modules, StandIns
from operad.configs.models import make_model, override
from operad.configs.read_capabilities import read_capabilities
from operad.configs.reading import read_configuration
from operad.configs.remarks import remarks_on
from operad.configs.schema import ConfigSpec, ExpertSpec, LeaderSpec
from operad.operators import Services
from operad.runtime.agents.agent import Agent, Expert, Profile
from operad.runtime.agents.leader import Leader
from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner, own_or, reasoner_of
from operad.runtime.tools.toolkit import Action, Toolkit
from operad.runtime.values.document import Document, parse_document, read_document
from operad.runtime.values.errors import InputError, OperadError, did_you_mean
from operad.runtime.workflow.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Configuration:
    """A loaded configuration file.

        configuration: Configuration = load("expert.yaml")
        print([profile.name for profile in configuration.profiles])

    Attributes:
        name: Name of the file, as given by the user.
        spec: Its content.
        profiles: Profiles of the experts, in the order of the file.
        toolkit: The graph of the file's actions and tools.
        services: Services of the typed nodes.
        capabilities: What the file can do outside of its folder.
        remarks: Properties that a `preview` could not determine without running code, and parts without effect.
    """

    name: str
    spec: ConfigSpec
    profiles: tuple[Profile, ...]
    toolkit: Toolkit
    services: Services
    _workflows: Mapping[str, Workflow] = field(repr=False)
    _leader_actions: tuple[Action, ...] = field(repr=False)
    capabilities: Capabilities
    remarks: tuple[str, ...] = ()

    @property
    def workflows(self) -> Mapping[str, Workflow]:
        """The experts' workflows, by the experts' names."""
        return self._workflows

    def agent(
        self,
        name: str | None = None,
        *,
        model: Model | Reasoner | None = None,
        model_name: str | None = None,
        base_url: str | None = None,
    ) -> Agent:
        """Return the agent with a name; without a name, the leader, or the only expert.

        Arguments and errors are those of `expert`.
        """
        leader_spec = self.spec.leader
        if leader_spec is not None and name in (None, leader_spec.profile.name):
            return self.leader(model=model, model_name=model_name, base_url=base_url)
        return self.expert(name, model=model, model_name=model_name, base_url=base_url)

    def leader(
        self, *, model: Model | Reasoner | None = None, model_name: str | None = None, base_url: str | None = None
    ) -> Leader:
        """Return the leader with all experts.

        The arguments are those of `expert`, and apply to the leader and to all experts.

        Raises:
            InputError: The file configures no leader; or as `expert`.
        """
        spec = self.spec.leader
        if spec is None:
            raise InputError(f"{self.name}: configures no leader; add one under `leader`")
        reasoner = self._reasoner(spec, model, model_name, base_url)
        experts = [
            self.expert(profile.name, model=model, model_name=model_name, base_url=base_url)
            for profile in self.profiles
        ]
        return Leader(
            Profile(name=spec.profile.name, description=spec.profile.desc),
            [self._in_team(expert, reasoner) for expert in experts],
            reasoner,
            actions=self._leader_actions,
            toolkit=self.toolkit,
            max_splits=spec.max_splits,
            life_cycles=spec.life_cycles,
            max_depth=spec.max_depth,
            budget=make_budget(spec.budget),
            memory=self._memory(spec),
        )

    def expert(
        self,
        name: str | None = None,
        *,
        model: Model | Reasoner | None = None,
        model_name: str | None = None,
        base_url: str | None = None,
    ) -> Expert:
        """Return the expert with a name; without a name, the only expert.

        Args:
            name: Name in the expert's profile.
            model: Model or reasoner to use instead of the file's. If neither is given, the environment names the model when it is
                first used.
            model_name: Name of the model, instead of the name in the file.
            base_url: Endpoint, instead of the file's endpoint or of the embedded model.

        Raises:
            InputError: The expert does not exist; or `name` is missing, and the file does not configure exactly one
                expert; or the environment variable that the file names for the key is not set.
        """
        names = [profile.name for profile in self.profiles]
        if not names:
            raise InputError(f"{self.name}: configures no experts; add one under `experts`")
        if name is None:
            if len(names) > 1:
                raise InputError(
                    f"{self.name}: configures {len(names)} experts; choose one: {', '.join(names)} "
                    f"(on the command line: --expert {shlex.quote(names[0])})"
                )
            name = names[0]
        if name not in names:
            raise InputError(
                f"{self.name}: no expert is called {name!r}{did_you_mean(name, names)}; there are: {', '.join(names)}"
            )
        spec = self.spec.experts[names.index(name)]
        reasoner = self._reasoner(spec, model, model_name, base_url)
        return Expert(self.profiles[names.index(name)], self._workflows[name], reasoner, self._memory(spec))

    def names_reasoner(self, name: str) -> bool:
        """Return True if the file names the model, or sets the reasoner, of the agent with a name.

        Otherwise the agent uses the model of the environment.
        """
        agents = [self.spec.leader, *self.spec.experts]
        spec = next(spec for spec in agents if spec is not None and spec.profile.name == name)
        return any((spec.model, self.spec.model, spec.reasoner.model_fields_set, self.spec.reasoner.model_fields_set))

    def _in_team(self, expert: Expert, leader_reasoner: Reasoner) -> Expert:
        """Return an expert for a leader; an expert for which the file names no model can use the model of a run."""
        spec = next(spec for spec in self.spec.experts if spec.profile.name == expert.profile.name)
        if spec.model or self.spec.model:
            return expert
        return _ExpertWithoutModel(expert, leader_reasoner, self.names_reasoner(expert.profile.name))

    def _memory(self, spec: ExpertSpec | LeaderSpec) -> int:
        return (spec.memory or self.spec.memory).tokens

    def _reasoner(
        self,
        spec: ExpertSpec | LeaderSpec,
        model: Model | Reasoner | None,
        model_name: str | None,
        base_url: str | None,
    ) -> Reasoner:
        if model is not None and not isinstance(model, Model):
            return reasoner_of(model)
        model_spec = override(spec.model or self.spec.model, model_name, base_url)
        if model is None and model_spec is not None:
            model = make_model(model_spec)
        rounds = spec.reasoner.max_rounds or self.spec.reasoner.max_rounds
        if (spec.reasoner.type or self.spec.reasoner.type) == "DUAL":
            return DualModelReasoner(model, max_rounds=rounds)
        return MonoModelReasoner(model, max_rounds=rounds)


class _ExpertWithoutModel(Expert):
    """Expert in the team of a leader; the file names no model for it.

    Args:
        keeps_settings: True if the file sets the expert's reasoner.
    """

    uses_model_of_run = True

    def __init__(self, expert: Expert, leader_reasoner: Reasoner, keeps_settings: bool) -> None:
        super().__init__(expert.profile, expert.workflow, expert.reasoner, expert.memory)
        self._leader_reasoner = leader_reasoner
        self._keeps_settings = keeps_settings

    def reasoner_in(self, reasoner: Reasoner) -> Reasoner:
        """Return the reasoner of a run, with the expert's settings; in a run with the leader's reasoner, its own."""
        if reasoner is self._leader_reasoner:
            return self.reasoner
        own = self.reasoner if self._keeps_settings else None
        if own_or(own, reasoner) is reasoner:
            return reasoner
        if isinstance(own, MonoModelReasoner | DualModelReasoner) and isinstance(reasoner, MonoModelReasoner):
            with suppress(InputError):  # without a model, the operators that ask one raise the error
                return own.with_model(reasoner.model)
        return reasoner


def load(path: str | Path, *, trust: Trust = False) -> Configuration:
    """Load a configuration file.

        expert = load("expert.yaml").expert()
        print(expert.profile.name)

    Args:
        path: The file; or the name of a configuration that comes with this package, such as
            ``designer``.
        trust: True if the file may do what it can: run code, send keys and prompts to other endpoints than those of
            the environment, read and write outside of its folder, reach internal addresses. Or a function that decides
            for its `Capabilities`.

    Raises:
        InputError: The file does not exist or is not text.
        InvalidError: The file is not valid; every issue has its line and its path in the file.
        UntrustedError: The file needs trust; nothing of what it can do was done.
    """
    with found_file(path) as file:
        return _load(read_document(file, name=str(path)), file.resolve().parent, trust)


def load_text(text: str, name: str, folder: Path, *, trust: Trust = False) -> Configuration:
    """Load a configuration from text.

    Args:
        text: Text in YAML.
        name: Name of the text in error messages.
        folder: Base folder of relative paths in the text.

    Raises:
        InputError: The text is empty.
        InvalidError, UntrustedError: As `load`.
    """
    return _load(parse_document(text, name), folder.resolve(), trust)


def preview(path: str | Path) -> Configuration:
    """Read a configuration file without doing anything that needs trust; stand-ins replace the code that it names.

    The configuration can be inspected, and its workflows drawn; experts with stand-ins cannot run. Nothing outside of
    the folder of the file is read.

    Raises:
        InputError, InvalidError: As `load`.
    """
    with found_file(path) as file:
        document, folder = read_document(file, name=str(path)), file.resolve().parent
        return _preview(document, *_read(document, folder))


def preview_text(text: str, name: str, folder: Path) -> Configuration:
    """Read a configuration from text as `preview` does.

    Args:
        text: Text in YAML.
        name: Name of the text in error messages.
        folder: Base folder of relative paths in the text.

    Raises:
        InputError, InvalidError: As `load`.
    """
    document = parse_document(text, name)
    return _preview(document, *_read(document, folder.resolve()))


def _load(document: Document, folder: Path, trust: Trust) -> Configuration:
    spec, capabilities = _read(document, folder)
    if not is_trusted(trust, capabilities):
        _preview(document, spec, capabilities)  # faults of the file are reported before missing trust
        raise UntrustedError(capabilities)
    return _build(document, spec, capabilities, LoadedModules(capabilities, pins_of(trust, capabilities)))


def _preview(document: Document, spec: ConfigSpec, capabilities: Capabilities) -> Configuration:
    modules = StandIns(capabilities)
    configuration = _build(document, spec, capabilities, modules)
    needs_trust = [f"needs trust: it {line}" for line in capabilities.lines] if capabilities else []
    return replace(
        configuration, remarks=(*needs_trust, *modules.remarks, *remarks_on(spec, document, capabilities.folder))
    )


def _read(document: Document, folder: Path) -> tuple[ConfigSpec, Capabilities]:
    """Return the validated content of a file and what it can do.

    If the content is not valid, the valid rest of it is built with stand-ins, to report its faults as well.
    """
    faults = Faults(document)
    spec = read_configuration(document, faults)
    if spec is not None and not faults:
        return spec, read_capabilities(document.name, document.data, folder, spec)
    if spec is not None:
        with suppress(OperadError):
            build(spec, folder, faults, StandIns(read_capabilities(document.name, document.data, folder, spec)))
    raise faults.error()


def _build(document: Document, spec: ConfigSpec, capabilities: Capabilities, modules: Modules) -> Configuration:
    faults = Faults(document)
    built = build(spec, capabilities.folder, faults, modules)
    if faults:
        raise faults.error()
    profiles = tuple(Profile(name=expert.profile.name, description=expert.profile.desc) for expert in spec.experts)
    return Configuration(
        document.name,
        spec,
        profiles,
        built.toolkit,
        built.services,
        built.workflows,
        built.leader_actions,
        capabilities,
    )


@contextmanager
def found_file(path: str | Path) -> Generator[Path, None, None]:
    """Yield the file at a path, or the file of a configuration that comes with this package.

    Raises:
        InputError: The file does not exist, and a configuration of this package has a similar name.
    """
    included = {
        file.name.removesuffix(".yaml"): file
        for file in files("operad.configs").iterdir()
        if file.name.endswith(".yaml")
    }
    try:
        exists = Path(path).exists()
    except OSError:  # for example, too long for a path
        exists = True
    if not exists and str(path) in included:
        with as_file(included[str(path)]) as file:
            yield file
    elif not exists and (hint := did_you_mean(str(path), included)):
        raise InputError(f"{path}: no such file{hint}")
    else:
        yield Path(path)
