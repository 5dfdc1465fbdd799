import base64
import json
import os
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from clustersim.sim import ClusterSim
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import NoClusterError, load_configuration
from tsoperator.kube.errors import StatusError

from tests.support.cluster import serving


@pytest.fixture(autouse=True)
def outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def kubeconfig(server: str, **user: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "there", "user": "me"}}],
        "clusters": [{"name": "there", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": user}],
    }


def written(folder: Path, text: str | bytes) -> str:
    file = folder / "config"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


async def test_a_client_uses_a_read_only_kubeconfig_even_in_a_pod(
    sim: ClusterSim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    file = tmp_path / "config"
    written(tmp_path, sim.kubeconfig())
    file.chmod(0o400)
    async with KubeClient(await load_configuration(str(file))) as client:
        found = await client.get(SERVICE, Key("default", "kubernetes"))
    assert (found["spec"]["clusterIP"], file.read_text()) == ("10.96.0.1", sim.kubeconfig())


async def test_a_kubeconfig_can_be_several_files(sim: ClusterSim, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    whole = yaml.safe_load(sim.kubeconfig())
    first.write_text(yaml.safe_dump({name: value for name, value in whole.items() if name != "clusters"}))
    second.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": whole["clusters"]}))
    loaded = await load_configuration(os.pathsep.join([str(first), str(second), str(tmp_path / "missing")]))
    assert loaded.host == sim.api_url


async def test_a_request_carries_the_token_in_the_kubeconfig(
    tmp_path: Path,
) -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=503)

    async with serving(handler) as url:
        file = written(tmp_path, yaml.safe_dump(kubeconfig(url, token="secret")))
        async with KubeClient(await load_configuration(file), request_timeout=5) as client:
            with pytest.raises(StatusError, match="503"):
                await client.get(SERVICE, Key("default", "a"))
    assert seen == ["Bearer secret"]


def token(claims: object) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


BOUND = token({"kubernetes.io": {"namespace": "tailscale", "pod": {"name": "operator-0", "uid": "1234"}}})


@pytest.mark.parametrize(
    ("user", "uid"),
    [
        ({"token": BOUND}, "1234"),
        ({"token": token({"kubernetes.io": {"serviceaccount": {"name": "operator"}}})}, ""),
        ({"token": token({"kubernetes.io": None})}, ""),
        ({"token": token([])}, ""),
        ({"token": "secret"}, ""),
        ({"token": "a.b.c"}, ""),
        ({}, ""),
    ],
    ids=["bound", "of an account alone", "null", "a list", "no JWT", "no JSON", "none"],
)
@pytest.mark.parametrize("with_certificate", [False, True])
async def test_the_client_knows_the_uid_of_the_pod_to_which_its_token_is_bound(
    user: dict[str, str], uid: str, with_certificate: bool, tmp_path: Path
) -> None:
    configuration = await load_configuration(written(tmp_path, yaml.safe_dump(kubeconfig("http://[::1]", **user))))
    async with KubeClient(configuration) as client:
        if with_certificate:
            configuration.cert_file = str(tmp_path / "certificate")
        assert await client.pod_of_token() == (uid if not with_certificate else "")


NO_CONTEXT = yaml.safe_dump({**kubeconfig("https://192.0.2.1"), "contexts": []}).encode()
NO_CA = yaml.safe_dump(
    {
        **kubeconfig("https://192.0.2.1"),
        "clusters": [{"name": "there", "cluster": {"server": "https://192.0.2.1", "certificate-authority-data": "a"}}],
    }
).encode()
NOT_UTF8 = base64.b64decode("//4A")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no file .*/config"),
        (b"", ""),
        (b"[]", ""),
        (b"text", ""),
        (b"a: [b", "while parsing"),
        (b"{}", "current-context"),
        (NO_CONTEXT, "here"),
        (NO_CA, ""),
        (NOT_UTF8, "utf-8"),
    ],
)
async def test_the_error_for_an_unusable_kubeconfig_is_one_line(text: bytes | None, words: str, tmp_path: Path) -> None:
    path = str(tmp_path / "config") if text is None else written(tmp_path, text)
    with pytest.raises(NoClusterError, match=rf"\Acannot find the API server: .*{words}.*; set KUBECONFIG") as told:
        await load_configuration(path)
    assert "\n" not in str(told.value)


async def test_a_pod_without_a_service_account_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(NoClusterError, match="or run in a Pod with a ServiceAccount"):
        await load_configuration()
