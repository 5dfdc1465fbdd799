"""A table of Tailscale Services with its control server, for the tests of the table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from clustersim.control import Control
from clustersim.tailnetservices import TailscaleService as Present
from tsoperator.api.objects import Key
from tsoperator.api.owners import joined
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.proxy.serviceview import ServiceView
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteService, PutService
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.calls import Calls, NotAsked
from tsoperator.tailnet.devices import Devices
from tsoperator.tailnet.services import Services
from tsoperator.tsclient.transport import Retry

from tests.support.cluster import running
from tests.support.tailnets import tailnet_client

LIST = ("GET", "/api/v2/tailnet/-/vip-services")
ONE = "/api/v2/tailnet/-/vip-services/{name}"
READ, PUT, DELETE = ("GET", ONE), ("PUT", ONE), ("DELETE", ONE)
HOSTS = ("GET", "/api/v2/tailnet/-/services/{name}/devices")
US, THEM = "nUS", "nTHEM"
OWNER = Owner("ingress", Key("default", "web"))
WANTED = TailscaleService("svc:web", (), ("tcp:443",), ("tag:k8s",), joined({}, US))


def owned(name: str = "svc:web", *ids: str, **fields: object) -> Present:
    """Return a Tailscale Service that the operators with these *ids* own."""
    annotations: dict[str, str] = {}
    for each in ids:
        annotations = joined(annotations, each)
    return replace(Present(name, ("tcp:443",), ("tag:k8s",), annotations), **fields)  # type: ignore[arg-type]


@dataclass
class Ground:
    """A table of the Tailscale Services in the tailnet of *control*.

    *told* has the labels that the table has announced.
    """

    control: Control
    services: Services
    told: list[str]

    async def view(self, label: str = "web", *, hosts: bool = False) -> ServiceView:
        """Return the view of the Tailscale Service with this *label* once no answer is pending.

        Like the reconciles of an object, look again after each pending answer. With *hosts*, also request the hosts.
        """
        while isinstance(pending := (view := self.services.view(label, hosts=hosts)).pending, Pending):
            await pending.until
        return view

    async def known(self, label: str = "web") -> TailscaleService:
        """Return the Tailscale Service with this *label*, which the tailnet must have."""
        service = (await self.view(label)).service
        assert service is not None
        return service

    async def there(self) -> TailscaleService:
        """Put a Tailscale Service of ours with the label web into the tailnet, and return it."""
        self.control.services.put(owned("svc:web", US))
        return await self.known()

    async def put(self, service: TailscaleService, before: TailscaleService | None) -> None:
        """Write *service* in place of *before*, the Tailscale Service that was read. Raises ControlError, NotAsked."""
        await self.carry_out(PutService("", OWNER, service, before))

    async def carry_out(self, step: PutService | DeleteService) -> None:
        """Carry out *step*, and try again after each wait. Raises ControlError, NotAsked."""
        while True:
            try:
                return await self.services.carry_out(step)
            except NotAsked:
                raise
            except Pending as pending:
                await pending.until

    def reads(self) -> tuple[int, int]:
        """Return the number of reads of the list of Tailscale Services, and the number of reads of single ones."""
        return self.control.requests[LIST], self.control.requests[READ]

    def writes(self) -> int:
        """Return the number of requests to write a Tailscale Service."""
        return self.control.requests[PUT] + self.control.requests[DELETE]


@asynccontextmanager
async def ground_of(*, headscale: bool = False) -> AsyncIterator[Ground]:
    control = Control(headscale=headscale)
    async with control.serve() as url, tailnet_client(control, url, Retry(tries=1)) as client:
        calls, told = Calls(), list[str]()
        devices = Devices(client)
        services = Services(client, calls, devices)
        devices.listen(services.device_changed)
        devices.want_names()
        services.listen(told.append)
        async with running(calls.run(), services.follow(), devices.follow()):
            yield Ground(control, services, told)


EDITS: dict[str, Present | None] = {
    "ports": owned("svc:web", US, ports=("tcp:80",)),
    "tags": owned("svc:web", US, tags=("tag:other",)),
    "owners": owned("svc:web", US, THEM),
    "gone": None,
}


def edit(control: Control, service: Present | None) -> None:
    if service is None:
        control.services.delete("svc:web")
    else:
        control.services.put(service)
