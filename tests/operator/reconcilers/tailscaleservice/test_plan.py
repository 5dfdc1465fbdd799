"""The plan for a label in a tailnet: its Tailscale Service, and the objects of its certificate."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tsoperator.api.names import HA_INGRESS_FINALIZER, HA_SERVICE_FINALIZER, KUBE_APISERVER_FINALIZER
from tsoperator.api.objects import INGRESS, PROXYGROUP, ROLE, ROLEBINDING, SECRET, SERVICE, Key, Object, key_of
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.policy import UNSUPPORTED
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.group.claims import LabelClaim, claim_of
from tsoperator.proxy.secret import slim
from tsoperator.proxy.serviceview import ServiceView
from tsoperator.reconcilers.tailscaleservice.certificate import certificate_objects
from tsoperator.reconcilers.tailscaleservice.plan import COMMENT, Observed, has_settled, pause_after, plan, refused
from tsoperator.runtime.diff import write_for
from tsoperator.runtime.plan import Child, Creation, DeleteService, Deletion, Patch, Plan, PutService, Refusal, Step

from tests.support.objects import OPERATOR_NAMESPACE, deleting, obj, settings, stored

US, THEM, RESOURCE = {"operatorID": "nABC"}, {"operatorID": "nTHEM"}, {"kind": "ProxyGroup", "name": "api", "uid": "u"}
CERTIFICATE = Key(OPERATOR_NAMESPACE, "web.tail1234.ts.net")


def claim(of: Object) -> LabelClaim:
    found = claim_of(of, settings(proxy_tags=("tag:k8s",)))
    assert found is not None
    return found


def web(group: str = "ing", name: str = "web", **annotations: str) -> LabelClaim:
    given = {"tailscale.com/proxy-group": group}
    given |= {f"tailscale.com/{each.replace('_', '-')}": value for each, value in annotations.items()}
    spec = {"ingressClassName": "tailscale", "tls": [{"hosts": ["web"]}]}
    metadata = {"annotations": given, "finalizers": [HA_INGRESS_FINALIZER]}
    return claim(obj(INGRESS, Key("default", name), {"spec": spec}, **metadata))


def api() -> LabelClaim:
    spec = {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "clusterIP": "10.0.0.9"}
    given = {"tailscale.com/proxy-group": "ing", "tailscale.com/hostname": "web"}
    metadata = {"annotations": given, "finalizers": [HA_SERVICE_FINALIZER]}
    return claim(obj(SERVICE, Key("default", "api"), {"spec": spec}, **metadata))


def kapi(mode: str = "auth") -> LabelClaim:
    spec = {"type": "kube-apiserver", "kubeAPIServer": {"mode": mode, "hostname": "web"}}
    return claim(obj(PROXYGROUP, Key("", "api"), {"spec": spec}, uid="u", finalizers=[KUBE_APISERVER_FINALIZER]))


def owned_by(*owners: Any) -> dict[str, str]:
    return {ANNOTATION_OWNERS: json.dumps({"ownerRefs": owners}, separators=(",", ":"))}


def service(*owners: Any, **fields: Any) -> TailscaleService:
    """Return the Tailscale Service for `web()`, which has these *owners*."""
    given = {
        "addresses": ("100.80.0.1", "fd7a::1"), "ports": ("tcp:443",), "tags": ("tag:k8s",),
        "annotations": owned_by(*owners), "other": {"comment": "mine", "displayName": "Web"},
    } | fields  # fmt: skip
    return TailscaleService("svc:web", **given)


def observed(live: TailscaleService | None = None, holder: LabelClaim | None = None, **facts: Any) -> Observed:
    view = facts.pop("view", ServiceView(live))
    return Observed("", "web", view, **{"operator_id": "nABC", "holder": holder, **facts})


def writes(made: Plan) -> list[Step]:
    return [step for step in made.steps if isinstance(step, PutService | DeleteService)]


def put(made: Plan) -> PutService:
    (step,) = writes(made)
    assert isinstance(step, PutService)
    return step


def test_a_new_tailscale_service_has_only_our_operator_as_its_owner() -> None:
    made = put(plan(observed(None, web(http_redirect="true"))))
    assert (made.tailnet, made.before) == ("", None)
    body = {
        "name": made.service.name, "comment": made.service.other["comment"], "annotations": made.service.annotations,
        "ports": [*made.service.ports], "tags": [*made.service.tags],
    }  # fmt: skip
    assert json.dumps(body, separators=(",", ":")) == (
        '{"name":"svc:web","comment":"This Tailscale Service is managed by the Tailscale Kubernetes Operator, do not '
        'modify","annotations":{"tailscale.com/owner-references":"{\\"ownerRefs\\":[{\\"operatorID\\":\\"nABC\\"}]}"},'
        '"ports":["tcp:443","tcp:80"],"tags":["tag:k8s"]}'
    )
    assert (made.service.addresses, {*made.service.other}) == ((), {"comment"})


@pytest.mark.parametrize(
    ("live", "holder", "expected"),
    [
        (service(US), web(), None),
        (service(THEM, US), web(), None),
        (service(THEM), web(), service(THEM, US)),
        (service({**THEM, "resource": RESOURCE}, US), web(), None),
        (service(US, ports=("tcp:80", "tcp:443")), web(http_endpoint="enabled"), None),
        (service(US, ports=("tcp:443",)), web(http_endpoint="enabled"), service(US, ports=("tcp:443", "tcp:80"))),
        (service(US, tags=("tag:b", "tag:a")), web(tags="tag:a,tag:b"), None),
        (service(US, tags=("tag:a",)), web(tags="tag:a,tag:b"), service(US, tags=("tag:a", "tag:b"))),
        (service(US), api(), service(US, ports=("do-not-validate",))),
    ],
    ids=["ours", "shared", "of others", "shared, of a resource first", "other order of ports", "another port",
         "other order of tags", "another tag", "a Service has the label now"],
)  # fmt: skip
def test_a_tailscale_service_is_written_if_it_differs_from_the_claim(
    live: TailscaleService, holder: LabelClaim, expected: TailscaleService | None
) -> None:
    found = [
        (each.service, each.before) for each in writes(plan(observed(live, holder))) if isinstance(each, PutService)
    ]
    assert found == ([(expected, live)] if expected else [])


NOT_TO_WRITE = {
    "foreign": service(),
    "foreign without annotations": service(annotations={}),
    "of a resource": service({**THEM, "resource": RESOURCE}),
    "unreadable": service(annotations={ANNOTATION_OWNERS: "{"}),
}


@pytest.mark.parametrize("live", NOT_TO_WRITE.values(), ids=NOT_TO_WRITE)
@pytest.mark.parametrize("holder", [web(), None], ids=["claimed", "free"])
def test_a_tailscale_service_that_our_operator_is_not_allowed_to_write_stays_unchanged(
    live: TailscaleService, holder: LabelClaim | None
) -> None:
    assert not plan(observed(live, holder, certificate=CERTIFICATE if holder else None)).steps


OURS = {**US, "resource": RESOURCE}


@pytest.mark.parametrize(
    ("holder", "live", "is_ours"),
    [
        (web(), service(OURS), True),
        (web(), service({**US, "resource": {**RESOURCE, "kind": "Ingress"}}), False),
        (kapi(), service(US), True),
        (kapi(), service({**US, "resource": {**RESOURCE, "uid": "v"}}), True),
        (kapi(), service(), False),
        (kapi(), service(THEM), False),
        (kapi(), service(US, THEM), False),
        (kapi(), service({**THEM, "resource": RESOURCE}), False),
        (kapi(), service(annotations={ANNOTATION_OWNERS: "{"}), False),
    ],
)
@pytest.mark.parametrize("is_left_over", [True, False])
def test_a_tailscale_service_that_does_not_suit_its_claim_is_deleted_only_if_it_is_ours_and_left_over(
    holder: LabelClaim, live: TailscaleService, is_ours: bool, is_left_over: bool
) -> None:
    steps = [DeleteService("", observed().owner, live)] if is_ours and is_left_over else []
    assert plan(observed(live, holder, certificate=CERTIFICATE, is_left_over=is_left_over)).steps == steps


def test_the_operator_names_a_group_of_type_kube_apiserver_as_the_only_owner_of_its_tailscale_service() -> None:
    made = service(OURS, other={"comment": COMMENT}, addresses=())
    assert writes(plan(observed(None, kapi()))) == [PutService("", observed().owner, made, None)]
    before = service({**US, "resource": {**RESOURCE, "name": "old"}})
    assert writes(plan(observed(before, kapi()))) == [PutService("", observed().owner, service(OURS), before)]
    assert not writes(plan(observed(service(OURS), kapi())))


@pytest.mark.parametrize(("mode", "account"), [("auth", "kube-apiserver-auth-proxy"), ("noauth", "api")])
def test_the_objects_of_the_certificate_of_a_group_are_those_of_the_go_operator(mode: str, account: str) -> None:
    role, binding, secret = certificate_objects(CERTIFICATE, kapi(mode))
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": OPERATOR_NAMESPACE}]
    assert (
        role["metadata"]["labels"]
        == binding["metadata"]["labels"]
        == {
            "tailscale.com/managed": "true",
            "tailscale.com/proxy-group": "api",
            "tailscale.com/domain": "web.tail1234.ts.net",
        }
    )
    assert secret["metadata"]["labels"] == role["metadata"]["labels"] | {
        "tailscale.com/secret-type": "certs",
        "tailscale.com/parent-resource-type": "proxygroup",
        "tailscale.com/parent-resource": "api",
    }


def test_an_operator_without_an_identity_makes_no_tailscale_service() -> None:
    assert not plan(observed(None, web(), operator_id="", certificate=CERTIFICATE)).steps


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (None, []),
        (service(US), [DeleteService("", observed().owner, service(US))]),
        (service(US, THEM), [PutService("", observed().owner, service(THEM), service(US, THEM))]),
        (service(THEM), []),
        (
            service({**US, "resource": RESOURCE}),
            [DeleteService("", observed().owner, service({**US, "resource": RESOURCE}))],
        ),
    ],
    ids=["gone", "ours", "shared", "of others", "of a group"],
)
def test_the_operator_gives_up_a_tailscale_service_whose_label_nobody_claims(
    live: TailscaleService | None, expected: list[Step]
) -> None:
    assert plan(observed(live)).steps == expected


def test_no_tailscale_service_is_written_while_the_control_server_refuses_to_show_it() -> None:
    assert not plan(observed(holder=web(), view=HIDDEN)).steps


HIDDEN = ServiceView(refusal=Refusal("it lacks the scope services"))


@pytest.mark.parametrize(
    "facts",
    [
        {"is_reserved": True},
        {"is_used": True},
        {"operator_id": "", "knows_id": False},
        {"view": HIDDEN},
    ],
    ids=["reserved", "used by a proxy", "no identity yet", "no Service is shown"],
)
def test_a_tailscale_service_stays_while_its_label_is_reserved_or_used_or_facts_are_unknown(
    facts: dict[str, Any],
) -> None:
    assert not plan(observed(service(US), leftovers=made_objects(), **facts)).steps


def test_a_tailscale_service_that_is_left_over_is_deleted_although_its_label_is_reserved() -> None:
    left = observed(service(US), is_reserved=True, is_left_over=True)
    assert plan(left).steps == [DeleteService("", left.owner, service(US))]


@pytest.mark.parametrize(
    "facts",
    [
        {"operator_id": "", "knows_id": True},
        {"view": ServiceView(refusal=Refusal("", UNSUPPORTED))},
    ],
    ids=["no identity", "Headscale"],
)
def test_certificates_are_deleted_if_the_operator_cannot_own_tailscale_services(facts: dict[str, Any]) -> None:
    assert [type(step) for step in plan(observed(service(THEM), leftovers=made_objects(), **facts)).steps] == [
        Deletion
    ] * 3


def test_the_plan_waits_for_a_tailscale_service_that_has_not_been_read() -> None:
    waiting = RuntimeError("pending")
    for holder in (web(), None):
        made = plan(observed(holder=holder, view=ServiceView(pending=waiting), leftovers=made_objects()))
        assert (made.error, made.steps) == (waiting, ())


def made_objects(holder: LabelClaim | None = None) -> list[Object]:
    """Return the live objects of a certificate that the Go operator has made for *holder*; without it, for `web()`."""
    role, binding, secret = certificate_objects(CERTIFICATE, holder or web())
    return [stored(binding), stored(role), slim(stored(secret))]


def test_the_objects_of_a_certificate_have_the_names_labels_and_rights_that_the_proxies_need() -> None:
    steps = plan(observed(None, web(), certificate=CERTIFICATE)).steps
    role, binding, secret, _ = steps
    assert isinstance(steps[-1], PutService)  # the proxies ask for the certificate as soon as they serve
    assert isinstance(role, Child)
    assert isinstance(binding, Child)
    assert isinstance(secret, Creation)
    assert {key_of(each.obj) for each in (role, binding, secret)} == {CERTIFICATE}
    names = {
        "tailscale.com/managed": "true", "tailscale.com/proxy-group": "ing",
        "tailscale.com/domain": "web.tail1234.ts.net",
    }  # fmt: skip
    assert role.obj["metadata"]["labels"] == binding.obj["metadata"]["labels"] == names
    assert secret.obj["metadata"]["labels"] == names | {
        "tailscale.com/secret-type": "certs", "tailscale.com/parent-resource-type": "ingress",
        "tailscale.com/parent-resource": "web", "tailscale.com/parent-resource-ns": "default",
    }  # fmt: skip
    assert (secret.obj["type"], secret.obj["data"]) == ("kubernetes.io/tls", {"tls.crt": "", "tls.key": ""})
    assert role.obj["rules"] == [
        {
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["web.tail1234.ts.net"],
            "verbs": ["get", "list", "patch", "update"],
        }
    ]  # fmt: skip
    assert binding.obj["roleRef"]["name"] == "web.tail1234.ts.net"
    assert [(each["kind"], each["name"], each["namespace"]) for each in binding.obj["subjects"]] == [
        ("ServiceAccount", "ing", OPERATOR_NAMESPACE)
    ]


def test_a_long_domain_is_cut_in_the_labels_of_a_certificates_objects() -> None:
    key = Key(OPERATOR_NAMESPACE, f"{'w' * 63}.tail1234.ts.net")
    found = {each["metadata"]["labels"]["tailscale.com/domain"] for each in certificate_objects(key, web())}
    assert found == {f"{'w' * 54}-8e65cd29"}


def test_only_the_metadata_changes_when_certificate_objects_of_the_go_operator_are_taken_over() -> None:
    binding, role, secret = made_objects()
    steps = plan(observed(service(US), web(), certificate=CERTIFICATE, secret=secret)).steps
    assert [type(step) for step in steps] == [Child, Child]
    for step, live in zip(steps, (role, binding), strict=True):
        assert isinstance(step, Child)
        written = write_for(step.obj, live)
        assert written is not None
        assert written | {"metadata": {}} == live | {"metadata": {}}


def test_the_rights_to_a_certificate_move_with_its_label_to_another_group() -> None:
    _, _, secret = made_objects()
    _, binding, patch = plan(observed(service(US), web("new"), certificate=CERTIFICATE, secret=secret)).steps
    assert isinstance(binding, Child)
    assert binding.obj["subjects"][0]["name"] == "new"
    labels = {"tailscale.com/proxy-group": "new"}
    assert patch == Patch(SECRET, CERTIFICATE, {"metadata": {"labels": labels}})


@pytest.mark.parametrize(
    ("facts", "goes"),
    [
        ({"holder": None}, True),
        ({"holder": api()}, True),
        ({"holder": api(), "serves_web": True}, False),
        ({"holder": web(), "certificate": CERTIFICATE}, True),
        ({"holder": web()}, False),
    ],
    ids=["free", "a Service has the label", "a proxy still ends TLS", "another domain", "the domain is not known"],
)
def test_all_objects_of_a_certificate_are_deleted_when_nothing_needs_the_certificate(
    facts: dict[str, Any], *, goes: bool
) -> None:
    live = made_objects()
    steps = plan(observed(service(THEM), leftovers=[*live, deleting(live[0])], **facts)).steps
    found = [(step.resource, step.obj) for step in steps if isinstance(step, Deletion)]
    assert found == ([*zip((ROLEBINDING, ROLE, SECRET), live, strict=True)] if goes else [])


def told(made: Plan) -> Sequence[tuple[str, str]]:
    return [(key_of(each.obj).name, note.reason) for each in made.reports for note in each.notes]


def test_a_foreign_secret_with_the_name_of_a_certificate_stays_and_is_reported() -> None:
    stranger = obj(SECRET, CERTIFICATE)
    made = plan(observed(None, web(), certificate=CERTIFICATE, stranger=stranger))
    assert [type(step) for step in made.steps] == [PutService]
    assert told(made) == [("web", "CertificateNameTaken")]


def test_the_tailscale_service_is_written_before_a_certificate_secret_that_could_be_foreign() -> None:
    steps = plan(observed(None, web(), certificate=CERTIFICATE, is_hidden=True)).steps
    assert [type(step) for step in steps] == [PutService, Child, Child, Creation]


PUT = PutService("", observed().owner, service(US), None)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (Refusal("no", step=PUT), []),
        (Refusal("no", step=Child(made_objects()[0])), [("web", "TailscaleServiceFailed")]),
        (Refusal("no", step=Creation(made_objects()[2]), is_taken=True), [("web", "CertificateNameTaken")]),
    ],
    ids=["the control server, as the Ingress shows already", "the API server", "a strange Secret"],
)
def test_a_refusal_of_the_api_server_is_reported_on_the_object_that_has_the_label(
    refusal: Refusal, expected: list[tuple[str, str]]
) -> None:
    made = refused(observed(None, web()), replace(refusal, error=ValueError()))
    assert (told(made), type(made.error)) == (expected, ValueError)
    assert told(refused(observed(), refusal)) == []


def test_the_operator_forgets_a_refused_write_of_a_tailscale_service_that_needs_no_write_any_more() -> None:
    step = PutService("", observed().owner, service(US), service(US))
    view = ServiceView(service(US), refusal=Refusal("refused tags", step=step))
    for holder, settled in ((web(), True), (web(tags="tag:other"), False), (None, False)):
        seen = observed(holder=holder, view=view)
        assert has_settled(seen, plan(seen)) is settled
    seen = observed(service(US), web())
    assert not has_settled(seen, plan(seen))


def test_our_operator_looks_at_a_label_again_after_it_has_left_the_label_to_other_operators() -> None:
    left = observed(service(US, THEM))
    pause = pause_after(left, plan(left))
    assert pause is not None
    assert 300 <= pause <= 540
    assert plan(replace(left, again=pause)).requeue_after == pause
    for other in (observed(service(US)), observed(service(THEM), web()), observed(service(THEM))):
        assert pause_after(other, plan(other)) is None
