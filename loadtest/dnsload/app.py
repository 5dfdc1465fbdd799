"""Does one run of dnsload, from its settings to its report."""

import asyncio
import contextlib
import math
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from dnsload.channels import Alone, Connection, Datagrams
from dnsload.checking import Checker
from dnsload.client import BUILT, Load, compile_client
from dnsload.compiled import CompiledEngine, shared
from dnsload.errors import ClientError, InputError
from dnsload.exchange import IDS
from dnsload.expectations import read_records
from dnsload.looped import LoopedEngine, fine_loop
from dnsload.recording import Recording, Row, Steps
from dnsload.report import About, Asker, Report, make_report
from dnsload.schedule import ClosedLoop, OpenLoop, Pacing, Schedule
from dnsload.session import Session
from dnsload.settings import Settings, Speed
from dnsload.targets import Target, udp_socket
from dnsload.text import progress_line
from dnsload.workload import Question, Workload, parse_questions, read_questions

_ASYNCIO_RATE = 3000
_MOST_CONNECTIONS = 500
_QUERIES_OF_CONNECTION = 100
"""The default number of queries on one TCP connection. NSD, for example, closes a connection after 100 queries."""
_SOAK_WINDOW = 10
_FINE_SECONDS = 3600
"""The longest run, in seconds, whose report has a window for each second."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(settings: Settings) -> Report:
    """Do the run, and return its report. Ctrl-C or SIGTERM ends it early. Raises InputError and ClientError."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    workload = make_workload(settings)
    settings = limited(settings, workload.questions)
    session = make_session(settings, workload)
    for target in settings.targets:
        udp_socket(target, settings.source).close()  # fails if the target can't be reached
    with contextlib.ExitStack() as stack:
        program, engine = choose_engine(settings, stack)
        if not settings.quiet:
            sys.stderr.write(f"dnsload: the engine is {engine}\n")
        if program:
            askers, interrupted = _run_compiled(session, settings, program)
        else:
            askers, interrupted = _run_looped(session, settings)
    return make_report(settings, session, askers, About(started, "compiled" if program else "asyncio", interrupted))


def limited(settings: Settings, questions: int) -> Settings:
    """Return *settings* with a limit that ends the run after the last pass, if there are passes.

    *questions* is the number of questions in one pass.
    """
    speed = settings.speed
    if settings.passes is None:
        return settings
    queries = settings.passes * questions
    if speed.concurrency is not None:
        return replace(settings, speed=replace(speed, queries=queries))
    (only,) = speed.segments
    seconds = min(queries / only.first, speed.seconds)
    return replace(settings, speed=replace(speed, segments=(replace(only, seconds=seconds),), seconds=seconds))


def make_session(settings: Settings, workload: Workload) -> Session:
    """Return the session of a run: its queries, its pace, and the recording of its results."""
    checker = Checker(workload.pool, stream=settings.tcp, authoritative=not settings.form.recursion_desired)
    recording = _recording(settings)
    return Session(
        workload, checker, _pacing(settings.speed), recording, settings.timeout, settings.retry, settings.source
    )


def choose_engine(settings: Settings, stack: contextlib.ExitStack, built: Path = BUILT) -> tuple[Path | None, str]:
    """Return the program of the compiled client, or None for the engine on asyncio, and a description of the engine.

    The program is *built* if that exists. Otherwise it is compiled into a folder that *stack* removes. Raises
    InputError and ClientError.
    """
    if not _wants_compiled(settings):
        return None, "asyncio"
    try:
        program = built if built.exists() else compile_client(_folder(stack))
    except ClientError as error:
        if settings.engine == "compiled":
            raise
        return None, f"asyncio: {error}"
    return program, f"compiled, with {settings.workers} worker{'s' if settings.workers > 1 else ''}"


def _wants_compiled(settings: Settings) -> bool:
    apart = settings.tcp and settings.mix.malformed > 0
    if settings.engine == "compiled" and apart:
        raise InputError("--malformed with --tcp needs --engine asyncio")
    if settings.engine != "auto":
        return settings.engine == "compiled"
    return not apart and (settings.speed.fastest > _ASYNCIO_RATE or settings.workers > 1)


def _folder(stack: contextlib.ExitStack) -> Path:
    try:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dnsload-")))
    except OSError as error:
        raise ClientError(f"there is no folder to compile the client in: {error}") from error


