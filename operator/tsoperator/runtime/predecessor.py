"""The Go operator knows no Lease: ours waits until none of its Pods is left, so that two never act at once."""

import asyncio
import logging
from typing import Final

from tsoperator.api.names import LABEL_APP, LABEL_OPERATOR, OPERATOR
from tsoperator.api.objects import POD, Key, Object, key_of, labels
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Denied, KubeError, NotFound

log = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 1.0  # s


async def gone(client: KubeClient, own: Key) -> None:
    """Wait until no Pod of the Deployment that the Pod *own* belongs to is the Go operator's.

    Pods that end count until they are gone. Without a Pod of ours (run by hand) there is nothing to wait for.
    """
    said = ""
    while there := await _pods_of_go(client, own):
        if there != said:
            log.info("waiting for the operator that was here before to end: %s", there)
            said = there
        await asyncio.sleep(_LOOK_AGAIN)


async def _pods_of_go(client: KubeClient, own: Key) -> str:
    """Return the names of the Pods to wait for; one that can't be seen is waited for, too, unless RBAC hides all."""
    try:
        app = labels(await client.get(POD, own)).get(LABEL_APP, "")
        pods = (await client.list(POD, own.namespace, f"{LABEL_APP}={app}")).items if app else []
    except (Denied, NotFound) as error:
        log.warning("can't see whether another operator runs: %s", error)
        return ""
    except KubeError as error:
        return str(error)
    return ", ".join(sorted(key_of(pod).name for pod in pods if key_of(pod) != own and is_go(pod)))


def is_go(pod: Object) -> bool:
    """Tell whether a Pod of the Deployment runs the Go operator; one that was evicted stays, and runs nothing."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and labels(pod).get(LABEL_OPERATOR) != OPERATOR
