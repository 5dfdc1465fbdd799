"""Runs the cluster's own controllers together."""

import asyncio

from clustersim import deployments, endpoints, garbage, statefulsets, typechecker
from clustersim.store import Store


async def run(store: Store) -> None:
    """Run the StatefulSet, Deployment, EndpointSlice and garbage controllers and the type checker until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for controller in (statefulsets, deployments, endpoints, garbage, typechecker):
            tasks.create_task(controller.run(store))
