"""Tailscale Services in a simulated tailnet, as claims come, move, change and go."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from clustersim import objects
from clustersim.faults import LOST, Failure
from tsoperator.api.objects import INGRESS, ROLE, SECRET, Object
from tsoperator.proxy.stored import encoded
from tsoperator.reconcilers.tailscaleservice.reconciler import WITHDRAWAL

from tests.operator.reconcilers.tailscaleservice.played import (
    THEM,
    US,
    Scene,
    advertising,
    group,
    new_scene,
    owned,
    reconciling,
)
from tests.support.cluster import until
from tests.support.manifests import DOMAIN, annotated, ingress, load_balancer
from tests.support.objects import OPERATOR_NAMESPACE
from tests.support.tailnets import join

pytestmark = pytest.mark.virtual_time

WEB = ingress("web", "web", proxy_group="ing")
API = load_balancer("api", proxy_group="ing", hostname="api")
CERTIFICATE = f"web.{DOMAIN}"


def hosted_at(name: str) -> Object:
    return {"spec": {"tls": [{"hosts": [name]}]}}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A cluster without controllers, with a group, in which the reconciler runs."""
    async with new_scene() as made:
        await made.make(*group())
        async with reconciling(made):
            yield made


async def gone(scene: Scene, manifest: Object) -> None:
    resource = objects.INGRESS if manifest["kind"] == INGRESS.kind else objects.SERVICE
    await until(lambda: scene.sim.store.find(resource, "default", manifest["metadata"]["name"]) is None)


async def claimed(scene: Scene) -> None:
    """Let an Ingress claim a label, and wait until its Tailscale Service and its certificate exist."""
    await scene.make(WEB)
    await scene.shows(web=(US,))
    await scene.certifies(web="ing")


async def test_claims_get_tailscale_services_and_leave_nothing_behind(scene: Scene) -> None:
    await scene.make(WEB, API)
    await scene.shows(web=(US,), api=(US,))
    await scene.certifies(web="ing")
    addresses = scene.service("web").addresses
    await scene.change(WEB, annotated(tags="tag:web", http_endpoint="enabled"))
    await until(lambda: scene.service("web").tags == ("tag:web",))
    found = scene.service("web")
    assert (found.ports, found.addresses) == (("tcp:443", "tcp:80"), addresses)
    assert scene.service("api").ports == ("do-not-validate",)
    for each in (WEB, API):
        await scene.delete(each)
        await gone(scene, each)
    await scene.shows()
    await scene.certifies()


async def test_a_claim_on_another_label_leaves_nothing_under_the_old_label(scene: Scene) -> None:
    await claimed(scene)
    await scene.change(WEB, hosted_at("shop"))
    await scene.shows(shop=(US,))
    await scene.certifies(shop="ing")


async def test_a_claim_that_moves_to_another_group_keeps_its_tailscale_service_and_the_group_gets_the_rights(
    scene: Scene,
) -> None:
    await scene.make(*group("new"))
    await claimed(scene)
    addresses = scene.service("web").addresses
    await scene.change(WEB, annotated(proxy_group="new"))
    await scene.certifies(web="new")
    assert scene.service("web").addresses == addresses


async def test_the_certificate_is_deleted_when_a_service_gets_the_label_of_an_ingress(scene: Scene) -> None:
    await claimed(scene)
    await scene.make(load_balancer("api", proxy_group="ing", hostname="web"))
    await scene.delete(WEB)
    await until(lambda: scene.service("web").ports == ("do-not-validate",))
    await scene.certifies()
    assert scene.services == {"web": (US,)}


async def test_a_claim_whose_group_is_missing_keeps_its_tailscale_service(scene: Scene) -> None:
    await claimed(scene)
    addresses = scene.service("web").addresses
    (pg, *_), config = group(), {"metadata": {"name": "ing-ingress-config", "namespace": OPERATOR_NAMESPACE}}
    await scene.delete(pg)
    await scene.delete({"apiVersion": "v1", "kind": "ConfigMap", **config})
    await scene.make(API)
    await until(lambda: scene.sim.store.get(objects.SERVICE, "default", "api")["metadata"].get("finalizers"))
    assert scene.services == {"web": (US,)}
    await scene.make(pg)
    await scene.shows(web=(US,), api=(US,))
    assert scene.service("web").addresses == addresses
    await scene.delete(pg)
    await scene.delete(WEB)
    await gone(scene, WEB)
    await scene.certifies()


async def test_an_invalid_edit_of_an_ingress_changes_nothing_in_the_tailnet(scene: Scene) -> None:
    await claimed(scene)
    before = scene.service("web")
    await scene.change(WEB, annotated(tags="nonsense", http_redirect="true"))
    await scene.make(API)
    await scene.shows(web=(US,), api=(US,))
    assert scene.service("web") == before
    await scene.change(WEB, annotated(tags=None))
    await until(lambda: scene.service("web").ports == ("tcp:443", "tcp:80"))


