"""The stage of the demo: a simulated cluster, the operator and the nameserver, as processes on loopback."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from clustersim.apiclient import ApiClient, resource_of
from clustersim.objects import SERVICEACCOUNT, Object
from clustersim.processes import Processes, free_port
from clustersim.tailnet import Tailnet

OPERATOR_NAMESPACE = "tailscale"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ELSEWHERE = ("tailnet.yaml", "dnsconfig-managed.yaml")
"""The examples that need another tailnet than the simulated one, or a second DNSConfig (a cluster has only one)."""
ACCOUNT: Object = {"metadata": {"namespace": OPERATOR_NAMESPACE, "name": "kube-apiserver-auth-proxy"}}
"""The account that the chart makes for proxies which impersonate users."""
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Stage:
    """The ports and the files of all parts of the demo."""

    folder: Path
    api_port: int
    control_port: int
    dns_port: int
    health_port: int
    health_proxy_port: int

    @classmethod
    def on_free_ports(cls, folder: Path) -> "Stage":
        """Return a stage with free ports, and with its files in *folder*."""
        return cls(folder, *(free_port() for _ in range(5)))

    @property
    def api_url(self) -> str:
        """The URL of the API server."""
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def control_url(self) -> str:
        """The URL of the tailnet's control server."""
        return f"http://127.0.0.1:{self.control_port}"

    @property
    def credentials(self) -> tuple[str, str]:
        """The ID and the secret of the OAuth client of the simulated tailnet."""
        tailnet = Tailnet()
        return tailnet.client_id, tailnet.client_secret

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that the simulated cluster writes when it is up."""
        return self.folder / "kubeconfig"

    async def start_cluster(self, processes: Processes) -> None:
        """Start the simulated cluster and wait until it is up."""
        ports = {"": self.api_port, "control-": self.control_port, "health-": self.health_proxy_port}
        words = [word for what, port in ports.items() for word in (f"--{what}listen", f"127.0.0.1:{port}")]
        await processes.start("cluster", "clustersim", "serve", *words, "--kubeconfig", str(self.kubeconfig))
        while not (self.kubeconfig.exists() and self.kubeconfig.stat().st_size):
            processes.check()
            await asyncio.sleep(POLL_SECONDS)

    async def start_operator(self, processes: Processes) -> None:
        """Start the operator with the credentials of the simulated tailnet's OAuth client; wait until it is ready."""
        credentials = dict(zip(("CLIENT_ID_FILE", "CLIENT_SECRET_FILE"), self.credentials, strict=True))
        environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "OPERATOR_NAMESPACE": OPERATOR_NAMESPACE,
            "OPERATOR_SECRET": "operator",
            "OPERATOR_LOGIN_SERVER": self.control_url,
            "OPERATOR_HEALTH_ADDR": f"127.0.0.1:{self.health_port}",
            "OPERATOR_LOGGING": "info",
            "http_proxy": f"http://127.0.0.1:{self.health_proxy_port}",  # reaches the health ports of Pods
            "no_proxy": "127.0.0.1",
        }
        for variable, value in credentials.items():
            path = self.folder / variable.lower()
            path.write_text(value)
            environment[variable] = str(path)
        await processes.start("operator", "tsoperator", environment=environment)
        async with aiohttp.ClientSession() as session:
            while not await _is_ready(session, f"http://127.0.0.1:{self.health_port}/readyz"):
                processes.check()
                await asyncio.sleep(POLL_SECONDS)

    async def start_nameserver(self, processes: Processes) -> None:
        """Start the nameserver, which follows the cluster's records."""
        listen = ("--listen", f"127.0.0.1:{self.dns_port}", "--health", "", "--metrics", "")
        source = ("--api-server", self.api_url, "--namespace", OPERATOR_NAMESPACE)
        no_file = ("--records", str(self.folder / "no-records.json"))
        await processes.start("nameserver", "tsnameserver", *listen, *source, *no_file)


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientConnectionError:  # it doesn't listen yet
        return False


def example_objects(folder: Path = EXAMPLES) -> list[Object]:
    """Return the objects that the files in *folder* describe, except those in the files of `ELSEWHERE`.

    Raises FileNotFoundError if there are none.
    """
    texts = [path.read_text() for path in sorted(folder.glob("*.yaml")) if path.name not in ELSEWHERE]
    if not texts:
        raise FileNotFoundError(f"there are no examples in {folder}: run this from a checkout")
    return [obj for text in texts for obj in yaml.safe_load_all(text) if obj]


async def apply_examples(api: ApiClient) -> list[Object]:
    """Create the objects of docs/examples, and return them; raises FileNotFoundError outside a checkout."""
    await api.create(SERVICEACCOUNT, ACCOUNT)
    return [await api.create(resource_of(obj), obj) for obj in example_objects()]
