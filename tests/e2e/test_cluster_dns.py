"""The operator configures the cluster's DNS itself in mode Managed: it adds the stub domain to a real CoreDNS."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from clustersim.furniture import definition
from clustersim.objects import Resource
from operatorbench.audit import AuditLog
from tsoperator.dns.cluster.platforms import OPENSHIFT_DNS

from tests.e2e import product
from tests.e2e.cluster import Cluster, Object, condition, dig
from tests.e2e.dnsprobe import Probe, Seen
from tests.e2e.product import CHART, CREDENTIALS, OPERATOR_USER, TREE, ProductImages
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.testbed.network import DNS_SERVICE, NODE
from tests.e2e.testbed.peer import GREETING, WEB_PORT
from tests.e2e.testbed.processes import wait_until
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service
from tests.e2e.workloads import client as client_pod

DNSCONFIG = yaml.safe_load((TREE / "docs" / "examples" / "dnsconfig-by-hand.yaml").read_text())
NAME = DNSCONFIG["metadata"]["name"]
COREDNS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns", "namespace": "kube-system"}}
PUBLIC = "somebody.else.ts.net"
COREFILE = f"""\
.:53 {{
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }}
    forward . {NODE}
    cache 5
    reload 2s 1s
    loadbalance
}}
"""
OURS = "# BEGIN tailnet stub domain"
THEIRS = "example.org:53 {\n    whoami\n}\n"
BROKEN = ".:53 {\n    errors\n"
FIGHT = 8.0  # seconds for which the other program keeps restoring the Corefile after the status has named it
FEW = 10  # the most writes of our operator in that time
UPSTREAM = ("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
            "--pid-file=", "--bind-interfaces", f"--listen-address={NODE}",
            f"--address=/{PUBLIC}/192.0.2.7")  # fmt: skip
OPENSHIFT = Resource(
    OPENSHIFT_DNS.group, OPENSHIFT_DNS.version, OPENSHIFT_DNS.plural, OPENSHIFT_DNS.kind, namespaced=False
)


def corefile(cluster: Cluster) -> str:
    configmap = cluster.get("configmap", "coredns", "kube-system")
    assert configmap
    return str(configmap["data"]["Corefile"])


def write(cluster: Cluster, text: str) -> None:
    cluster.patch(COREDNS, {"data": {"Corefile": text}})
    cluster.remount_dns()


def ask_for(cluster: Cluster, **cluster_dns: str) -> None:
    """Apply the DNSConfig with the given fields in its spec.clusterDNS."""
    cluster.apply({**DNSCONFIG, "spec": {**DNSCONFIG["spec"], "clusterDNS": cluster_dns}})


def reason(cluster: Cluster) -> str:
    """Return the reason of the condition `ClusterDNSConfigured`."""
    return str(condition(cluster.get("dnsconfig", NAME) or {"metadata": {}}, "ClusterDNSConfigured").get("reason", ""))


def becomes(cluster: Cluster, look: Callable[[Cluster], Any], wanted: object) -> None:
    eventually(lambda: look(cluster) == wanted, f"{wanted!r}")


def written(cluster: Cluster) -> str:
    """Wait until the operator has written the stub domain, let CoreDNS load it, and return the Corefile."""
    becomes(cluster, reason, "StubDomainWritten")
    cluster.remount_dns()
    return corefile(cluster)


@pytest.fixture(scope="module", autouse=True)
def plain(cluster: Cluster, bed: Bed) -> Iterator[None]:
    """A Corefile without a stub domain, and an upstream DNS server for all names outside the cluster.

    At the end, the original Corefile is restored, and the upstream server ends.
    """
    before = corefile(cluster)
    bed.daemons.start("upstream", [*UPSTREAM], bed.machines["node"])
    write(cluster, COREFILE)
    yield
    cluster.apply(DNSCONFIG)
    becomes(cluster, corefile, COREFILE)
    write(cluster, before)
    bed.daemons.stop("upstream")


@pytest.fixture
def managed(cluster: Cluster) -> Iterator[str]:
    """The Corefile that CoreDNS loads in mode Managed.

    At the end, the mode is set to Manual before the Corefile is restored. Otherwise the operator would report the test
    as another writer of the Corefile.
    """
    write(cluster, COREFILE)
    ask_for(cluster, mode="Managed")
    yield written(cluster)
    ask_for(cluster, mode="Manual")
    eventually(lambda: OURS not in corefile(cluster), "no stub domain")
    write(cluster, COREFILE)


@pytest.fixture
def unable(cluster: Cluster) -> Iterator[None]:
    """Mode Managed with a nameserver that worked and then got an image that doesn't exist.

    At the end, the nameserver gets its image back.
    """
    write(cluster, COREFILE)
    ask_for(cluster, mode="Manual")
    becomes(cluster, corefile, COREFILE)
    cluster.patch(DNSCONFIG, {"spec": {"nameserver": {"replicas": 0}}})
    eventually(lambda: not cluster.nameservers(), "no nameserver")
    nameserver = {"replicas": None, "image": {"repo": "registry.invalid/tsnameserver", "tag": "v1"}}
    cluster.patch(DNSCONFIG, {"spec": {"nameserver": nameserver, "clusterDNS": {"mode": "Managed"}}})
    yield
    cluster.patch(DNSCONFIG, {"spec": {"nameserver": {"image": None}}})
    assert OURS in written(cluster)
    ask_for(cluster, mode="Manual")
    becomes(cluster, corefile, COREFILE)


@pytest.fixture
def by_value(cluster: Cluster, bed: Bed, images: ProductImages) -> Iterator[None]:
    """A cluster whose only DNSConfig is the one that the value dns.enabled makes.

    At the end, the value is set back, and the DNSConfig of the other tests runs a nameserver at its previous address.
    """
    write(cluster, COREFILE)
    before = cluster.get("dnsconfig", NAME)
    cluster.delete("dnsconfig", NAME)
    becomes(cluster, nameserver_ip, "")
    product.install(bed, CHART, {**CREDENTIALS, **product.image_values(images), "dns": {"enabled": True}})
    yield
    product.deploy(bed, images)
    becomes(cluster, corefile, COREFILE)
    becomes(cluster, nameserver_ip, "")
    product.deploy(bed, images)  # the upgrade removes the rights
    if before:
        service = {"clusterIP": before["status"]["nameserver"]["ip"]}
        cluster.apply({**DNSCONFIG, "spec": {"nameserver": {"service": service}}})
        becomes(cluster, nameserver_ip, service["clusterIP"])


def nameserver_ip(cluster: Cluster) -> str:
    """Return the nameserver's address in the status of the DNSConfig, or "" if there is no DNSConfig."""
    status = (cluster.get("dnsconfig", NAME) or {}).get("status", {})
    return str(status.get("nameserver", {}).get("ip", ""))


