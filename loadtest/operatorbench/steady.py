"""The third scenario, for our operator only: Services are created one by one.

There are a DNSConfig, a leader and a standby.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from dnsbench.errors import BenchError
from dnsbench.progress import Progress

from operatorbench import operators
from operatorbench.audit import entries
from operatorbench.bench import LIMIT, Watched, measured, prepared, running
from operatorbench.ground import NAMESPACE, USER, Ground
from operatorbench.manifests import dnsconfig
from operatorbench.measure import Kind, Steady, configmap_bytes
from operatorbench.process import Spending

_EVERY = 0.25  # s from one Service to the next
_POD = 2.1  # s until a proxy has an address, as if its Pod had started; no multiple of _EVERY
_PATIENCE = 30.0  # s until the leader must have the Lease and the standby must be ready


@dataclass(frozen=True, slots=True)
class OneByOne:
    """The third scenario, carried out with two running operators, a leader and a standby."""

    leader: Watched
    standby: Spending
    services: int

    async def measure(self, number: int) -> Steady:
        """Measure the step that makes all Services, as run *number*."""
        await self.leader.warm()
        written, spent = self._configmap_bytes(), self.standby.cpu_seconds
        made = await self.leader.step(self._make)
        return Steady(
            kind=Kind.OURS,
            run=number,
            services=self.services,
            made=made,
            rss_mb=self.leader.spending.rss_mb,
            every_seconds=_EVERY,
            standby_cpu_seconds=self.standby.cpu_seconds - spent,
            standby_rss_mb=self.standby.rss_mb,
            configmap_bytes=self._configmap_bytes() - written,
        )

    async def _make(self) -> float:
        started, cluster, count = time.monotonic(), self.leader.cluster, self.services
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                await asyncio.sleep(started + number * _EVERY - time.monotonic())
                group.create_task(self._serve(number))
        await cluster.until(lambda: cluster.reported(count), LIMIT, "all Services say that their proxies are made")
        await cluster.until(lambda: cluster.resolved(count), LIMIT, "all names have addresses")
        return time.monotonic() - started

    async def _serve(self, number: int) -> None:
        """Create a Service, and wait for its proxy.

        `_POD` seconds later, give the proxy an address, as if its Pod were ready.
        """
        name, cluster = f"db-{number}", self.leader.cluster
        await cluster.create([name])
        await cluster.until(lambda: cluster.has_proxy(name), LIMIT, f"{name} has a proxy")
        await asyncio.sleep(_POD)
        await cluster.give_address(name, f"10.244.{number // 250}.{number % 250 + 1}")

    def _configmap_bytes(self) -> int:
        return configmap_bytes(entries(self.leader.spending.ground.audit_log), USER)


def run(ground: Ground, services: int, profile: Path | None, number: int, progress: Progress) -> Steady:
    """Run the third scenario on a fresh cluster, and return its figures.

    With *profile*, the operators write their profiles to two files in the folder of this path. If the last part of the
    path is ``FILE``, these files are called ``leader-FILE`` and ``standby-FILE``.

    Raises:
        BenchError: a program didn't start, or the operator didn't do its work. The text has the end of a log.
    """
    leader, standby = (
        operators.ours(ground.crds, profile and profile.with_name(f"{name}-{profile.name}"), name)
        for name in ("leader", "standby")
    )
    progress.say(f"run {number}: {services} Services, one every {_EVERY:g} s, {Kind.OURS} with a standby")
    with prepared(ground, leader) as servers:
        ground.kubectl("create", "-f", "-", stdin=json.dumps(dnsconfig()))
        with running(ground, leader, servers) as leading:
            ground.wait_for(leading.name, lambda: _holder(ground), _PATIENCE, "a Lease of its own")
            with running(ground, standby, servers) as waiting:
                url = f"http://{standby.environment['OPERATOR_HEALTH_ADDR']}/readyz"
                ground.wait_for(waiting.name, lambda: _answers(url), _PATIENCE, "/readyz")
                holder = _holder(ground)
                figures = measured(
                    ground,
                    [leading, waiting],
                    lambda watched: OneByOne(watched, Spending(waiting, ground), services).measure(number),
                )
                if _holder(ground) != holder:
                    raise BenchError("another operator leads now than at the start: the machine is too busy to measure")
    each = f"{figures.cpu_ms:.1f} ms of CPU a Service for the leader, {figures.standby_cpu_ms:.1f} for the standby"
    progress.say(f"  made in {figures.made.seconds:.1f} s with {each}")
    return figures


def _holder(ground: Ground) -> str:
    """Return the identity of the holder of the operator's Lease, or "" if nobody holds it."""
    return ground.kubectl("get", "leases", "--namespace", NAMESPACE, "-o", "jsonpath={.items[*].spec.holderIdentity}")


def _answers(url: str) -> bool:
    """Tell whether a server answers a GET of *url* with success."""
    try:
        with urlopen(url, timeout=2):  # noqa: S310 - of our own
            return True
    except OSError:
        return False