async def test_a_tailscale_service_stays_while_a_proxy_still_advertises_the_service(scene: Scene) -> None:
    await scene.make(WEB)
    await scene.shows(web=(US,))
    config = advertising("ing", "svc:web")
    await scene.change(config, {"data": config["data"]})
    await scene.make(API)
    await scene.delete(WEB)
    await scene.shows(web=(US,), api=(US,))
    await scene.change(config, {"data": advertising("ing")["data"]})
    await scene.shows(api=(US,))
    await gone(scene, WEB)


async def test_a_certificate_stays_until_the_proxies_no_longer_advertise_its_label(scene: Scene) -> None:
    await claimed(scene)
    state = group()[1]
    await scene.change(state, {"data": encoded({"_current-profile": "p", "p": '{"AdvertiseServices":["svc:web"]}'})})
    await scene.delete(WEB)
    await asyncio.sleep(WITHDRAWAL / 2)
    assert (scene.services, [*scene.certificates]) == ({"web": (US,)}, [CERTIFICATE])
    await scene.change(state, {"data": encoded({"p": "{}"})})
    before = asyncio.get_running_loop().time()
    await gone(scene, WEB)
    assert asyncio.get_running_loop().time() - before < 1
    await scene.certifies()


async def test_a_certificate_is_deleted_after_some_time_even_if_a_proxy_still_advertises_its_label(
    scene: Scene,
) -> None:
    await claimed(scene)
    state = group()[1]
    await scene.change(state, {"data": encoded({"_current-profile": "p", "p": '{"AdvertiseServices":["svc:web"]}'})})
    await scene.delete(WEB)
    await asyncio.sleep(WITHDRAWAL - 1)
    assert [*scene.certificates] == [CERTIFICATE]
    await asyncio.sleep(2)
    await gone(scene, WEB)
    await scene.certifies()


async def test_a_tailscale_service_of_several_operators_keeps_its_other_owners(scene: Scene) -> None:
    scene.sim.control.services.put(owned("svc:web", THEM, comment="theirs"))
    await scene.make(WEB)
    await scene.shows(web=(THEM, US))
    await scene.delete(WEB)
    await scene.shows(web=(THEM,))
    assert scene.service("web").comment == "theirs"


async def test_the_operator_gives_up_a_tailscale_service_again_if_another_owner_has_undone_the_change(
    scene: Scene,
) -> None:
    scene.sim.control.services.put(owned("svc:web", THEM))
    await scene.make(WEB)
    await scene.shows(web=(THEM, US))
    before = scene.service("web")
    await scene.delete(WEB)
    await scene.shows(web=(THEM,))
    await gone(scene, WEB)
    scene.sim.control.services.lists_annotations = False
    await asyncio.sleep(30)  # the operator has checked its write, and reads the owners again only at its next look
    scene.sim.control.services.put(before)
    await scene.shows_later(web=(THEM,))


@pytest.mark.parametrize("annotations", [{}, {"tailscale.com/owner-references": "{"}], ids=["foreign", "unreadable"])
async def test_a_tailscale_service_of_somebody_else_is_never_changed(scene: Scene, annotations: dict[str, str]) -> None:
    present = replace(owned("svc:web"), annotations=annotations, comment="mine")
    stored = scene.sim.control.services.put(present)
    await scene.make(WEB, API)
    await until(lambda: "api" in scene.services)
    assert scene.service("web") == stored
    await scene.delete(WEB)
    await gone(scene, WEB)
    assert scene.service("web") == stored


async def test_a_tailscale_service_whose_claim_disappeared_while_no_operator_ran_is_deleted() -> None:
    async with new_scene() as scene:
        scene.sim.control.services.lists_annotations = False
        for name, owner in (("svc:ours", US), ("svc:theirs", THEM)):
            scene.sim.control.services.put(owned(name, owner))
        scene.identity.node_id = ""
        await scene.make(*group())
        async with reconciling(scene):
            await asyncio.sleep(60)  # until the operator has read all Tailscale Services
            assert scene.services == {"ours": (US,), "theirs": (THEM,)}
            scene.identity.becomes(US)
            await scene.shows(theirs=(THEM,))


async def test_the_certificate_of_an_ingress_is_made_as_soon_as_the_domain_is_known() -> None:
    async with new_scene() as scene, reconciling(scene):
        pg, state, config = group()
        await scene.make(pg, config, WEB)
        await scene.shows(web=(US,))
        assert scene.certificates == {}
        await scene.make(state)
        await scene.certifies(web="ing")