def test_names_resolve_in_pods_as_long_as_the_value_dns_enabled_is_true(
    cluster: Cluster, by_value: None, client: Object, shared_namespace: str
) -> None:
    cluster.apply(egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME))
    assert OURS in written(cluster)
    waiting = ("wait", f"dnsconfig/{NAME}", "--for=condition=ClusterDNSReady", "--timeout=5m")
    cluster.bed.kubectl(*waiting, timeout=310)
    eventually(lambda: cluster.curl(client, f"http://{PEER_NAME}:{WEB_PORT}/") == GREETING, "the page of the device")


def test_a_pod_reaches_a_device_by_its_name(cluster: Cluster, client: Object, shared_namespace: str) -> None:
    ask_for(cluster, mode="Managed")
    cluster.apply(egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME))
    written(cluster)
    page = partial(cluster.curl, client, f"http://{PEER_NAME}:{WEB_PORT}/")
    eventually(lambda: page() == GREETING, "the page of the device")


def test_a_pod_with_the_tailnets_domain_in_its_search_list_can_use_short_names(
    cluster: Cluster, managed: str, shared_namespace: str
) -> None:
    pod = client_pod(shared_namespace)
    pod["spec"]["dnsConfig"] = {"searches": [DOMAIN]}
    cluster.apply(pod)
    url = f"http://{PEER_NAME.removesuffix(f'.{DOMAIN}')}:{WEB_PORT}/"
    eventually(lambda: cluster.curl(pod, url) == GREETING, "the page of the device by its short name")


def test_with_the_stub_domain_in_place_the_upstream_dns_server_still_answers_for_a_public_name(
    cluster: Cluster, bed: Bed, managed: str, shared_namespace: str
) -> None:
    cluster.apply(egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME))

    def both_resolve() -> bool:
        """Tell whether a name of the tailnet and a public name resolve.

        Both resolve only if the stub domain is the tailnet's suffix and nothing more.
        """
        return bool(dig(bed, DNS_SERVICE, PEER_NAME).data) and dig(bed, DNS_SERVICE, PUBLIC).data == ("192.0.2.7",)

    eventually(both_resolve, "a name of the tailnet beside a public one")


def test_a_new_name_resolves_soon_even_if_a_client_asked_for_it_before_it_existed(
    cluster: Cluster, managed: str, namespace: str, shared_namespace: str, tmp_path: Path
) -> None:
    cluster.remove(egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME))
    ip = (cluster.get("dnsconfig", NAME) or {})["status"]["nameserver"]["ip"]
    with (
        Probe.of(cluster.bed, ip, PEER_NAME, tmp_path) as itself,
        Probe.of(cluster.bed, DNS_SERVICE, PEER_NAME, tmp_path) as through,
    ):
        through.wait_for(lambda seen: seen.rcode == "NXDOMAIN", 30)
        cluster.apply(egress_service(namespace, "db", tailnet_fqdn=PEER_NAME))
        made = itself.wait_for(has_address, 120)
        assert through.wait_for(has_address, 30).at - made.at < 5


def has_address(seen: Seen) -> bool:
    return bool(seen.addresses)


