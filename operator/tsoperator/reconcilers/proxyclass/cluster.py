"""Finds out the range of node ports that the cluster allocates.

No API returns this range. But when the API server refuses a Service with a node port outside of the range, its message
names the range. A dry run doesn't help, because it accepts any port.
"""

import logging
import re
from typing import Final

from tsoperator.api.objects import SERVICE, Object, key_of
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import AlreadyExists, Denied, Rejected
from tsoperator.reconcilers.proxyclass.ports import LAST_PORT, Range

log = logging.getLogger(__name__)

_IMPOSSIBLE: Final = 777777
_NAME: Final = "test-node-port-range"
_RANGE = re.compile(r"(?<![\d-])(\d{1,5})-(\d{1,5})(?![\d-])")


class NodePorts:
    """Finds out the range of the cluster's node ports, and remembers it."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        """*namespace* is a namespace in which the operator is allowed to create a Service."""
        self._client = client
        self._namespace = namespace
        self.asked = False
        self.range: Range | None = None
        """The range of the cluster's node ports; None if it isn't known yet."""

    async def find(self) -> None:
        """Ask the API server for the range of node ports. Set `asked`, even if the answer doesn't name a range.

        Raises KubeError if the API server can't be asked now.
        """
        service = _impossible_service(self._namespace)
        try:
            await self._client.create(SERVICE, service)
        except Rejected as refusal:
            self.range = range_in(str(refusal))
        except (AlreadyExists, Denied) as refusal:
            log.info("the cluster's node ports are not known, so ProxyClasses may ask for others: %s", refusal)
        else:
            await self._client.delete(SERVICE, key_of(service))
        self.asked = True


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