def every_target(settings: Settings) -> Sequence[Target]:
    """Return the target of each socket of the asyncio engine.

    If the message IDs would run out, there are more sockets than the user asked for.
    """
    each = settings.sockets
    if not settings.tcp and not math.isinf(settings.speed.fastest):
        outstanding = settings.speed.fastest * settings.timeout / len(settings.targets)
        each = max(each, math.ceil(outstanding / (IDS * 0.75)))
    return settings.targets * each


def make_workload(settings: Settings) -> Workload:
    """Read the names and make the packets of the queries; raises InputError."""
    known = read_records(settings.records) if settings.records else None
    questions: list[Question] = []
    if settings.names_file is not None:
        questions += read_questions(settings.names_file, settings.types)
    questions += parse_questions(settings.names, settings.types)
    if not questions and known is not None:
        questions = [Question(name, qtype) for name in known.addresses for qtype in settings.types]
    if not questions:
        raise InputError("there is no name to ask for")
    return Workload(questions, known, settings.form, settings.mix)


def _pacing(speed: Speed) -> Callable[[int], Pacing]:
    concurrency = speed.concurrency
    if concurrency is not None:
        return lambda start: ClosedLoop(concurrency, speed.seconds, start, speed.queries)
    return lambda start: OpenLoop(Schedule(speed.segments), start)


def _recording(settings: Settings) -> Recording:
    long = settings.soak or settings.speed.seconds > _FINE_SECONDS
    steps = len(settings.speed.segments) or 1
    window = _SOAK_WINDOW if long else 1
    return Recording(
        window, _silent if settings.quiet else _say, Steps(steps, settings.speed.step_seconds or 1, settings.timeout)
    )


def _say(row: Row) -> None:
    sys.stderr.write(progress_line(row) + "\n")
    sys.stderr.flush()


def _silent(row: Row) -> None:
    """Print nothing about *row*."""


def _run_compiled(session: Session, settings: Settings, program: Path) -> tuple[Sequence[Asker], bool]:
    loads = shared(client_load(settings), settings.workers * len(settings.targets))
    engine = CompiledEngine(session, settings.targets, loads, program)
    with _on_signals(engine.stop):
        engine.run()
    return engine.exchanges, engine.stopped


def client_load(settings: Settings) -> Load:
    """Return the load of all compiled clients together.

    Only its numbers of sockets and connections are those of a single client.
    """
    speed, tcp = settings.speed, settings.tcp
    sockets = max(1, settings.sockets // settings.workers)
    if settings.new_connections:
        sockets = min(_MOST_CONNECTIONS, speed.concurrency or _MOST_CONNECTIONS)
    return Load(
        speed.seconds,
        tuple((segment.first, segment.last) for segment in speed.segments),
        outstanding=speed.concurrency or 0,
        sockets=1 if tcp else sockets,
        connections=sockets if tcp else 0,
        each=1 if settings.new_connections else _QUERIES_OF_CONNECTION,
        patience=settings.timeout,
        every=1,
        authoritative=not settings.form.recursion_desired,
        retry=settings.retry,
        total=speed.queries or 0,
        source=settings.source,
    )


@contextlib.contextmanager
def _on_signals(act: Callable[[], object]) -> Iterator[None]:
    """Call *act* for each signal that ends a run, except for ignored signals.

    A shell script, for example, starts programs in the background with SIGINT ignored.
    """
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: act()) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_looped(session: Session, settings: Settings) -> tuple[Sequence[Asker], bool]:
    tcp = Alone if settings.new_connections else Connection
    engine = LoopedEngine(session, every_target(settings), tcp if settings.tcp else Datagrams)
    with asyncio.Runner(loop_factory=fine_loop) as runner:
        return engine.exchanges, runner.run(_until_signal(engine))


async def _until_signal(engine: LoopedEngine) -> bool:
    """Run the engine, and return True if a signal has ended it."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(engine.run())
    # Don't use loop.add_signal_handler: its removal would give SIGINT Python's default handler, not the previous one.
    with _on_signals(lambda: loop.call_soon_threadsafe(running.cancel)):
        await asyncio.wait([running])
    if running.cancelled():
        return True
    running.result()
    return False
