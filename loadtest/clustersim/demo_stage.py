"""The stage of the demo: a simulated cluster, the operator and the nameserver, as processes on loopback."""

import asyncio
import base64
import json
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp
import yaml

from clustersim import inside
from clustersim.apiclient import ApiClient, resource_of
from clustersim.objects import DEPLOYMENT, POD, PROXYGROUP, RESOURCES, SECRET, SERVICEACCOUNT, Object, name_of
from clustersim.processes import Processes, free_port
from clustersim.programs import Program
from clustersim.tailnet import Tailnet

OPERATOR_NAMESPACE = "tailscale"
_ROOT = Path(__file__).parents[2]
EXAMPLES = _ROOT / "docs" / "examples"
MANIFEST = _ROOT / "charts" / "manifests" / "operator.yaml"
"""The chart, rendered with its default values. The demo installs all objects in it whose kinds the simulated cluster
has."""
REPEATED = ("dnsconfig-by-hand.yaml",)
"""The files of examples that configure the same object as another example does. The demo leaves them out."""
DEVICES = ("db.tail1234.ts.net", "directory.tail1234.ts.net", "printer.tail1234.ts.net=100.64.10.10")
"""The devices of the tailnet to which the examples lead."""
CREDENTIALS = "operator-oauth"
"""The Secret with the operator's OAuth client."""
ACCOUNT: Object = {"metadata": {"namespace": OPERATOR_NAMESPACE, "name": "kube-apiserver-auth-proxy"}}
"""The ServiceAccount that the chart makes for API server proxies in auth mode."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
POLL_SECONDS = 0.02


@dataclass(slots=True)
class Stage:
    """The ports and the files of all parts of the demo. A started operator plays the Pod *operator_pod*."""

    folder: Path
    api_port: int
    control_port: int
    partner_port: int
    dns_port: int
    health_port: int
    health_proxy_port: int
    status_port: int
    cluster_dns_port: int
    metrics_port: int
    operator_pod: str = field(default="", init=False)

    @classmethod
    def on_free_ports(cls, folder: Path) -> "Stage":
        """Return a stage with free ports, and with its files in *folder*."""
        return cls(folder, *(free_port() for _ in range(9)))

    @property
    def api_url(self) -> str:
        """The URL of the API server."""
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def control_url(self) -> str:
        """The URL of the tailnet's control server."""
        return f"http://127.0.0.1:{self.control_port}"

    @property
    def partner_url(self) -> str:
        """The URL of the second tailnet's control server."""
        return f"http://127.0.0.1:{self.partner_port}"

    @property
    def page(self) -> str:
        """The URL of the operator's page for a browser."""
        return f"http://127.0.0.1:{self.status_port}/"

    @property
    def credentials(self) -> tuple[str, str]:
        """The ID and the secret of the OAuth client of the simulated tailnet."""
        tailnet = Tailnet()
        return tailnet.client_id, tailnet.client_secret

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that the simulated cluster writes when it is up."""
        return self.folder / "kubeconfig"

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that play Pods of the simulated cluster."""
        operator = {9002: self.health_port, 9003: self.status_port}
        nameserver = {53: self.dns_port, 9153: self.metrics_port}
        return (
            Program("operator", self.folder / "operator.log", operator),
            Program("nameserver", self.folder / "nameserver.log", nameserver),
        )

    async def start_cluster(self, processes: Processes, *options: str) -> None:
        """Start the simulated cluster with more *options*, and wait until it is up."""
        ports = {
            "": self.api_port,
            "control-": self.control_port,
            "partner-": self.partner_port,
            "health-": self.health_proxy_port,
            "dns-": self.cluster_dns_port,
        }
        words = [word for what, port in ports.items() for word in (f"--{what}listen", f"127.0.0.1:{port}")]
        words += [word for each in self.programs for word in ("--program", each.to_json())]
        words += [word for each in DEVICES for word in ("--device", each)]
        await processes.start("cluster", "clustersim", "serve", *words, *options, "--kubeconfig", str(self.kubeconfig))
        while not (self.kubeconfig.exists() and self.kubeconfig.stat().st_size):
            processes.check()
            await asyncio.sleep(POLL_SECONDS)

    async def install(self, api: ApiClient, secret: str = "") -> str:
        """Install the chart, and return the name of the operator's Pod; raises FileNotFoundError outside a checkout.

        *secret* becomes the OAuth client's secret in the operator's Secret; if empty, the right secret is used.
        """
        client_id, right = self.credentials
        given: Object = {"client_id": client_id, "client_secret": secret or right}
        metadata: Object = {"namespace": OPERATOR_NAMESPACE, "name": CREDENTIALS}
        self.write_credentials(await api.create(SECRET, {"metadata": metadata, "stringData": given}))
        for obj in self.chart():
            await _install(api, obj)
        async with aclosing(api.watch(POD, OPERATOR_NAMESPACE, {"app": "operator"})) as pods:
            return name_of(await anext(pods))

    def chart(self) -> list[Object]:
        """Return those objects of the chart whose kinds the simulated cluster has; raises FileNotFoundError."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the loader in C is six times as fast
        found: list[Object] = [obj for obj in yaml.load_all(MANIFEST.read_text(), loader) if obj and _is_known(obj)]
        for obj in found:
            if obj["kind"] == DEPLOYMENT.kind:
                obj["spec"]["replicas"] = 1
                settings = {"OPERATOR_LOGIN_SERVER": self.control_url, "OPERATOR_MANAGE_CLUSTER_DNS": "true"}
                for variable in obj["spec"]["template"]["spec"]["containers"][0]["env"]:
                    if variable["name"] in settings:
                        variable["value"] = settings[variable["name"]]
        return found

    async def start_operator(self, processes: Processes, pod: str) -> None:
        """Start the operator, which plays *pod* and reads its credentials from files, and wait until it is ready."""
        self.operator_pod = pod
        environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "POD_NAME": pod,
            "OPERATOR_NAMESPACE": OPERATOR_NAMESPACE,
            "OPERATOR_SECRET": "operator",
            "OPERATOR_LOGIN_SERVER": self.control_url,
            "OPERATOR_HEALTH_ADDR": f"127.0.0.1:{self.health_port}",
            "OPERATOR_STATUS_ADDR": f"127.0.0.1:{self.status_port}",
            "OPERATOR_CLUSTER_DNS": f"127.0.0.1:{self.cluster_dns_port}",
            "OPERATOR_MANAGE_CLUSTER_DNS": "true",
            "OPERATOR_NAMESERVER_IMAGE": "tsnameserver:demo",  # the program that plays the nameserver's Pods
            "OPERATOR_LOGGING": "info",
            "CLIENT_ID_FILE": str(self.folder / "client_id"),
            "CLIENT_SECRET_FILE": str(self.folder / "client_secret"),
            inside.VARIABLE: str(self.dns_port),
            "http_proxy": f"http://127.0.0.1:{self.health_proxy_port}",  # reaches the health ports of Pods
            "no_proxy": "127.0.0.1",
        }
        await processes.start("operator", "clustersim.inside", "tsoperator", environment=environment)
        async with aiohttp.ClientSession() as session:
            while not await _is_ready(session, f"http://127.0.0.1:{self.health_port}/readyz"):
                processes.check()
                await asyncio.sleep(POLL_SECONDS)

    async def mount_credentials(self, api: ApiClient) -> None:
        """Copy the OAuth client from its Secret into the operator's files at each change, until cancelled.

        On a real cluster, the kubelet does this.
        """
        async with aclosing(api.watch(SECRET, OPERATOR_NAMESPACE, {})) as secrets:
            async for secret in secrets:
                if name_of(secret) == CREDENTIALS:
                    self.write_credentials(secret)

    async def follow_operator(self, processes: Processes, api: ApiClient) -> None:
        """Restart the operator when another Pod replaces the Pod that it plays: the new process plays the new Pod."""
        async with aclosing(api.watch(POD, OPERATOR_NAMESPACE, {"app": "operator"})) as pods:
            async for pod in pods:
                if name_of(pod) != self.operator_pod and "deletionTimestamp" not in pod["metadata"]:
                    await processes.stop("operator")
                    await self.start_operator(processes, name_of(pod))

    def write_credentials(self, secret: Object) -> None:
        """Write the credentials in *secret* into the operator's files."""
        for name, value in secret["data"].items():
            (self.folder / name).write_bytes(base64.b64decode(value))

    async def start_nameserver(self, processes: Processes) -> None:
        """Start the nameserver, which follows the cluster's records."""
        metrics = f"127.0.0.1:{self.metrics_port}"
        listen = ("--listen", f"127.0.0.1:{self.dns_port}", "--health", "", "--metrics", metrics)
        source = ("--api-server", self.api_url, "--namespace", OPERATOR_NAMESPACE)
        no_file = ("--records", str(self.folder / "no-records.json"))
        await processes.start("nameserver", "tsnameserver", *listen, *source, *no_file)


