from clustersim import kubelet, workloads
from clustersim.objects import ENDPOINTSLICE, POD, SERVICE, STATEFULSET
from clustersim.store import Store
from clustersim.tailnet import Tailnet

from tests.loadtest.clustersim.running import headless, running, statefulset, until


def addresses(store: Store) -> list[str]:
    """Return the IPv4 addresses that the Service leads to."""
    slices = [item for item in store.list(ENDPOINTSLICE, "default") if item["addressType"] == "IPv4"]
    return [address for item in slices for endpoint in item["endpoints"] or () for address in endpoint["addresses"]]


async def test_the_controllers_work_together() -> None:
    store = Store()
    async with running(workloads.run(store), kubelet.run(store, Tailnet())):
        store.create(SERVICE, headless())
        store.create(STATEFULSET, statefulset(replicas=2))
        await until(store, lambda: len(addresses(store)) == 2)
        before = addresses(store)
        store.delete(POD, "default", "web-0")
        await until(store, lambda: len(addresses(store)) == 2 and addresses(store) != before)
        store.delete(STATEFULSET, "default", "web")
        await until(store, lambda: not store.list(POD) and addresses(store) == [])
