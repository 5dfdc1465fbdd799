"""Waits until the Go operator, which this operator replaces, has ended.

The Go operator takes no Lease. So we wait until none of its Pods is left: otherwise both operators would act at once.
"""

import asyncio
import logging
from typing import Final

from tsoperator.api.names import LABEL_APP, LABEL_OPERATOR, OPERATOR
from tsoperator.api.objects import POD, Key, Object, key_of, labels
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Denied, KubeError, NotFound

log = logging.getLogger(__name__)

_POLL: Final = 1.0  # s between two looks at the Pods


async def gone(client: KubeClient, own: Key) -> None:
    """Wait until no Pod of the Go operator is left in our Deployment; *own* is the Pod in which this process runs.

    Wait also for a Pod that is being deleted. Return at once if the Pod *own* doesn't exist, as when somebody runs the
    operator by hand.
    """
    logged = ""
    while waiting_for := await pods_of_go(client, own):
        if waiting_for != logged:
            log.info("waiting for the operator that was here before to end: %s", waiting_for)
            logged = waiting_for
        await asyncio.sleep(_POLL)


async def pods_of_go(client: KubeClient, own: Key) -> str:
    """Return the names of the Go operator's Pods in our Deployment, or the error if they can't be listed now.

    *own* is the Pod in which this process runs. The text is empty if the Go operator has no Pods. It is also empty if
    RBAC doesn't let us see the Pods, because a wait for them would never end; then we log a warning.
    """
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
    """Tell whether *pod*, which belongs to our Deployment, runs the Go operator.

    A Pod that has ended (evicted, say) runs nothing.
    """
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and labels(pod).get(LABEL_OPERATOR) != OPERATOR
