"""Checks whether a tailnet is set up for the operator, and reports what is missing.

It does so at the start of the operator, and regularly after that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tsoperator.api.objects import POD, Key, Object
from tsoperator.api.policy import UNSUPPORTED, is_tailscales
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.plan import Note
from tsoperator.runtime.workqueue import nine_to_ten_tenths
from tsoperator.settings import Settings
from tsoperator.tailnet.refusals import AUTH_KEYS, DEVICES, NAMES, SERVICES, client_words, explain, lacking
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import UNTOLD, ControlError, CredentialsUnreadable, Forbidden, Granted, Unauthorized

log = logging.getLogger(__name__)

_MINUTE: Final = 60.0  # s until the next look when something is missing, because somebody may have fixed it
_DAY: Final = 24 * 60  # minutes until the next look when all is well
_HOUR: Final = 60  # minutes after which what is still missing is reported again
_CALL: Final = 10.0  # s that reading our own Pod may take
_REFUSALS: Final = ("401", "403")
_SCOPE_CHECKS = {"auth_keys": AUTH_KEYS, "devices": DEVICES}


@dataclass(slots=True)
class Findings:
    """The results of the checks of a tailnet.

    *passed* tells for each check whether it passed; it leaves out checks that could not be made. *wrong* has a message
    for each check that failed. *news* are further notes to report. *server* is the kind of control server. *granted*
    has the rights of the OAuth client, as the server says.

    The checks are ``api`` (the URL answers as a control server), ``credentials``, ``auth_keys``, ``devices`` and
    ``services`` (the OAuth scopes; ``services`` is checked only while somebody needs it) and ``tags`` (the OAuth client
    has a tag).
    """

    passed: dict[str, bool] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    news: list[Note] = field(default_factory=list)
    server: str = ""
    granted: Granted = UNTOLD

    @property
    def complete(self) -> bool:
        """True if no check has failed, so that nobody has to fix anything."""
        return all(self.passed.values())

    def note(self, check: str, message: str) -> None:
        """Note that *check* has failed, with a *message* for the user."""
        self.passed[check] = False
        self.wrong[check] = message

    @property
    def notes(self) -> list[Note]:
        """The Events that report these findings."""
        return [*(Note("Warning", "PreflightFailed", message) for message in self.wrong.values()), *self.news]


Subject = Callable[[], Awaitable[Object | None]]
"""A function that returns the object about which the operator writes Events; None if there is none now."""


def own_pod(client: KubeClient, settings: Settings) -> Subject:
    """Return a function that reads the operator's Pod. Events about the operator's own tailnet are about this Pod."""

    async def read() -> Object | None:
        if not settings.pod_name:
            return None
        try:
            async with asyncio.timeout(_CALL):
                return await client.get(POD, Key(settings.namespace, settings.pod_name))
        except (KubeError, TimeoutError) as error:
            log.warning("preflight: no Event on the operator's Pod, which can't be read: %r", error)
            return None

    return read


class Preflight:
    """Checks the tailnet regularly, and reports in the log, in Events about *subject*, and in metrics.

    A failed check doesn't stop the operator. If something is missing, the call that needs it fails, and the object that
    needs the call reports that, too. *name* is the name of the Tailnet; it is empty for the operator's own tailnet.
    *needs_services* tells whether anybody needs Tailscale Services now; it can be replaced at any time.
    """

    def __init__(
        self,
        tailnet: TailnetClient,
        events: EventRecorder,
        subject: Subject,
        name: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tailnet = tailnet
        self._events = events
        self._subject = subject
        self._which = f"Tailnet {name}" if name else "the tailnet"
        self._client = f"the OAuth client of Tailnet {name}" if name else "the operator's OAuth client"
        self._sleep = sleep
        self._looking = False
        self._refused = False
        self._told: list[Note] | None = None  # the notes of the most recent report, if there was one
        self._listeners: list[Callable[[], None]] = []
        self.findings = Findings()
        self.needs_services: Callable[[], bool] = lambda: False
        tailnet.listen(self.observe)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call *listener* when the findings differ from those of the check before."""
        self._listeners.append(listener)

    def observe(self, status: str) -> None:
        """Take note of the *status* of an answer of the control server.

        After a refusal, check the tailnet within a minute.
        """
        self._refused |= not self._looking and status in _REFUSALS

    async def run(self) -> None:
        """Check the tailnet until cancelled: at once, and after that each day.

        While something is missing or the server refuses calls, check it each minute. Report the findings when they
        change. While something is missing, also report them each hour.
        """
        minutes, before = 0, None
        while True:
            try:
                self.findings = await self._look_quietly()
                if before not in (None, self.findings):
                    for listener in self._listeners:
                        listener()
                before = self.findings
                if minutes >= _HOUR or self.findings.notes != self._told:
                    minutes = 0
                    told, self._told = self._told, self.findings.notes
                    await self._tell(self.findings, told)
            except Exception:  # the operator goes on, whatever is wrong with this look
                log.exception("preflight: could not look whether %s is set up", self._which)
            minutes += await self._rest()

    async def _look_quietly(self) -> Findings:
        """Check the tailnet.

        A refusal of a call that this check makes doesn't cause another check.
        """
        self._looking, self._refused = True, False
        try:
            return await self.look()
        finally:
            self._looking = False

    async def _rest(self) -> int:
        """Wait until it is time for the next check, and return the number of minutes that have passed."""
        minutes = 0
        while True:
            await self._sleep(_MINUTE * nine_to_ten_tenths())
            minutes += 1
            if minutes >= _DAY or self._refused or not self.findings.complete:
                return minutes

    async def look(self) -> Findings:
        """Check the tailnet now, and return the findings.

        The checks request an access token, and read from the control server; they change nothing in the tailnet.
        """
        findings = Findings()
        try:
            await self._look(findings)
        except (CredentialsUnreadable, Unauthorized) as error:
            findings.note("credentials", explain(error).message)
        except ControlError as error:
            findings.note("api", explain(error).message)
        return findings

    async def _look(self, findings: Findings) -> None:
        """Make the checks of the tailnet, and put their results into *findings*.

        The first check gets an access token. Raises ControlError if that fails, because the other checks need the
        token.
        """
        url = self._tailnet.url
        granted = findings.granted = await self._tailnet.granted(anew=True)
        findings.passed |= {"api": True, "credentials": True}
        if granted.tags is not None:
            findings.passed["tags"] = True
        if granted.tags == ():
            findings.note("tags", f"{self._client} has no tag, so it can make no auth keys: use {client_words(url)}")
        for check, scope in _SCOPE_CHECKS.items():
            self._check_scope(findings, check, scope)
        try:
            await self._tailnet.devices()
        except Forbidden as error:
            if findings.passed.get("devices", True):
                findings.note("devices", explain(error).message)
        else:
            findings.passed.setdefault("devices", True)
        await self._look_at_features(findings)

    def _check_scope(self, findings: Findings, check: str, scope: str) -> None:
        """Note whether the OAuth client has *scope*, if the control server says so."""
        if lacking(findings.granted, scope):
            message = f"{self._client} has not the scope {NAMES[scope]} ({scope}) with write access"
            findings.note(check, f"{message}: use {client_words(self._tailnet.url, scope)}")
        elif findings.granted.scopes is not None:
            findings.passed[check] = True

    async def _look_at_features(self, findings: Findings) -> None:
        url = self._tailnet.url
        if is_tailscales(url) or await self._tailnet.has_services():
            findings.server = "tailscale"
            if self.needs_services():
                self._check_scope(findings, "services", SERVICES)
            return
        findings.server = "headscale"
        message = (
            f"the control server {url} is not Tailscale's and has no Tailscale Services: highly available Ingresses "
            "and Services (on a ProxyGroup) can't work with it. If it is Headscale it has no HTTPS certificates for "
            "devices and no Funnel either, so Ingresses and Funnel can't work. Egress, exposed Services, Connectors "
            "and their names do"
        )
        findings.news.append(Note("Normal", UNSUPPORTED, message))

    async def _tell(self, findings: Findings, told: list[Note] | None) -> None:
        """Report the findings in the log and by Events.

        The notes in *told* have been reported before, so this method logs them at level DEBUG.
        """
        for note in findings.notes:
            level = logging.WARNING if note.type == "Warning" else logging.INFO
            log.log(level if note not in (told or ()) else logging.DEBUG, "%s: %s", self._which, note.message)
        if findings.complete and findings.notes != told:
            log.info("%s is set up for the operator, as far as can be seen", self._which)
        subject = await self._subject() if findings.notes else None
        if subject is None:
            return
        for note in findings.notes:
            await self._events.event(subject, note.type, note.reason, note.message)


class PreflightMetrics(Collector):
    """The metrics of the findings about each tailnet.

    *findings* returns the findings by the name of the Tailnet, which is empty for the operator's own tailnet.
    """

    def __init__(self, findings: Callable[[], Mapping[str, Findings]]) -> None:
        self._findings = findings

    def collect(self) -> Iterator[Metric]:
        """Yield metrics of the most recent findings. prometheus_client calls this method at each scrape."""
        checks = GaugeMetricFamily(
            "tsoperator_preflight",
            "Whether the tailnet is set up for the operator, by check.",
            labels=["check", "tailnet"],
        )
        server = GaugeMetricFamily(
            "tsoperator_control_server", "The kind of control server.", labels=["kind", "tailnet"]
        )
        for name, found in self._findings().items():
            for check, passed in found.passed.items():
                checks.add_metric([check, name], float(passed))
            if found.server:
                server.add_metric([found.server, name], 1)
        yield from (checks, server)
