"""`operad serve`: the server as a process."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from operad.cli.durable import open_ledger
from operad.cli.follow import GRACE
from operad.cli.interruptible import end_children, signals_heard
from operad.cli.logs import ServerLog
from operad.cli.options import BaseUrl, ModelName, ServedFiles, ServicesFile
from operad.cli.remarks import Lossy
from operad.cli.telemetry import MetricsHost, MetricsPort, Traced, listening
from operad.cli.trust_store import Trusted, trusting
from operad.configs.capabilities import Trust, UntrustedError
from operad.configs.models import model_line
from operad.configs.python_reference import is_reference
from operad.configs.runnable import Source
from operad.runtime.observe.metrics import Metrics
from operad.runtime.observe.metrics import serve as serve_metrics
from operad.runtime.values.errors import InputError, InvalidError, Issue, MissingExtraError, OperadError
from operad.runtime.values.pip import pip_install
from operad.runtime.values.text import printable
from operad.server.api.experts import Offer, by_name, leads, offers_of
from operad.server.api.hooks import Hook, QuestionListener, send_end
from operad.server.http.addresses import LOOPBACK, is_loopback, read_networks
from operad.server.http.bounds import DEFAULT_BOUNDS, Bounds
from operad.server.http.guard import read_origins
from operad.server.http.keys import SHORTEST_KEY, Key, read_key_file, read_keys

if TYPE_CHECKING:
    from operad.server.api.app import Serving

    MakeServing = Callable[..., Serving]

KEYS = "OPERAD_SERVE_KEYS"

_MAX_KEY_FILE = 2**20
"""Maximum size of a file of keys, in bytes."""

_CLOSING_SECONDS = 5.0
"""Seconds for connections to end after all runs have ended."""


def serve(
    configs: ServedFiles,
    host: Annotated[
        str, typer.Option(help="Address to listen at. One that other machines can reach requires keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free port.")] = 8321,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            "--key-file",
            help=f"File of accepted keys: YAML with their hashes (operad key), or keys, one per line. Alternatively {KEYS}, separated by spaces.",
        ),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Database of durable runs: an SQLite file, or a PostgreSQL URL; default: OPERAD_DB. Unfinished runs resume at the start.",
        ),
    ] = None,
    workers: Annotated[
        bool,
        typer.Option(
            "--workers", help="Let workers execute the operators: operad worker FILE, on any machines. Needs --db."
        ),
    ] = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    services: ServicesFile = None,
    max_runs: Annotated[
        int, typer.Option(min=1, help="Maximum number of runs at once, including those that wait for a person.")
    ] = (DEFAULT_BOUNDS.runs),
    run_seconds: Annotated[
        float,
        typer.Option(
            min=0.1, help="Time limit of a run, in seconds. With --db, a run that waits for a person is set aside."
        ),
    ] = DEFAULT_BOUNDS.seconds,
    max_body: Annotated[int, typer.Option(min=1, help="Maximum size of a request, in bytes.")] = DEFAULT_BOUNDS.body,
    keep: Annotated[int, typer.Option(min=0, help="Number of ended runs that can still be requested.")] = (
        DEFAULT_BOUNDS.kept
    ),
    keep_seconds: Annotated[
        float, typer.Option(min=0, help="Time for which ended runs can be requested, in seconds.")
    ] = DEFAULT_BOUNDS.kept_seconds,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of requests per minute and key; by default no limit.")
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Let pages of this origin use the server. Repeatable."),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address or network of a proxy whose X-Forwarded-For names the clients. Repeatable.",
        ),
    ] = None,
    on_question: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address that is told of each question of a run, such as a Slack webhook; may name secrets.",
        ),
    ] = None,
    on_end: Annotated[
        str | None, typer.Option(metavar="URL", help="Address that is told of the end of each run; may name secrets.")
    ] = None,
    lossy: Lossy = False,
    grace: Annotated[float, typer.Option(min=0, help="Seconds for runs to finish at the end.")] = 30.0,
    trace: Traced = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    trust: Trusted = False,
) -> None:
    """Serve experts as OpenAI chat models (/v1), MCP tools (/mcp) and a run API (/runs).

    A file is named by its path, a workflow in Python as module:name. The page at / lists the paths, and has a chat; the
    page at /view shows the runs.

    It serves until SIGTERM or Ctrl-C; then it begins no more runs, lets those in progress finish, and ends with
    exit status 0. A second signal ends it immediately. Models and their keys are the server's own, from its files and
    its environment. GET /openapi.json describes all paths.
    """
    keys = read_keys(re.split(r"[\s,]+", os.environ.get(KEYS, "")), KEYS)
    if not is_loopback(host) and not keys and key_file is None:
        raise InputError(
            f"--host {host}: other machines can reach it without a key; set keys of {SHORTEST_KEY} or more "
            f"characters with --keys FILE, or in {KEYS}"
        )
    origins = read_origins(cors_origin or (), "--cors-origin")
    proxies = read_networks(trusted_proxy or (), "--trusted-proxy")
    services_path = None if services is None else str(services)
    sources = [
        Source(file=file, model=model, base_url=base_url, services=services_path, lossy=lossy, workers=workers)
        for file in configs
    ]
    db = db if db is not None else os.environ.get("OPERAD_DB") or None
    if workers and (model or base_url):
        raise InputError("workers have models of their own: say --model and --base-url to operad worker, not here")
    if workers and db is None:
        raise InputError("--workers needs the database of the workers: --db postgresql://…, or OPERAD_DB")
    found = trusting(lambda trusted: _load_offers(sources, trusted), trust)
    offers = by_name(found)
    if key_file is not None:
        keys += _keys_of_file(key_file, list(offers), keys)
    if db is not None:
        offers = {name: _kept_in(offer, db, offers.values(), workers=workers) for name, offer in offers.items()}
        _ = [
            offer.ledger.store for offer in offers.values() if offer.ledger
        ]  # reports problems of the database before the server starts
    bounds = Bounds(
        runs=max_runs,
        seconds=run_seconds,
        body=max_body,
        kept=keep,
        kept_seconds=keep_seconds,
        requests_a_minute=requests_per_minute,
    )
    make_serving, uvicorn = _import_server()
    with ExitStack() as stack:
        sockets = stack.enter_context(_listening_sockets(host, port))
        listeners = [*stack.enter_context(listening(trace))]
        if metrics_port is not None:
            metrics = Metrics()
            bound_port, stop = serve_metrics(metrics.registry, metrics_port, metrics_host)
            stack.callback(stop)
            print(f"metrics: http://{metrics_host}:{bound_port}/metrics", file=sys.stderr, flush=True)
            listeners.append(metrics)
        if on_question is not None:
            stack.callback((hook := Hook(on_question, "--on-question")).close)
            listeners.append(QuestionListener(hook, f"{_address(host, sockets[0].getsockname()[1])}/inbox"))
        for offer, listener in product(offers.values(), listeners):
            offer.agent.workflow.add_listener(listener)
        end_hook = Hook(on_end, "--on-end") if on_end is not None else None
        if end_hook is not None:
            stack.callback(end_hook.close)
        setting = _Setting(offers, keys, host, bounds, grace, origins, proxies, end_hook)
        asyncio.run(_serve(setting, sockets, make_serving, uvicorn, stack.enter_context(ServerLog())))


def _load_offers(sources: Sequence[Source], trust: Trust) -> list[Offer]:
    """Return the experts of all files.

    Raises:
        UntrustedError: A file needs trust, and no file has a fault.
        OperadError: Files cannot be served; every issue of every file is listed.
    """
    offers, errors, untrusted = list[Offer](), dict[str, OperadError](), list[UntrustedError]()
    for source in sources:
        try:
            offers += offers_of(source, trust)
        except UntrustedError as error:
            untrusted.append(error)
        except OperadError as error:
            errors[source.file] = error
    if len(set(map(str, errors.values()))) > 1:
        issues = [issue for file, error in errors.items() for issue in _issues_of(file, error)]
        raise InvalidError(f"{len(errors)} files cannot be served", list(dict.fromkeys(issues)))
    for error in [*errors.values(), *untrusted]:
        raise error
    return offers


def _kept_in(offer: Offer, db: str, others: Iterable[Offer], *, workers: bool) -> Offer:
    """Return an offer whose runs are kept in a database, and executed by workers of its file if there are any."""
    served = None
    if workers:
        from operad.runtime.durable.shared_agents import Served  # not at import: it loads the database layer

        file = offer.source.file
        team = [each.agent for each in others if each.source.file == file and not leads(each)]
        served = Served(file if is_reference(file) else Path(file).stem, team)
    return offer.kept_in(open_ledger(db, offer.source, workers=served, durable=offer.durable))


def _issues_of(file: str, error: OperadError) -> Sequence[Issue]:
    if isinstance(error, InvalidError):
        return error.issues
    return [Issue("input", "; ".join(map(str.strip, str(error).removeprefix(f"{file}: ").splitlines())), file)]


@dataclass(frozen=True, slots=True)
class _Setting:
    """Configuration of a server: experts, access, and shutdown."""

    offers: dict[str, Offer]
    keys: Sequence[Key]
    host: str
    bounds: Bounds
    grace: float
    origins: Sequence[str]
    proxies: Sequence[str]
    end_hook: Hook | None

    @property
    def hosts(self) -> Sequence[str] | None:
        """Host names that requests may use; None for any, as keys are required then."""
        if not is_loopback(self.host):
            return None
        own = f"[{self.host}]" if ":" in self.host else self.host
        return list(dict.fromkeys([own, *LOOPBACK]))


async def _serve(
    setting: _Setting, sockets: list[socket.socket], make_serving: MakeServing, uvicorn: Any, log: ServerLog
) -> None:
    """Serve until a signal; the first one shuts down in order, the second one at once."""
    from operad.server.http.connections import http_config, quiet_about_accept

    quiet_about_accept(asyncio.get_running_loop())
    serving = make_serving(
        setting.offers, keys=setting.keys, hosts=setting.hosts, bounds=setting.bounds, origins=setting.origins
    )
    if setting.end_hook is not None:
        serving.runs.on_end = partial(send_end, setting.end_hook)
    config = http_config(serving.app, proxies=setting.proxies, timeout_graceful_shutdown=int(_CLOSING_SECONDS))
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # signals are handled below
    loop, shutdown_tasks = asyncio.get_running_loop(), list[asyncio.Task[None]]()

    async def shut_down() -> None:
        await serving.drain(setting.grace)
        _exit_after(2 * _CLOSING_SECONDS, 1)
        server.should_exit = True

    def begin_shutdown() -> None:
        progress = serving.runs.progress()
        shutdown_tasks.append(asyncio.ensure_future(shut_down()))
        log.put(f"shutting down: {progress}, which may take {setting.grace:g} s; a second signal ends at once")

    received: list[int] = []

    def on_signal(number: int) -> None:
        received.append(number)
        if len(received) == 1:
            loop.call_soon_threadsafe(begin_shutdown)
        else:
            loop.call_soon_threadsafe(serving.runs.stop_all)
            time.sleep(GRACE)
            end_children()
            os._exit(128 + number)

    original_startup = server.startup

    async def startup(sockets: list[socket.socket]) -> None:
        await original_startup(sockets=sockets)
        for line in _greeting(setting, sockets[0].getsockname()[1]):
            log.put(printable(line))

    server.startup = startup  # access lines appear only after the address is printed
    try:
        with signals_heard(on_signal):
            await server.serve(sockets=sockets)
            await asyncio.gather(*shutdown_tasks, return_exceptions=True)
    finally:
        for offer in setting.offers.values():
            if offer.ledger is not None:
                await asyncio.to_thread(offer.ledger.close)  # other processes can then resume its runs at once


def _triggers(offer: Offer) -> Iterator[str]:
    """Yield the lines that show what starts runs of an expert by itself."""
    if offer.webhook is not None:
        trigger = offer.webhook.trigger
        checked = f"signed with {trigger.secret}" if trigger.secret else "with a key of this server, if it has keys"
        yield f"webhook of {offer.name}: {trigger.method.upper()} /webhooks/{quote(offer.name)}, {checked}"
    if offer.schedule is not None:
        times = offer.schedule.trigger
        once = "" if offer.ledger else "; without --db, times that pass while no server runs are not noticed"
        yield f"schedule of {offer.name}: {times.cron} ({times.timezone}){once}"
    if offer.start is not None and offer.start.trigger is not None and offer.start.trigger.kind == "event":
        yield (
            f"{offer.name} waits for events of a plugin, which this server does not receive: POST /runs with the event as "
            "inputs"
        )


def _greeting(setting: _Setting, port: int) -> Iterator[str]:
    """Return the lines that show the experts, their models, and the address."""
    yield from (f"serves: {offer.name}" for offer in setting.offers.values())
    for offer in setting.offers.values():
        yield from _triggers(offer)
    models = dict.fromkeys(model_line(offer.agent.reasoner) for offer in setting.offers.values())
    yield from filter(None, models)
    asks = f"{len(setting.keys)} key{'s' if len(setting.keys) != 1 else ''}" if setting.keys else "no key required"
    yield f"{_address(setting.host, port)} (/v1, /runs, /inbox, /mcp, /view, /openapi.json; {asks})"


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _keys_of_file(file: Path, experts: Sequence[str], others: Sequence[Key]) -> tuple[Key, ...]:
    """Return the keys of a file: YAML with hashes, or keys in lines.

    Raises:
        InputError: The file cannot be read or holds no key, or a key is not valid.
        InvalidError: The YAML is not valid.
    """
    if file.suffix in (".yaml", ".yml"):
        return read_key_file(file, experts, others)
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_KEY_FILE).decode()
    except OSError as error:
        raise InputError(f"--keys {file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--keys {file}: is not UTF-8 text") from error
    read = read_keys(text.splitlines(), f"--keys {file}", len(others))
    if not read:
        raise InputError(f"--keys {file}: holds no key; write one a line")
    return read


@contextmanager
def _listening_sockets(host: str, port: int) -> Generator[list[socket.socket], None, None]:
    """Yield a socket that listens at an address."""
    opened = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen()
        opened.setblocking(False)
    except (OSError, UnicodeError) as error:
        if opened is not None:
            opened.close()
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen at {host}:{port}: {why}; choose another with --port, or any free one with --port 0"
        ) from error
    with opened:
        yield [opened]


@contextmanager
def _no_signals() -> Generator[None, None, None]:
    yield


def _exit_after(seconds: float, status: int) -> None:
    """End the process after some seconds, even if threads or connections hang."""
    timer = threading.Timer(seconds, os._exit, [status])
    timer.daemon = True
    timer.start()


def _import_server() -> tuple[MakeServing, Any]:
    """Return the function that makes a server, and uvicorn; raise MissingExtraError if they are not installed."""
    try:
        return import_module("operad.server.embed").serving, import_module("uvicorn")
    except ImportError as error:
        raise MissingExtraError(f"operad serve needs the extra `serve` ({error}): {pip_install('serve')}") from error
