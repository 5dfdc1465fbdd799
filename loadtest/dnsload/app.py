"""One run, put together: from settings to a report."""

import asyncio
import contextlib
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from dnsload.batched import BatchedEngine
from dnsload.channels import Connection, Datagrams
from dnsload.checking import Checker
from dnsload.errors import InputError
from dnsload.exchange import IDS, Exchange
from dnsload.expectations import read_records
from dnsload.looped import LoopedEngine, fine_loop
from dnsload.mmsg import available
from dnsload.recording import Recording, Row, Steps
from dnsload.report import About, Report, make_report
from dnsload.schedule import ClosedLoop, OpenLoop, Pacing, Schedule
from dnsload.session import Session
from dnsload.settings import Settings, Speed
from dnsload.targets import Target
from dnsload.text import progress_line
from dnsload.workload import Question, Workload, parse_questions, read_questions

_ASYNCIO_RATE = 3000
_SOAK_WINDOW = 10
_FINE_SECONDS = 3600
"""A run up to this long has windows of a second."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(settings: Settings) -> Report:
    """Do the run and return what it found; Ctrl-C or SIGTERM ends it early. Raises InputError."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    engine = choose_engine(settings)
    session = make_session(settings)
    conduct = _run_batched if engine == "mmsg" else _run_looped
    exchanges, interrupted = conduct(session, every_target(settings), settings)
    return make_report(settings, session, exchanges, About(started, engine, interrupted))


def make_session(settings: Settings) -> Session:
    """Read the names and prepare the run; raises InputError."""
    workload = make_workload(settings)
    checker = Checker(workload.pool, stream=settings.tcp, authoritative=not settings.form.recursion_desired)
    return Session(workload, checker, _pacing(settings.speed), _recording(settings), settings.timeout)


def choose_engine(settings: Settings) -> str:
    """Return `asyncio` or `mmsg`; raises InputError where the chosen one doesn't work here."""
    if settings.engine == "mmsg" and not available():
        raise InputError("--engine mmsg needs Linux on a 64-bit machine")
    if settings.engine != "auto":
        return settings.engine
    fast = settings.speed.fastest > _ASYNCIO_RATE
    return "mmsg" if fast and not settings.tcp and available() else "asyncio"


def every_target(settings: Settings) -> Sequence[Target]:
    """Return the target of each socket: as many as asked for, or more where IDs would run out within a time-out."""
    each = settings.sockets
    if not settings.tcp and not math.isinf(settings.speed.fastest):
        outstanding = settings.speed.fastest * settings.timeout / len(settings.targets)
        each = max(each, math.ceil(outstanding / (IDS * 0.75)))
    return settings.targets * each


def make_workload(settings: Settings) -> Workload:
    """Read the names and make the packets; raises InputError."""
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
        return lambda start: ClosedLoop(concurrency, speed.seconds, start)
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
    """Say nothing of *row*."""


def _run_batched(session: Session, targets: Sequence[Target], settings: Settings) -> tuple[Sequence[Exchange], bool]:
    stop = threading.Event()
    engine = BatchedEngine(session, targets, stop)
    with _on_signals(stop.set):
        engine.run()
    return engine.exchanges, stop.is_set()


@contextlib.contextmanager
def _on_signals(act: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: act()) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_looped(session: Session, targets: Sequence[Target], settings: Settings) -> tuple[Sequence[Exchange], bool]:
    engine = LoopedEngine(session, targets, Connection if settings.tcp else Datagrams)
    with asyncio.Runner(loop_factory=fine_loop) as runner:
        return engine.exchanges, runner.run(_until_signal(engine))


async def _until_signal(engine: LoopedEngine) -> bool:
    """Run the engine; returns whether a signal ended it."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(engine.run())
    for number in _SIGNALS:
        loop.add_signal_handler(number, running.cancel)
    await asyncio.wait([running])
    if running.cancelled():
        return True
    running.result()
    return False
