"""Writes the status of each ValidatingAdmissionPolicy a moment after the policy is written.

The type checker of a real controller manager does the same. Clients have to cope with this change of the policy, which
follows each edit.
"""

import asyncio
from typing import Final

from clustersim.objects import ADMISSIONPOLICY, name_of
from clustersim.store import Store

MOMENT: Final = 0.3  # s


async def run(store: Store) -> None:
    """Write the status of all ValidatingAdmissionPolicies `MOMENT` seconds after each change of one of them.

    End when cancelled.
    """
    with store.subscribe(ADMISSIONPOLICY) as changes:
        while True:
            await asyncio.sleep(MOMENT)
            check(store)
            await changes.batch()


def check(store: Store) -> None:
    """Write into the status of each policy that its present generation was checked without a type error."""
    for policy in store.list(ADMISSIONPOLICY):
        status = {"observedGeneration": policy["metadata"]["generation"], "typeChecking": {}}
        store.merge(ADMISSIONPOLICY, "", name_of(policy), {"status": status}, "status")
