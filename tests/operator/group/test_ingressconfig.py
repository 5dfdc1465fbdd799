"""The ingress ConfigMap, byte for byte as the Go operator writes it."""

from typing import Any

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.group.ingressconfig import ingress_configmap_steps
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.hosting import Hosted, Mapped, slim_hosting
from tsoperator.proxy.serve import hosted_config
from tsoperator.runtime.plan import Creation, Patch

from tests.support.objects import deleting, obj, texts, whole_secret

LABELS = dict(group_owner("ing").labels)
KEY = Key("tailscale", "ing-ingress-config")
WANTED: Object = {"metadata": {"labels": LABELS}}
REDIRECTED = hosted_config("web.tail1234.ts.net", {"/": "http://10.0.0.1:8080"}, serves_http=False, redirects=True)
CONTENT = Hosted({"svc:default-api": {4: Mapped("100.64.1.2", "10.0.0.9")}}, {"svc:web": REDIRECTED})
SERVE = (
    '{"Services":{"svc:web":{"TCP":{"443":{"HTTPS":true},"80":{"HTTP":true}},"Web":{"web.tail1234.ts.net:443":'
    '{"Handlers":{"/":{"Proxy":"http://10.0.0.1:8080/"}}},"web.tail1234.ts.net:80":{"Handlers":{"/":{"Redirect":'
    '"301:https://${HOST}${REQUEST_URI}"}}}}}}}'
)
RULES = '{"svc:default-api":{"IPv4Mapping":{"TailscaleServiceIP":"100.64.1.2","ClusterIP":"10.0.0.9"}}}'
WHOLE = {"ingress-config.json": RULES, "serve-config.json": SERVE}


def live(data: dict[str, str], **metadata: Any) -> Object:
    """Return the group's ConfigMap with this *data*, in the slim form in which the cache keeps it."""
    encoded = whole_secret("x", dict(data))["data"]
    return slim_hosting(obj(CONFIGMAP, KEY, {"binaryData": encoded}, **{"labels": LABELS, **metadata}))


def written(there: Object | None, content: Hosted = CONTENT) -> dict[str, str | None]:
    """Return the documents that the operator writes into the live ConfigMap *there* for *content*, by their keys.

    None stands for a document that the operator removes. *there* is None if the ConfigMap is missing.
    """
    steps = ingress_configmap_steps(WANTED, there, content)
    if not steps:
        return {}
    (step,) = steps
    assert isinstance(step, Creation | Patch)
    data = (step.obj if isinstance(step, Creation) else step.body)["binaryData"]
    return {**texts({"data": data}), **{name: None for name, value in data.items() if value is None}}


def test_the_documents_of_an_ingress_group_equal_those_of_the_go_operator() -> None:
    assert written(None) == WHOLE
    assert written(live(WHOLE)) == {}


def test_a_group_that_serves_nothing_has_empty_documents() -> None:
    empty = dict.fromkeys(WHOLE, "{}")
    assert written(None, Hosted()) == written(live({}), Hosted()) == written(live(WHOLE), Hosted()) == empty
    assert written(live(empty), Hosted()) == {}


TUN = SERVE.replace('{"TCP"', '{"Tun":true,"TCP"')
EDITED: dict[str, tuple[dict[str, str], dict[str, str | None]]] = {
    "order": (
        {
            "serve-config.json": SERVE.replace(
                '"443":{"HTTPS":true},"80":{"HTTP":true}', '"80":{"HTTP":true},"443":{"HTTPS":true}'
            )
        },
        {},
    ),
    "missing": ({"serve-config.json": ""}, {"serve-config.json": SERVE}),
    "broken": ({"serve-config.json": SERVE[:-1]}, {"serve-config.json": SERVE}),
    "tun": ({"serve-config.json": TUN}, {"serve-config.json": SERVE}),
    "more": ({"serve-config.json": SERVE.replace('{"Services"', '{"TCP":{},"Services"')}, {"serve-config.json": SERVE}),
    "service": (
        {"serve-config.json": SERVE.replace('"svc:web":', '"svc:x":null,"svc:web":')},
        {"serve-config.json": SERVE},
    ),
    "rule": ({"ingress-config.json": RULES.replace("0.9", "0.8")}, {"ingress-config.json": RULES}),
    "no rule": ({"ingress-config.json": RULES.replace('{"svc', '{"x":null,"svc')}, {"ingress-config.json": RULES}),
    "foreign": ({"foreign": "x"}, {"foreign": None}),
}


@pytest.mark.parametrize(("edit", "wanted"), EDITED.values(), ids=EDITED)
def test_a_write_of_the_configmap_has_only_the_documents_that_differ_and_removes_foreign_keys(
    edit: dict[str, str], wanted: dict[str, str | None]
) -> None:
    assert written(live(WHOLE | edit)) == wanted


@pytest.mark.parametrize("broken", ["", "[]", "not JSON", '{"Services":[]}', '{"svc:x":1}'])
def test_an_unreadable_document_is_replaced_even_if_the_group_serves_nothing(broken: str) -> None:
    empty = dict.fromkeys(WHOLE, "{}")
    for name in WHOLE:
        assert written(live(empty | {name: broken}), Hosted()) == {name: "{}"}


def test_the_operator_restores_lost_labels_of_a_configmap_unless_the_configmap_is_being_deleted() -> None:
    (step,) = ingress_configmap_steps(WANTED, live(WHOLE, labels={}), CONTENT)
    assert step == Patch(CONFIGMAP, KEY, {"metadata": {"labels": LABELS}})
    assert ingress_configmap_steps(WANTED, deleting(live({})), CONTENT) == []