def _is_known(obj: Object) -> bool:
    return any((each.api_version, each.kind) == (obj["apiVersion"], obj["kind"]) for each in RESOURCES)


async def _install(api: ApiClient, obj: Object) -> None:
    """Create *obj*, which is from the chart. If the simulated cluster already has this object, replace the object."""
    resource, metadata = resource_of(obj), obj["metadata"]
    try:
        await api.create(resource, obj)
    except aiohttp.ClientResponseError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        old = await api.get(resource, metadata.get("namespace", ""), metadata["name"])
        await api.replace(resource, {**old, **obj, "metadata": {**old["metadata"], **metadata}})


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientConnectionError:  # the server at the URL doesn't listen yet
        return False


def example_objects(folder: Path = EXAMPLES, names: Collection[str] = ()) -> list[Object]:
    """Return the objects in the files *names* of *folder*.

    Without *names*, these are all files but those in `REPEATED`. ProxyGroups come first, because other objects name
    them. Raises FileNotFoundError if the folder has no such files.
    """
    paths = sorted(folder.glob("*.yaml"))
    chosen = [path for path in paths if (path.name in names if names else path.name not in REPEATED)]
    texts = [path.read_text() for path in chosen]
    if not texts:
        raise FileNotFoundError(f"there are no examples in {folder}: run this from a checkout")
    found: list[Object] = [obj for text in texts for obj in yaml.safe_load_all(text) if obj]
    return sorted(found, key=lambda obj: obj["kind"] != PROXYGROUP.kind)


