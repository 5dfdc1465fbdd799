"""The operator restores children that somebody deletes, edits or relabels, and doesn't change foreign objects."""

from collections.abc import Iterator
from functools import partial

import pytest
from tsoperator.api import objects
from tsoperator.api.objects import Object, Resource, key_of, labels, uid

from tests.operator.contract.kind import KindExample
from tests.operator.contract.kinds import KINDS, each_joining, each_labelling, each_parent, marks
from tests.operator.contract.scene import Scene
from tests.support.operator import NAMESPACE, World, meant, running_operator

pytestmark = pytest.mark.full

_APP = {"example.org/app": "other"}
_PODS = {"metadata": {"labels": _APP}, "spec": {"containers": [{"name": "a", "image": "example.org/a"}]}}
_STRANGERS: dict[Resource, Object] = {
    objects.CONFIGMAP: {},
    objects.ENDPOINTSLICE: {"addressType": "IPv4", "endpoints": []},
    objects.DEPLOYMENT: {"spec": {"replicas": 0, "selector": {"matchLabels": _APP}, "template": _PODS}},
    objects.ROLE: {"rules": []},
    objects.ROLEBINDING: {
        "roleRef": {"apiGroup": objects.ROLE.group, "kind": objects.ROLE.kind, "name": "other"},
        "subjects": [],
    },
    objects.SECRET: {"data": {"password": "eA=="}},
    objects.SERVICE: {"spec": {"ports": [{"port": 80}]}},
    objects.SERVICEACCOUNT: {},
    objects.STATEFULSET: {
        "spec": {"replicas": 0, "selector": {"matchLabels": _APP}, "serviceName": "a", "template": _PODS}
    },
}


@each_parent
async def test_a_child_that_is_deleted_comes_back_under_its_name(scene: Scene, kind: KindExample) -> None:
    before = await scene.make()
    for resource in kind.children:
        child = scene.child(resource)
        await scene.delete(child)
        await scene.restored(child)
        await scene.becomes(before)


@each_joining
async def test_every_proxy_trusts_the_ca_bundle_of_the_settings(cluster: World, kind: KindExample) -> None:
    async with running_operator(cluster, proxy_ca_bundle="own-ca"):
        scene = Scene(cluster, kind)
        bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own-ca", "namespace": NAMESPACE}}
        await cluster.apply({**bundle, "data": {"ca.crt": "a certificate"}})
        await scene.prepare()
        await scene.make()
        pods = await cluster.children(objects.POD, kind.manifest)
        assert len(pods) == kind.devices
        for spec in (pod["spec"] for pod in pods):
            proxy = spec["containers"][0]
            [folder] = [each["mountPath"] for each in proxy["volumeMounts"] if each["name"] == "ca-bundle"]
            assert [each["configMap"]["name"] for each in spec["volumes"] if each["name"] == "ca-bundle"] == ["own-ca"]
            assert {"name": "SSL_CERT_FILE", "value": f"{folder}/ca.crt"} in proxy["env"]


@each_parent
async def test_the_operator_undoes_an_edit_of_a_child(scene: Scene, kind: KindExample) -> None:
    before = await scene.make()
    for resource, patch in ((resource, patch) for resource, edits in kind.children.items() for patch in edits):
        child = scene.child(resource)
        await scene.change(child, patch)
        if scene.world.simulation:
            assert scene.portrait() != before
        else:
            await scene.world.settled()  # the test sees a real API server's objects a moment late
        await scene.becomes(before)
        assert uid(scene.child(resource)) == uid(child)


LABELS: dict[str, dict[str, str | None] | None] = {
    "none": None,
    "nobody's": {"tailscale.com/parent-resource": None},
    "another's": {"tailscale.com/parent-resource": "other"},
    "of another type": {"tailscale.com/parent-resource-type": "stranger"},
    "of another namespace": {"tailscale.com/parent-resource-ns": "other"},
    "not managed": {"tailscale.com/managed": None},
}


def relabelled() -> Iterator[object]:
    """Yield a parameter for each kind and each change of its children's labels that the operator has to undo."""
    for kind in (each for each in KINDS if each.children and each.is_labelled):
        for name, change in LABELS.items():
            is_anothers = any((change or {}).values())
            if not (kind.keeps_others_labels and is_anothers):
                lane = [*marks(kind), *[pytest.mark.thorough] * (name != "none")]
                yield pytest.param(kind, change, id=f"{name}-{kind}", marks=lane)


@pytest.mark.parametrize(("kind", "change"), list(relabelled()))
async def test_a_child_with_changed_labels_gets_its_labels_back_and_is_not_replaced(
    scene: Scene, kind: KindExample, change: dict[str, str | None] | None
) -> None:
    before = await scene.make()
    for resource in kind.children:
        child = scene.child(resource)
        await scene.change(child, {"metadata": {"labels": change}})
        await scene.becomes(before)
        assert (uid(scene.child(resource)), labels(scene.child(resource))) == (uid(child), labels(child))


@each_labelling
async def test_a_label_of_others_stays_on_a_child_when_our_lost_labels_come_back(
    scene: Scene, kind: KindExample
) -> None:
    await scene.make()
    resource = next(iter(kind.children))
    child = scene.child(resource)
    await scene.change(child, {"metadata": {"labels": {**dict.fromkeys(labels(child)), **_APP}}})

    async def labels_now() -> dict[str, str]:
        return dict(labels(scene.child(resource)))

    await scene.world.becomes(labels_now, {**labels(child), **_APP})


@each_labelling
async def test_a_foreign_object_with_the_name_of_a_child_stays_and_the_parent_reports_it(
    cluster: World, kind: KindExample
) -> None:
    scene = Scene(cluster, kind)
    await scene.apply(*kind.beside)
    for resource in kind.children:
        await scene.apply(kind.manifest)
        foreign = await stranger(scene, resource)
        async with running_operator(cluster):
            words = f"{resource.kind} {key_of(foreign)} is in the way"
            await cluster.eventually(partial(scene.says, words))
            assert meant(await cluster.look(foreign)) == meant(foreign)
            await scene.delete(foreign)
            await scene.whole()
            await scene.end()


async def stranger(scene: Scene, resource: Resource) -> Object:
    """Create a foreign object with the name that the child of kind *resource* needs, and return it as it is stored."""
    live = await scene.world.look(scene.obj)
    metadata = {"namespace": NAMESPACE, "name": scene.kind.child_name(live, resource)}
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    await scene.apply(head | _STRANGERS[resource])
    await scene.world.settled()
    return await scene.world.look(head)


@each_labelling
async def test_a_secret_with_the_labels_of_a_child_but_another_name_is_not_deleted(
    scene: Scene, kind: KindExample
) -> None:
    """Show that no Secret counts as a child by its labels if it has a name that no child can have."""
    await scene.make()
    child = scene.child(next(iter(kind.children)))
    metadata = {"namespace": NAMESPACE, "name": "password", "labels": dict(labels(child))}
    await scene.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    await scene.world.settled()
    await scene.delete(kind.manifest)
    await scene.world.becomes(scene.left, ["Secret tailscale/password"])
