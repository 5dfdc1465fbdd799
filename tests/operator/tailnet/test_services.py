"""The table of Tailscale Services: when it is read, what a look shows, and how Services are written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from clustersim.control import Control
from clustersim.tailnetservices import TailscaleService as Present
from tsoperator.api.objects import Key
from tsoperator.api.owners import joined, ownership
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteService, PutService
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.calls import Calls, NotAsked
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.services import ServicePace, Services
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import running
from tests.support.tailnets import tailnet_client

LIST = ("GET", "/api/v2/tailnet/-/vip-services")
ONE = "/api/v2/tailnet/-/vip-services/{name}"
READ, PUT, DELETE = ("GET", ONE), ("PUT", ONE), ("DELETE", ONE)
HOSTS = ("GET", "/api/v2/tailnet/-/services/{name}/devices")
US, THEM = "nUS", "nTHEM"
OWNER = Owner("ingress", Key("default", "web"))
SLOW = ServicePace(interval=3600, check=3600, away=3600, denied=3600, approved=3600, unapproved=3600)
QUICK = ServicePace(interval=3600, check=0.01, away=0.01, denied=0.01, approved=0.01, unapproved=0.01)


def owned(name: str = "svc:web", *ids: str, **fields: object) -> Present:
    """Return a Service in the tailnet that the operators with these *ids* own."""
    annotations: dict[str, str] = {}
    for each in ids:
        annotations = joined(annotations, each)
    return replace(Present(name, ("tcp:443",), ("tag:k8s",), annotations), **fields)  # type: ignore[arg-type]


@dataclass
class Ground:
    control: Control
    client: TailnetClient
    services: Services
    calls: Calls
    told: list[str]

    async def view(self, label: str = "web", *, hosts: bool = False) -> ServiceView:
        """Look at a Service as a reconcile does, which starts again when what it waits for has ended."""
        while isinstance(pending := self.services.view(label, hosts=hosts).pending, Pending):
            await pending.until
        return self.services.view(label, hosts=hosts)

    async def carry_out(self, step: PutService | DeleteService) -> None:
        """Carry out a *step* as often as it has to wait. Raises NotAsked."""
        while True:
            try:
                return await self.services.carry_out(step)
            except NotAsked:
                raise
            except Pending as pending:
                await pending.until

    async def put(self, service: TailscaleService, before: TailscaleService | None) -> None:
        await self.carry_out(PutService("", OWNER, service, before))

    def reads(self) -> tuple[int, int]:
        """Return how many lists and how many single Services have been read."""
        return self.control.requests[LIST], self.control.requests[READ]


@asynccontextmanager
async def ground_of(pace: ServicePace, *, headscale: bool = False, retry: Retry | None = None) -> AsyncIterator[Ground]:
    control = Control(headscale=headscale)
    async with control.serve() as url, tailnet_client(control, url, retry or Retry(tries=1)) as client:
        calls, told = Calls(), list[str]()
        services = Services(client, calls, Devices(client), pace)
        services.listen(told.append)
        async with running(calls.run(), services.follow()):
            yield Ground(control, client, services, calls, told)


@pytest.fixture
async def ground(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    async with ground_of(getattr(request, "param", SLOW)) as made:
        yield made


def of_pace(pace: ServicePace) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("ground", [pace], indirect=True)


async def test_the_first_look_reads_the_list_and_then_the_service_alone(ground: Ground) -> None:
    ground.control.services.put(owned("svc:web", US))
    ground.control.services.put(owned("svc:other", THEM))
    assert ground.reads() == (0, 0)
    view = await ground.view("web")
    assert view.is_shown
    assert view.service is not None
    assert ownership(view.service, US).is_owner
    assert ground.reads() == (1, 1)
    assert await ground.view("absent") == NO_SERVICE
    assert ground.services.owned(US) == {"web"}
    assert ground.reads() == (1, 1)
