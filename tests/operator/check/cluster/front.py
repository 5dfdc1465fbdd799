"""A server in front of a simulated cluster, for those requests of a check that its API server doesn't know."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from tsoperator.api.objects import Object
from tsoperator.check.cluster.look import Subject, look
from tsoperator.check.findings import Finding

from tests.operator.check.cluster.samples import deployment
from tests.support.cluster import serving
from tests.support.manifests import credentials
from tests.support.operator import NAMESPACE, World

METRICS = 'tsoperator_leading 1.0\ntsoperator_preflight{check="api",tailnet=""} 1.0\n'
STANDBY = "tsoperator_leading 0.0\n"


class Front:
    """A server that passes the requests of a check on to the API server of *world*, or answers them itself.

    *kubeconfig* has the address of the Front. The operator has all rights except those in *denied*, each as ``verb
    resource``. *webhooks* are the configurations of validating webhooks. The user isn't allowed to read a path that
    ends with one of *secret*. The operator's Pods answer probes with the status *pods*, and requests for metrics with
    the status *metrics*. The Pod called *leader* leads; if *leader* is empty, the Pod that is asked first leads. If
    *refusal* isn't empty, the API server can't reach the Pods. *selectors* are the field selectors with which the user
    has listed Events.
    """

    def __init__(self, world: World, kubeconfig: Path) -> None:
        self.world = world
        self.kubeconfig = kubeconfig
        self.labels: dict[str, str] = {}
        self.denied: set[str] = set()
        self.webhooks: list[Object] = []
        self.secret: tuple[str, ...] = ()
        self.pods = 200
        self.metrics = 200
        self.refusal = ""
        self.asked = 0
        self.progress: list[str] = []
        self.leader = ""
        self.selectors: set[str] = set()

    async def findings(self, namespace: str = NAMESPACE, of: str | None = None) -> list[Finding]:
        return await look(Subject(str(self.kubeconfig), namespace, of=of), self.progress.append)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if self.secret and path.endswith(self.secret):
            return _status(403, "Forbidden", f"may not read {path}")
        if path.endswith("/subjectaccessreviews"):
            return await self._review(request)
        if path.endswith(f"/namespaces/{NAMESPACE}"):
            return web.json_response({"metadata": {"name": NAMESPACE, "labels": self.labels}})
        if "admissionregistration" in path:
            items = self.webhooks if "validating" in path else []
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        if path.endswith("/events"):
            self.selectors.add(request.query.get("fieldSelector", ""))
        if "/proxy/" in path:
            return self._pod(path)
        return await self._pass_on(request)

    async def _review(self, request: web.Request) -> web.Response:
        asked = (await request.json())["spec"]["resourceAttributes"]
        self.asked += 1
        return web.json_response({"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.denied}})

    def _pod(self, path: str) -> web.Response:
        if self.refusal:
            return _status(503, "ServiceUnavailable", self.refusal)
        name, _, page = path.partition("/pods/")[2].partition(":9002/proxy/")
        self.leader = self.leader or name
        if page == "metrics":
            return web.Response(status=self.metrics, text=METRICS if name == self.leader else STANDBY)
        return web.Response(status=self.pods, text="[-] cache: not listed yet: services\n")

    async def _pass_on(self, request: web.Request) -> web.Response:
        url = f"{self.world.sim.api_url}{request.path_qs}"
        body, headers = await request.read(), {"Content-Type": request.content_type}
        async with aiohttp.ClientSession() as session:
            answer = await session.request(request.method, url, data=body, headers=headers)
            return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")


def _status(code: int, reason: str, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": message}, status=code)


@asynccontextmanager
async def running_front(world: World, folder: Path) -> AsyncIterator[Front]:
    """Install an operator in *world*, and yield a `Front` of the world, whose kubeconfig is in *folder*."""
    data = {"client_id": world.control.client_id, "client_secret": world.control.client_secret}
    await world.apply(deployment({"OPERATOR_LOGIN_SERVER": world.control_url}), credentials("operator-oauth", **data))
    front = Front(world, folder / "kubeconfig")
    async with serving(front.answer) as url:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        front.kubeconfig.write_text(yaml.safe_dump(config))
        yield front