def test_the_operator_restores_its_stub_domain_and_keeps_the_edits_of_others(cluster: Cluster, managed: str) -> None:
    ours = managed.removeprefix(COREFILE)
    write(cluster, THEIRS + managed)
    write(cluster, THEIRS + COREFILE)
    becomes(cluster, corefile, THEIRS + COREFILE + ours)


def test_the_operator_keeps_an_edit_of_the_corefile_that_somebody_makes_at_the_same_time(
    cluster: Cluster, managed: str
) -> None:
    for number in range(20):
        theirs = THEIRS.replace("example", f"example{number}")
        ask_for(cluster, mode="Manual")
        eventually(lambda: OURS not in corefile(cluster), "no stub domain", 30)
        ask_for(cluster, mode="Managed")
        write(cluster, theirs + COREFILE)  # while the operator writes, or just before or after that
        eventually(lambda: OURS in corefile(cluster), "our stub domain", 30)
        assert corefile(cluster).startswith(theirs)


def test_the_operator_does_not_change_the_clusters_dns_as_long_as_the_nameserver_cannot_start(
    cluster: Cluster, bed: Bed, unable: None
) -> None:
    becomes(cluster, reason, "NameserverPending")
    pods = partial(cluster.listed, "pods", labels={"app": "nameserver"})
    eventually(lambda: "ImagePullBackOff" in str(pods()), "an image that is missing", 60)
    assert condition(cluster.look(DNSCONFIG), "NameserverReady")["reason"] == "NameserverPending"
    assert corefile(cluster) == COREFILE
    assert dig(bed, DNS_SERVICE, "kubernetes.default.svc.cluster.local").rcode == "NOERROR"
    assert dig(bed, DNS_SERVICE, PUBLIC).data == ("192.0.2.7",)


def test_the_operator_reports_a_broken_corefile_and_does_not_change_it(cluster: Cluster, managed: str) -> None:
    write(cluster, BROKEN)
    becomes(cluster, reason, "CorefileUnreadable")
    assert corefile(cluster) == BROKEN
    write(cluster, COREFILE)
    assert written(cluster) == managed


def test_mode_manual_removes_the_stub_domain_from_the_corefile(cluster: Cluster, managed: str) -> None:
    assert managed != COREFILE
    ask_for(cluster, mode="Manual")
    becomes(cluster, corefile, COREFILE)
    becomes(cluster, reason, "")


def test_the_stub_domain_is_in_its_own_configmap_if_the_corefile_imports_further_files(cluster: Cluster) -> None:
    imports = f"{COREFILE}import /etc/coredns/custom/*.server\n"
    write(cluster, imports)
    ask_for(cluster, mode="Managed")
    eventually(lambda: cluster.get("configmap", "coredns-custom", "kube-system"), "ConfigMap coredns-custom")
    assert written(cluster) == imports
    ask_for(cluster, mode="Manual")
    eventually(lambda: not cluster.get("configmap", "coredns-custom", "kube-system"), "its end")
    write(cluster, COREFILE)


def _made(cluster: Cluster, obj: Object) -> bool:
    cluster.apply(obj)
    return True


def test_the_stub_domain_is_in_the_configuration_of_openshifts_dns_operator(cluster: Cluster) -> None:
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition(OPENSHIFT)}
    del crd["metadata"]["finalizers"]
    dns = {"apiVersion": OPENSHIFT_DNS.api_version, "kind": OPENSHIFT_DNS.kind, "metadata": {"name": "default"}}
    cluster.apply(crd)
    eventually(partial(_made, cluster, dns), "an object of the new kind")

    def servers(cluster: Cluster) -> int:
        found = cluster.get(str(OPENSHIFT_DNS), "default") or {}
        return len(found.get("spec", {}).get("servers", ()))

    ask_for(cluster, mode="Managed")
    becomes(cluster, servers, 1)
    assert (written(cluster), reason(cluster)) == (COREFILE, "StubDomainWritten")
    ask_for(cluster, mode="Manual")
    becomes(cluster, servers, 0)
    cluster.delete("crd", str(OPENSHIFT_DNS))


def test_the_status_names_a_writer_that_keeps_removing_the_stub_domain_from_the_corefile(
    cluster: Cluster, managed: str, say: Callable[[object], None]
) -> None:
    def is_told() -> bool:
        if OURS in corefile(cluster):
            write(cluster, COREFILE)
        return reason(cluster) == "StubDomainOverwritten"

    with closing(AuditLog(cluster.bed.plane.audit_log, OPERATOR_USER)) as log:
        eventually(is_told, "the reason StubDomainOverwritten", 30)
        assert not wait_until(lambda: not is_told(), FIGHT)
        writes = {what: count for what, count in log.writes().items() if what[1] == "configmaps"}
    say(f"writes in a fight over the Corefile: {writes}")
    assert sum(writes.values()) <= FEW
    told = condition(cluster.look(DNSCONFIG), "ClusterDNSConfigured")["message"]
    assert told.startswith(
        "kubectl-patch keeps undoing the operator's changes of key Corefile of ConfigMap kube-system/"
    )
    assert written(cluster) == managed
