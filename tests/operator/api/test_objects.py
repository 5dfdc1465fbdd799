import pytest
from tsoperator.api.objects import (
    DEPLOYMENT,
    DNSCONFIG,
    INGRESS,
    OWN_KINDS,
    POD,
    RESOURCES,
    SERVICE,
    Key,
    Object,
    Resource,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    labels,
    resource_of,
    spec_text,
    uid,
)


@pytest.mark.parametrize(
    ("resource", "parts", "path"),
    [
        (POD, (), "/api/v1/pods"),
        (POD, ("default",), "/api/v1/namespaces/default/pods"),
        (POD, ("default", "a"), "/api/v1/namespaces/default/pods/a"),
        (POD, ("default", "a", "status"), "/api/v1/namespaces/default/pods/a/status"),
        (DEPLOYMENT, ("default", "a"), "/apis/apps/v1/namespaces/default/deployments/a"),
        (DNSCONFIG, (), "/apis/tailscale.com/v1alpha1/dnsconfigs"),
        (DNSCONFIG, ("", "a"), "/apis/tailscale.com/v1alpha1/dnsconfigs/a"),
        (DNSCONFIG, ("default", "a", "status"), "/apis/tailscale.com/v1alpha1/dnsconfigs/a/status"),
    ],
)
def test_the_url_path_of_a_kind_is_the_path_in_the_kubernetes_api(
    resource: Resource, parts: tuple[str, ...], path: str
) -> None:
    assert resource.path(*parts) == path


def test_keys_and_kinds_are_written_as_kubectl_writes_them() -> None:
    read = [str(each) for each in (Key("default", "a"), Key("", "a"), SERVICE, INGRESS)]
    assert read == ["default/a", "a", "services", "ingresses.networking.k8s.io"]


def test_the_kind_of_an_object_is_found_by_its_apiversion_and_kind() -> None:
    for resource in RESOURCES.values():
        assert resource_of({"apiVersion": resource.api_version, "kind": resource.kind}) is resource


def test_each_kind_says_correctly_whether_its_objects_have_a_namespace() -> None:
    assert [kind.kind for kind in OWN_KINDS if kind.namespaced] == ["ProxyGroupPolicy"]
    others = {"CustomResourceDefinition", "IngressClass", "Node"}
    others |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    found = {kind.kind for kind in RESOURCES.values() if not kind.namespaced and kind not in OWN_KINDS}
    assert found == others


def test_only_the_operators_own_kinds_and_those_of_the_prometheus_operator_are_defined_by_crds() -> None:
    assert {kind.group for kind in RESOURCES.values() if kind.is_custom} == {"tailscale.com", "monitoring.coreos.com"}


def test_the_key_and_the_uid_of_an_object_are_read_from_its_metadata() -> None:
    obj = {"metadata": {"namespace": "default", "name": "a", "uid": "1-2"}}
    assert key_of(obj) == Key("default", "a")
    assert key_of({"metadata": {"name": "a"}}) == Key("", "a")
    assert uid(obj) == "1-2"


@pytest.mark.parametrize("metadata", [{}, {"labels": None, "annotations": None, "finalizers": None}])
def test_a_missing_part_of_an_object_is_read_as_empty(metadata: Object) -> None:
    obj = {"metadata": metadata}
    assert (labels(obj), annotations(obj), has_finalizer(obj, "a"), is_deleting(obj)) == ({}, {}, False, False)


def test_the_labels_annotations_finalizers_and_deletion_of_an_object_are_read_from_its_metadata() -> None:
    given = {"labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["example.org/a"]}
    obj = {"metadata": {**given, "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    assert (labels(obj), annotations(obj), is_deleting(obj)) == ({"a": "1"}, {"b": "2"}, True)
    assert (has_finalizer(obj, "example.org/a"), has_finalizer(obj, "example.org/b")) == (True, False)


@pytest.mark.parametrize(("spec", "name"), [(None, ""), ({}, ""), ({"tailnet": 7}, ""), ({"tailnet": "lab"}, "lab")])
def test_a_text_field_is_read_even_from_a_broken_spec(spec: object, name: str) -> None:
    assert spec_text({"spec": spec}, "tailnet") == name