async def apply_examples(api: ApiClient, names: Collection[str] = ()) -> list[Object]:
    """Create the objects in the files *names* of docs/examples, by default all except `REPEATED`; return the objects.

    The ProxyGroups come first. Other objects can name them, so wait until the operator has written a status of each
    group before the others are created. Raises FileNotFoundError outside a checkout.
    """
    await api.create(SERVICEACCOUNT, ACCOUNT)
    created: list[Object] = []
    for obj in example_objects(names=names):
        if obj["kind"] != PROXYGROUP.kind:
            for group in created:
                await _looked_at(api, group)
        created.append(await api.create(resource_of(obj), _applied(obj)))
    return created


def _applied(obj: Object) -> Object:
    """Return *obj* as `kubectl apply` creates it: with an annotation that has the fields set by the user."""
    metadata = {**obj["metadata"], "annotations": obj["metadata"].get("annotations") or {}}
    note = json.dumps({**obj, "metadata": metadata}, sort_keys=True, separators=(",", ":"))
    return {**obj, "metadata": {**metadata, "annotations": {**metadata["annotations"], LAST_APPLIED: f"{note}\n"}}}


async def _looked_at(api: ApiClient, obj: Object) -> None:
    """Wait until the operator has written a status of a ProxyGroup; return at once for other objects."""
    while obj["kind"] == PROXYGROUP.kind and not obj.get("status"):
        await asyncio.sleep(POLL_SECONDS)
        obj = await api.get(PROXYGROUP, "", name_of(obj))