async def test_a_foreign_secret_with_the_name_of_a_certificate_stays_and_an_event_says_so(scene: Scene) -> None:
    strange = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": OPERATOR_NAMESPACE, "name": CERTIFICATE},
        "type": "Opaque",
        "data": {"a": "eA=="},
    }
    await scene.make(strange, WEB)
    await scene.shows(web=(US,))
    await until(lambda: [each for each in scene.sim.store.list(objects.EVENT) if "in the way" in each["message"]])
    (event,) = scene.sim.store.list(objects.EVENT)
    assert (event["involvedObject"]["name"], event["reason"]) == ("web", "CertificateNameTaken")
    assert scene.sim.store.get(objects.SECRET, OPERATOR_NAMESPACE, CERTIFICATE)["data"] == strange["data"]
    await scene.delete(strange)
    await scene.certifies(web="ing")


async def test_the_operator_repairs_the_objects_of_a_certificate_but_does_not_change_the_data(scene: Scene) -> None:
    await claimed(scene)
    secret, role = (
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "metadata": {"namespace": OPERATOR_NAMESPACE, "name": CERTIFICATE},
        }
        for each in (SECRET, ROLE)
    )
    filled = {"tls.crt": "eA==", "tls.key": "eQ=="}
    lost = {"metadata": {"labels": {"tailscale.com/domain": None}}}
    await scene.change(secret, {"data": filled, **lost})
    await scene.change(role, {"rules": [], **lost})

    def live(kind: objects.Resource) -> Object:
        return scene.sim.store.find(kind, OPERATOR_NAMESPACE, CERTIFICATE) or {}

    def is_right() -> bool:
        found = [live(objects.SECRET), live(objects.ROLE)]
        return all(each["metadata"]["labels"].get("tailscale.com/domain") == CERTIFICATE for each in found)

    await until(is_right)
    assert (live(objects.SECRET)["data"], bool(live(objects.ROLE)["rules"])) == (filled, True)
    await scene.delete(secret)
    await until(lambda: live(objects.SECRET).get("data") == {"tls.crt": "", "tls.key": ""})


KUBERNETES = {"refused": 403, "conflict": 409, "answer lost": LOST, "failed": 500}


@pytest.mark.parametrize("status", KUBERNETES.values(), ids=KUBERNETES)
async def test_tailscale_services_and_certificates_become_right_even_if_a_write_to_the_api_server_fails(
    scene: Scene, status: int
) -> None:
    for plural in ("secrets", "roles", "rolebindings"):
        scene.sim.faults.fail(Failure(status, verb="create", plural=plural))
        scene.sim.faults.fail(Failure(status, verb="delete", plural=plural))
    await scene.make(WEB)
    await scene.shows(web=(US,))
    await scene.certifies(web="ing")
    await scene.delete(WEB)
    await gone(scene, WEB)
    await scene.shows()
    await scene.certifies()


@pytest.mark.parametrize("fault", ["lost", 429, 503])
async def test_tailscale_services_become_right_even_if_calls_to_the_control_server_fail(
    scene: Scene, fault: str | int
) -> None:
    def strike() -> None:
        if isinstance(fault, int):
            scene.sim.control.fail(fault, count=3, path="/api/v2/tailnet/-/vip-services/{name}")
        else:
            scene.sim.control.lose_answers(count=3, path="/api/v2/tailnet/-/vip-services/{name}")

    scene.sim.control.services.put(owned("svc:api", THEM))
    strike()
    await scene.make(WEB, API)
    await scene.shows_later(web=(US,), api=(THEM, US))
    strike()
    for each in (WEB, API):
        await scene.delete(each)
    await scene.shows_later(api=(THEM,))
    for each in (WEB, API):
        await gone(scene, each)


async def test_the_operator_tries_to_get_a_label_that_a_device_has_until_the_label_is_free(scene: Scene) -> None:

    device = join(scene.sim.control, "web")
    await scene.make(WEB)
    await scene.certifies(web="ing")
    assert scene.services == {}
    scene.sim.control.delete_device(device)
    await scene.shows_later(web=(US,))


async def test_refused_tags_leave_a_tailscale_service_unchanged_until_somebody_edits_the_tags(scene: Scene) -> None:
    scene.sim.control.policy_tags = {"tag:k8s"}
    await scene.make(WEB)
    await scene.shows(web=(US,))
    await scene.change(WEB, annotated(tags="tag:other"))
    await scene.make(API)
    await scene.shows(web=(US,), api=(US,))
    assert scene.service("web").tags == ("tag:k8s",)
    await scene.change(WEB, annotated(tags=None, http_endpoint="enabled"))
    await until(lambda: scene.service("web").ports == ("tcp:443", "tcp:80"))
