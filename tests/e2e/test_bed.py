"""The bed itself is a cluster: Pods run, find each other by name, and can be looked into."""

import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.testbed import registry
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.processes import wait_until

PAGE = "/usr/share/common-licenses/BSD"


@pytest.fixture(scope="module")
def namespace(bed: Bed) -> Iterator[str]:
    """A namespace of its own, gone afterwards."""
    name = f"bed-{uuid.uuid4().hex[:6]}"
    bed.kubectl("create", "namespace", name)
    bed.plane.wait_for_namespace(name)
    yield name
    bed.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def pod(bed: Bed, namespace: str) -> str:
    """A Pod from the base image that serves its files by HTTP, and a Service before it."""
    serve = ["python3", "-u", "-m", "http.server", "8000"]
    bed.kubectl("-n", namespace, "run", "web", f"--image={registry.BASE}", "--port=8000", "--expose", "--", *serve)
    bed.kubectl("-n", namespace, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s", timeout=70)
    return "web"


def inside(bed: Bed, namespace: str, pod: str, *words: str) -> str:
    return bed.kubectl("-n", namespace, "exec", pod, "--", *words)


def test_cluster_dns_answers_in_a_pod(bed: Bed, namespace: str, pod: str) -> None:
    address = bed.kubectl("-n", namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
    found = inside(bed, namespace, pod, "dig", "+short", "+search", "web")
    assert found.strip() == address


def test_a_pod_reaches_a_service_even_its_own(bed: Bed, namespace: str, pod: str) -> None:
    curl = ["curl", "-fsS", "--max-time", "5", "--retry", "5", "--retry-connrefused"]
    page = inside(bed, namespace, pod, *curl, f"http://web:8000{PAGE}")
    assert page == inside(bed, namespace, pod, "cat", PAGE)


def test_a_pod_reaches_the_api_server_and_trusts_it(bed: Bed, namespace: str, pod: str) -> None:
    ca = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    page = inside(bed, namespace, pod, "curl", "-fsS", "--cacert", ca, "https://kubernetes.default.svc/livez")
    assert page == "ok"


def test_logs_are_shown(bed: Bed, namespace: str, pod: str) -> None:
    logged = wait_until(lambda: "Serving HTTP" in bed.kubectl("-n", namespace, "logs", pod), 10)
    assert logged


def test_an_image_of_any_registry_comes_from_the_local_one(bed: Bed, namespace: str) -> None:
    bed.images.push_base_as("registry.example.org/some/image:1")
    run = ["run", "elsewhere", "--image=registry.example.org/some/image:1", "--image-pull-policy=Always"]
    bed.kubectl("-n", namespace, *run, "--", "sleep", "infinity")
    bed.kubectl("-n", namespace, "wait", "pod/elsewhere", "--for=condition=Ready", "--timeout=60s", timeout=70)
