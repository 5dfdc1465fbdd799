"""Runs an operator whose status page shows faults, and draws pictures of this page for the documentation.

``python -m tests.e2e.statuspage`` draws the pictures again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from clustersim.processes import free_port
from tsoperator.api.objects import SERVICE, Key

from tests.e2e.browser import install_browser, screenshot
from tests.e2e.product import TREE
from tests.support.manifests import DOMAIN, backend, connector, dnsconfig, egress, ingress, load_balancer
from tests.support.objects import obj
from tests.support.operator import new_world, running_operator

PICTURES: Final = TREE / "docs" / "pictures"
SIZE: Final = (1200, 800)
MISSPELT: Final = obj(
    SERVICE,
    Key("default", "orders"),
    {"spec": {"ports": [{"port": 80}]}},
    annotations={"tailscale.com/expsoe": "true"},
)
MARKUP: Final = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>"
HOSTILE: Final = egress("hostile", f"hostile.{DOMAIN}", hostname=MARKUP)
"""A Service with HTML markup in an annotation. The operator repeats the annotation in its message."""
_UNTAGGED: Final = egress("ci", f"ci.{DOMAIN}", tags="ci")
_NAMESERVER: Final = "10.96.0.53"
_ROUTER: Final = connector("office", subnetRouter={"advertiseRoutes": ["10.40.0.0/14"]}, hostname="office")


@asynccontextmanager
async def status_page(*, hostile: bool = False) -> AsyncIterator[str]:
    """Run an operator with several objects, some of which have faults, and yield the URL of its status page."""
    address = f"127.0.0.1:{free_port()}"
    async with new_world() as world:
        for name in ("db", "ldap"):
            world.peer(name)
        shown = [backend(), ingress(), egress(), egress("ldap", f"ldap.{DOMAIN}"), load_balancer("shop"), _UNTAGGED]
        await world.apply(
            dnsconfig(service={"clusterIP": _NAMESERVER}), *shown, _ROUTER, MISSPELT, *([HOSTILE] if hostile else ())
        )
        chosen = {"status_address": address, "pod_name": "operator-5d8f9c7b6-x7k2p", "cluster_dns": (_NAMESERVER,)}
        async with running_operator(world, **chosen):
            for each in (ingress(), egress(), load_balancer("shop"), _ROUTER):
                await world.joined(each)
            await world.becomes(lambda: world.reason(dnsconfig(), "ClusterDNSReady"), "NamesResolve")
            yield f"http://{address}/"


async def draw(folder: Path) -> list[Path]:
    """Draw the page in light and in dark colours, in files in *folder*, and return their paths."""
    pictures = [folder / "status.png", folder / "status-dark.png"]
    async with status_page() as url:
        for path in pictures:
            await screenshot(url, path, SIZE, dark="dark" in path.stem)
    return pictures


if __name__ == "__main__":
    install_browser()
    asyncio.run(draw(PICTURES))
