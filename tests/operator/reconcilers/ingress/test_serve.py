"""The serve config of an Ingress: for each path, the URL of its backend Service."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.ingress.ask import parse
from tsoperator.reconcilers.ingress.serve import Serving, serving

from tests.support.objects import backend_service, live_ingress, settings, to_path, to_service

REDIRECT = {"tailscale.com/http-redirect": "true"}
FUNNEL = {"tailscale.com/funnel": "true"}
WEB = {"web": backend_service()}
MANY = {
    **WEB,
    "six": backend_service("six", cluster_ip="2001:db8::25", ports=[{"port": 2283}]),
    "headless": backend_service("headless", cluster_ip="None"),
    "external": backend_service("external", cluster_ip=None),
    "named": backend_service(
        "named", cluster_ip="192.0.2.5", ports=[{"name": "https", "port": 8443}, {"name": "tls", "port": 443}]
    ),
    "udp": backend_service("udp", cluster_ip="192.0.2.6", ports=[{"port": 8080, "protocol": "UDP"}]),
    "pending": backend_service("pending", cluster_ip=None),
}
MANY["external"]["spec"]["type"] = "ExternalName"


def rules(*paths: Object, **rule: object) -> Object:
    return {"rules": [{**rule, "http": {"paths": [*paths]}}]}


def served(ingress: Object, services: Mapping[str, Object] = WEB) -> Serving:
    return serving(parse(ingress, settings()), services)


def serving_of(spec: Object, host: str = "web") -> Serving:
    return served(live_ingress(host=host, spec=spec), MANY)


def proxied(result: Serving) -> dict[str, str]:
    """Return a map from each path to the URL of its backend."""
    if result.config is None:
        return {}
    return {path: to["Proxy"] for path, to in result.config["Web"]["${TS_CERT_DOMAIN}:443"]["Handlers"].items()}


def reasons(result: Serving) -> list[tuple[str, str]]:
    return [(note.type, note.reason) for note in result.notes]


INVALID = ("Warning", "InvalidIngressBackend")
EXACT = ("Warning", "UnsupportedPathTypeExact")
UNDEFINED = ("Normal", "PathUndefined")


def test_the_serve_config_with_redirect_and_funnel_equals_the_go_operators_byte_for_byte() -> None:
    result = served(live_ingress({**REDIRECT, **FUNNEL}, host="default-test"))
    assert json.dumps(result.config, separators=(",", ":")) == (
        '{"TCP":{"443":{"HTTPS":true},"80":{"HTTP":true}},'
        '"Web":{"${TS_CERT_DOMAIN}:443":{"Handlers":{"/":{"Proxy":"http://192.0.2.4:8080/"}}},'
        '"${TS_CERT_DOMAIN}:80":{"Handlers":{"/":{"Redirect":"301:https://${HOST}${REQUEST_URI}"}}}},'
        '"AllowFunnel":{"${TS_CERT_DOMAIN}:443":true,"${TS_CERT_DOMAIN}:80":true}}'
    )
    assert result.notes == ()


def test_an_ingress_without_a_redirect_serves_only_https_even_with_funnel() -> None:
    plain = {
        "TCP": {"443": {"HTTPS": True}},
        "Web": {"${TS_CERT_DOMAIN}:443": {"Handlers": {"/": {"Proxy": "http://192.0.2.4:8080/"}}}},
    }
    misspelt = {"tailscale.com/funnel": "yes", "tailscale.com/http-redirect": "True"}
    assert served(live_ingress()).config == served(live_ingress(misspelt)).config == plain
    public = {"AllowFunnel": {"${TS_CERT_DOMAIN}:443": True}}
    assert served(live_ingress(FUNNEL)).config == plain | public


def test_the_redirect_of_an_ingress_covers_every_path() -> None:
    config = served(live_ingress(REDIRECT, spec=rules(to_path("/a"), to_path("/b")))).config
    assert config is not None
    assert list(config["Web"]["${TS_CERT_DOMAIN}:80"]["Handlers"]) == ["/a", "/b"]


ROOT = {"/": "http://192.0.2.4:8080/"}


def to(name: str = "web", /, **port: Any) -> Object:
    """Return rules with one path to a port of the Service *name*. *port* is ``number=`` or ``name=`` of this port."""
    return rules(to_path(backend=to_service(name, **port)))


@pytest.mark.parametrize(
    ("spec", "urls", "told"),
    [
        (rules(to_path(), host="web"), ROOT, []),
        (rules(to_path(), host=""), ROOT, []),
        (rules(to_path(), host="other.example.org"), {}, [INVALID]),
        (rules(to_path("/a", path_type="Exact")), {"/a": "http://192.0.2.4:8080/a"}, [EXACT]),
        (rules(to_path("/a", path_type="ImplementationSpecific")), {"/a": "http://192.0.2.4:8080/a"}, []),
        (rules(to_path("")), ROOT, [UNDEFINED]),
        (rules(to_path(None, path_type="ImplementationSpecific")), ROOT, [UNDEFINED]),
        (rules(to_path("", path_type="Exact")), ROOT, [EXACT, UNDEFINED]),
        (rules(to_path(""), to_path("/")), ROOT, [UNDEFINED]),
        (rules(to_path("/", to_service("six", number=2283)), to_path("/")), ROOT, [INVALID]),
        (rules({"path": "/", "backend": None}), {}, []),
        (rules({"backend": None}), {}, [UNDEFINED]),
        (rules(to_path(backend={"resource": {"kind": "Bucket", "name": "b"}})), {}, [INVALID]),
        (to("missing"), {}, [INVALID]),
        (to("headless"), {}, [INVALID]),
        (to("external"), {}, [INVALID]),
        (to(number=0), {}, [INVALID]),
        (rules(to_path(backend={"service": {"name": "web"}})), {}, [INVALID]),
        (to("named", name="missing"), {}, [INVALID]),
        (to(number=9999), {"/": "http://192.0.2.4:9999/"}, [INVALID]),
        (to("named", number=443), {"/": "https+insecure://192.0.2.5:443/"}, []),
        (to("udp", number=8080), {"/": "http://192.0.2.6:8080/"}, [INVALID]),
        (to("named", name="https"), {"/": "https+insecure://192.0.2.5:8443/"}, []),
        (to("named", name="tls"), {"/": "https+insecure://192.0.2.5:443/"}, []),
        (to("named", number=8443), {"/": "http://192.0.2.5:8443/"}, []),
        (to("six", number=2283), {"/": "http://[2001:db8::25]:2283/"}, []),
    ],
)
def test_each_path_of_an_ingress_is_served_or_an_event_says_why_it_is_left_out(
    spec: Object, urls: dict[str, str], told: list[tuple[str, str]]
) -> None:
    result = serving_of(spec)
    assert (proxied(result), reasons(result)) == (urls, told)


def test_a_path_of_an_ingress_that_is_left_out_does_not_affect_the_other_paths() -> None:
    result = serving_of(rules(to_path("/bad", to_service("missing")), to_path("/good")))
    assert proxied(result) == {"/good": "http://192.0.2.4:8080/good"}
    missing = "Service 'missing' does not exist in the Ingress's namespace: create it, or name another"
    assert result.notes[0].message == f"path '/bad' is left out: {missing}"


def test_a_rule_for_the_root_path_replaces_the_default_backend_of_an_ingress() -> None:
    spec = {"defaultBackend": to_service(), **rules(to_path("/", to_service("six", number=2283)))}
    assert serving_of(spec).notes == ()
    assert proxied(serving_of(spec)) == {"/": "http://[2001:db8::25]:2283/"}


def test_a_rule_of_an_ingress_must_have_exactly_the_host_of_the_tls_entry() -> None:
    for host, words in (
        ("web.tail1234.ts.net", "a proxy has one name, that of spec.tls[0].hosts[0], 'web.tail1234"),
        ("", "because spec.tls names no host: write web in spec.tls[0].hosts[0], or remove rules"),
    ):
        result = serving_of(rules(to_path(), host="web"), host=host)
        assert (reasons(result), words in result.notes[0].message) == ([INVALID], True)


NO_HOSTS: list[Any] = [None, [], [{}], [{"hosts": None}], [{"hosts": []}]]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"rules": None},
        {"rules": [{}]},
        {"rules": [{"host": None, "http": None}, {"host": "web"}]},
        {"rules": [{"http": {}}, {"http": {"paths": None}}]},
        {"defaultBackend": None},
        *({"tls": tls} for tls in NO_HOSTS),
    ],
)
def test_an_ingress_with_neither_rules_nor_a_default_backend_serves_nothing(spec: Object) -> None:
    assert serving_of(spec) == Serving(None, ())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            rules(to_path(backend={"resource": {"kind": "Bucket", "name": "b"}})),
            "its backend is not a Service: name one",
        ),
        (to("missing"), "'missing' does not exist in the Ingress's namespace: create it, or"),
        (to("headless"), "'headless' is headless and has no cluster IP to send requests to: name a Service"),
        (to("external"), "'external' is of type ExternalName and has no cluster IP to send requests to: name"),
        (to("pending"), "Service 'pending' has no cluster IP yet"),
        (to("named", name="http"), "has no port named 'http', but 8443 (https), 443 (tls): correct one of the two"),
        (rules({**to_path("/a"), "pathType": "Exact"}), "because proxies don't know Exact: write pathType: Prefix"),
        (rules(to_path("/*")), "'/*' is served as it stands, because proxies know no patterns: write the beginning of"),
        (rules(to_path("/*")), "of the paths, such as /$"),
        (rules(to_path("/api/v1/*")), "of the paths, such as /api/v1$"),
        (rules(to_path("/api/v1(/|$)(.*)")), "of the paths, such as /api/v1$"),
        (to("named", number=80), "'/' leads to no open port: Service 'named' has TCP port 8443, 443"),
        (to("udp", number=8080), "Service 'udp' has no TCP port: correct one of the two"),
        (
            rules(to_path("/", to_service("six", number=2283)), to_path("/")),
            "path '/' stands in several rules: only the last one counts, so remove the others",
        ),
    ],
)
def test_an_event_says_what_is_wrong_with_a_backend(spec: Object, words: str) -> None:
    (note,) = serving_of(spec).notes
    assert words in f"{note.message}$"


@pytest.mark.parametrize(
    ("tls", "told"),
    [
        ([{"hosts": ["a", "a"]}, {"hosts": ["a"]}, {}], {}),
        ([{"hosts": ["a", "b"]}, {"hosts": ["c", "b"]}], {"IgnoredTLSHosts": "hosts b, c of spec.tls are ignored"}),
        ([{"hosts": None}, {"hosts": ["c"]}], {"IgnoredTLSHosts": "hosts[0]; write the host there"}),
        ([{"hosts": ["a"], "secretName": "s"}, {"secretName": "s"}], {"IgnoredTLSSecret": "secretName s of"}),
        ([{"hosts": ["a"], "secretName": ""}], {}),
    ],
)
def test_events_name_the_parts_of_spec_tls_that_have_no_effect(tls: list[Object], told: dict[str, str]) -> None:
    notes = served(live_ingress(spec={"defaultBackend": to_service(), "tls": tls})).notes
    assert [note.reason for note in notes] == [*told]
    assert all(told[note.reason] in note.message for note in notes)
