"""The value dns.enabled, with which the operator makes a DNSConfig: its rights and variables, and the chart's notes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tsoperator.reconcilers.owndnsconfig.plan import own_dnsconfig

from tests.charts.rendered import CREDENTIALS, Render, container
from tests.e2e.product import CHART, NAMESPACE, RELEASE
from tests.e2e.testbed.bed import Bed
from tests.e2e.waiting import eventually

Object = dict[str, Any]

ENABLED, MANAGES = "dns.enabled=true", "operatorConfig.manageClusterDNS=true"
CRDS = CHART / "files" / "crds" / "tailscale.com_dnsconfigs.yaml"
MAKES, MAY_WRITE, MAY_CREATE = "OPERATOR_DNS_ENABLED", "OPERATOR_MANAGE_CLUSTER_DNS", "create dnsconfigs"


def given(objects: list[Object]) -> set[str]:
    """Return what the rendered *objects* give the operator for DNS: variables that are true, and rights on objects."""
    env = {each["name"] for each in container(objects)["env"] if each.get("value") == "true"}
    roles = [obj for obj in objects if "rules" in obj and obj["metadata"]["name"].endswith("-dns")]
    rights = {f"{verb} {rule['resources'][0]}" for role in roles for rule in role["rules"] for verb in rule["verbs"]}
    return env & {MAKES, MAY_WRITE} | rights & {MAY_CREATE, "delete dnsconfigs", "patch configmaps"}


ALL = {MAKES, MAY_WRITE, MAY_CREATE, "delete dnsconfigs", "patch configmaps"}


@pytest.mark.parametrize(
    ("sets", "wanted"),
    [((), set()), ((MANAGES,), {MAY_WRITE, "patch configmaps"}), ((ENABLED,), ALL), ((ENABLED, MANAGES), ALL)],
)
def test_the_value_dns_enabled_gives_the_operator_rights_on_the_dnsconfig_and_the_clusters_dns(
    render: Render, sets: tuple[str, ...], wanted: set[str]
) -> None:
    assert given(render(*CREDENTIALS, *sets)) == wanted


@pytest.fixture
def made(spaced_bed: Bed) -> Iterator[Object]:
    """The DNSConfig that the operator makes, on an API server. The fixture deletes it afterwards, with its CRD."""
    apply = ("apply", "--server-side", "--filename")
    spaced_bed.kubectl(*apply, CRDS)
    eventually(lambda: spaced_bed.kubectl(*apply, "-", stdin=yaml.safe_dump(own_dnsconfig())), "the DNSConfig is made")
    yield own_dnsconfig()
    spaced_bed.kubectl("delete", "--filename", CRDS)


def rendered(bed: Bed, *words: str) -> tuple[list[Object], str]:
    """Return the objects that Helm renders with the arguments *words*, and the chart's notes in one line.

    The templates can query the API server of *bed*.
    """
    text = bed.helm("install", RELEASE, CHART, "--namespace", NAMESPACE, "--dry-run=server", *words)
    manifests, _, notes = text.partition("\nNOTES:\n")
    return [obj for obj in yaml.load_all(manifests.partition("\nMANIFEST:\n")[2], yaml.CSafeLoader) if obj], " ".join(
        notes.split()
    )


def test_after_dns_enabled_is_set_to_false_the_operator_keeps_its_rights_until_its_dnsconfig_is_gone(
    spaced_bed: Bed, made: Object
) -> None:
    words = ("--set", "installCRDs=false")
    objects, notes = rendered(spaced_bed, *words)
    assert given(objects) == ALL - {MAKES}
    assert "do not resolve in Pods any more: the operator deletes DNSConfig ts-dns" in notes
    name = made["metadata"]["name"]
    spaced_bed.kubectl("label", "dnsconfigs.tailscale.com", name, "tailscale.com/managed-")
    assert given(rendered(spaced_bed, *words)[0]) == set()
    ready = {"type": "ClusterDNSReady", "status": "True", "reason": "a", "message": "b"}
    status = {"status": {"conditions": [{**ready, "lastTransitionTime": "2026-01-02T03:04:05Z"}]}}
    assert f"kubectl wait dnsconfig/{name} --for=condition=ClusterDNSReady" in rendered(spaced_bed, *words)[1]
    spaced_bed.kubectl(
        "patch", "dnsconfigs.tailscale.com", name, "--subresource=status", "--type=merge", "-p", yaml.safe_dump(status)
    )
    assert f"Names of the tailnet resolve in Pods, by DNSConfig {name}." in rendered(spaced_bed, *words)[1]


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ((), "do not resolve in Pods. Set dns.enabled to true"),
        (
            (ENABLED,),
            "do not resolve in Pods yet. The operator makes a nameserver and changes the configuration of the",
        ),
    ],
)
def test_the_notes_of_a_first_installation_tell_whether_names_resolve_in_pods(
    render: Render, noted: Path, sets: tuple[str, ...], words: str
) -> None:
    (notes,) = (obj["notes"] for obj in render(*CREDENTIALS, *sets, chart=noted) if "notes" in obj)
    assert words in notes
