"""The node ports that the cluster hands out (dns-crds-chart.md 2.3).

No API tells them. The API server does in its refusal of a Service with a port that is outside of them; of a dry run it
takes any.
"""

import logging
import re
from typing import Final

from tsoperator.api.objects import SERVICE, Object, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import AlreadyExists, Denied, Invalid
from tsoperator.reconcilers.proxyclass.ports import LAST_PORT, Range

log = logging.getLogger(__name__)

_IMPOSSIBLE: Final = 777777
_NAME: Final = "test-node-port-range"
_RANGE = re.compile(r"(?<![\d-])(\d{1,5})-(\d{1,5})(?![\d-])")


class NodePorts:
    """Finds out the node ports of the cluster, once it is asked."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        """*namespace* is where a Service may be asked for."""
        self._client = client
        self._namespace = namespace
        self._asked = False
        self._found: Range | None = None

    async def range(self) -> Range | None:
        """Return the cluster's node ports; None if it doesn't tell. Raises KubeError while it can't be asked."""
        if not self._asked:
            self._found = await self._ask()
            self._asked = True
        return self._found

    async def _ask(self) -> Range | None:
        service = _impossible_service(self._namespace)
        try:
            await self._client.create(SERVICE, service)
        except Invalid as refusal:
            return range_in(str(refusal))
        except (AlreadyExists, Denied) as refusal:
            log.info("the cluster's node ports are not known, so ProxyClasses may ask for others: %s", refusal)
            return None
        await self._client.delete(SERVICE, key_of(service))
        return None


def range_in(text: str) -> Range | None:
    """Return the one range of ports that *text* names; None if there is none, or more than one."""
    found = [Range(int(first), int(last)) for first, last in _RANGE.findall(text)]
    return found[0] if len(found) == 1 and found[0].first <= found[0].last <= LAST_PORT else None


def _impossible_service(namespace: str) -> Object:
    port = {"name": _NAME, "port": 8080, "targetPort": 8080, "protocol": "UDP", "nodePort": _IMPOSSIBLE}
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {"namespace": namespace, "name": _NAME},
        "spec": {"type": "NodePort", "ports": [port]},
    }
