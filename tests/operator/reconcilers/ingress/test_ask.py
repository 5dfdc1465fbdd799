"""The parsed requests of an Ingress: whether it is served, its name, and its backend Services."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.ingress.ask import Ask, IngressMode, parse

from tests.support.objects import deleting, live_ingress, settings, to_path, to_service

GROUP = {"tailscale.com/proxy-group": "group"}


def ask(ingress: Object) -> Ask:
    return parse(ingress, settings())


@pytest.mark.parametrize(
    ("annotations", "class_", "mode"),
    [
        ({}, "tailscale", IngressMode.PROXY),
        ({}, "nginx", IngressMode.NOTHING),
        ({}, None, IngressMode.NOTHING),
        ({"kubernetes.io/ingress.class": "tailscale"}, None, IngressMode.NOTHING),
        (GROUP, "tailscale", IngressMode.GROUP),
        (GROUP, "nginx", IngressMode.NOTHING),
        ({"tailscale.com/proxy-group": ""}, "tailscale", IngressMode.PROXY),
    ],
)
def test_an_ingress_is_served_if_its_spec_names_our_ingress_class(
    annotations: Object, class_: str | None, mode: IngressMode
) -> None:
    found = live_ingress(annotations, spec={"ingressClassName": class_})
    assert (ask(found).mode, ask(deleting(found)).mode) == (mode, IngressMode.NOTHING)


def test_the_hostname_of_an_ingress_is_the_first_label_of_its_tls_host() -> None:
    given = {"tailscale.com/hostname": "shop"}
    names = [ask(live_ingress(given, host=host)).hostname for host in ("web", "web.tail1234.ts.net", "", ".x")]
    assert names == ["web", "web", "default-web-ingress", "default-web-ingress"]


@pytest.mark.parametrize(
    ("tls", "host"),
    [
        ([{"hosts": ["a.example.org", "b"]}, {"hosts": ["c"]}], "a.example.org"),
        ([{"hosts": []}, {"hosts": ["c"]}], ""),
        ([{"hosts": None}], ""),
        ([{}], ""),
        ([], ""),
        (None, ""),
    ],
)
def test_only_the_first_host_of_the_first_tls_entry_has_an_effect(tls: list[Object] | None, host: str) -> None:
    assert ask(live_ingress(spec={"tls": tls})).host == host


def test_the_backends_of_an_ingress_are_the_services_of_its_rules_and_of_the_default_backend() -> None:
    def rules(*paths: Object, **rule: object) -> Object:
        return {"rules": [{**rule, "http": {"paths": [*paths]}}]}

    bucket = to_path("/b", {"resource": {"name": "b"}})
    spec = {"defaultBackend": to_service("web"), **rules(to_path("/a", to_service("six")), bucket, host="other")}
    assert ask(live_ingress(spec=spec)).backends == ["web", "six"]


@pytest.mark.parametrize(
    "spec",
    [
        {"rules": [{"host": None, "http": None}, {"host": "web"}]},
        {"rules": [{"http": {}}, {"http": {"paths": None}}]},
        {"defaultBackend": None},
    ],
)
def test_an_ingress_with_neither_rules_nor_a_default_backend_has_no_backends(spec: Object) -> None:
    assert ask(live_ingress(spec={"defaultBackend": None, **spec})).backends == []
