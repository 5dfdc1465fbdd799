"""Which paths of an Ingress go to which Service."""

import json
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.ingress.serve import Serving, backend_names, redirects, serving, tls_host

from tests.support.objects import backend_service, live_ingress, to_path, to_service

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


def serving_of(spec: Object, host: str = "web") -> Serving:
    return serving(live_ingress(host=host, spec=spec), MANY)


def proxied(result: Serving) -> dict[str, str]:
    """The URLs by path."""
    if result.config is None:
        return {}
    return {path: to["Proxy"] for path, to in result.config["Web"]["${TS_CERT_DOMAIN}:443"]["Handlers"].items()}


def reasons(result: Serving) -> list[tuple[str, str]]:
    return [(note.type, note.reason) for note in result.notes]


INVALID = ("Warning", "InvalidIngressBackend")
EXACT = ("Warning", "UnsupportedPathTypeExact")
UNDEFINED = ("Normal", "PathUndefined")


def test_with_redirect_and_funnel_the_config_is_byte_for_byte_the_go_operators() -> None:
    result = serving(live_ingress({**REDIRECT, **FUNNEL}, host="default-test"), WEB)
    assert json.dumps(result.config, separators=(",", ":")) == (
        '{"TCP":{"443":{"HTTPS":true},"80":{"HTTP":true}},'
        '"Web":{"${TS_CERT_DOMAIN}:443":{"Handlers":{"/":{"Proxy":"http://192.0.2.4:8080/"}}},'
        '"${TS_CERT_DOMAIN}:80":{"Handlers":{"/":{"Redirect":"301:https://${HOST}${REQUEST_URI}"}}}},'
        '"AllowFunnel":{"${TS_CERT_DOMAIN}:443":true,"${TS_CERT_DOMAIN}:80":true}}'
    )
    assert result.notes == ()


@pytest.mark.parametrize("annotations", [{}, {"tailscale.com/funnel": "yes", "tailscale.com/http-redirect": "True"}])
def test_without_them_only_https_is_serving_of(annotations: dict[str, str]) -> None:
    assert serving(live_ingress(annotations), WEB).config == {
        "TCP": {"443": {"HTTPS": True}},
        "Web": {"${TS_CERT_DOMAIN}:443": {"Handlers": {"/": {"Proxy": "http://192.0.2.4:8080/"}}}},
    }


def test_funnel_without_redirect_is_for_https_alone() -> None:
    config = serving(live_ingress(FUNNEL), WEB).config
    assert config is not None
    assert config["AllowFunnel"] == {"${TS_CERT_DOMAIN}:443": True}
    assert not redirects(live_ingress(FUNNEL))


def test_every_path_is_redirected() -> None:
    config = serving(live_ingress(REDIRECT, spec=rules(to_path("/a"), to_path("/b"))), WEB).config
    assert config is not None
    assert list(config["Web"]["${TS_CERT_DOMAIN}:80"]["Handlers"]) == ["/a", "/b"]


class Case(NamedTuple):
    spec: Object
    urls: dict[str, str]
    reasons: tuple[tuple[str, str], ...] = ()


ROOT = {"/": "http://192.0.2.4:8080/"}


@pytest.mark.parametrize(
    "case",
    [
        Case(rules(to_path(), host="web"), ROOT),
        Case(rules(to_path(), host=""), ROOT),
        Case(rules(to_path(), host="other.example.org"), {}, (INVALID,)),
        Case(rules(to_path("/a", path_type="Exact")), {"/a": "http://192.0.2.4:8080/a"}, (EXACT,)),
        Case(rules(to_path("/a", path_type="ImplementationSpecific")), {"/a": "http://192.0.2.4:8080/a"}),
        Case(rules(to_path("")), ROOT, (UNDEFINED,)),
        Case(rules(to_path(None, path_type="ImplementationSpecific")), ROOT, (UNDEFINED,)),
        Case(rules(to_path("", path_type="Exact")), ROOT, (EXACT, UNDEFINED)),
        Case(rules(to_path(""), to_path("/")), ROOT, (UNDEFINED,)),
        Case(rules({"path": "/", "backend": None}), {}),
        Case(rules({"backend": None}), {}, (UNDEFINED,)),
        Case(rules(to_path(backend={"resource": {"kind": "Bucket", "name": "b"}})), {}, (INVALID,)),
        Case(rules(to_path(backend=to_service("missing"))), {}, (INVALID,)),
        Case(rules(to_path(backend=to_service("headless"))), {}, (INVALID,)),
        Case(rules(to_path(backend=to_service("external"))), {}, (INVALID,)),
        Case(rules(to_path(backend=to_service(number=0))), {}, (INVALID,)),
        Case(rules(to_path(backend={"service": {"name": "web"}})), {}, (INVALID,)),
        Case(rules(to_path(backend=to_service("named", name="missing"))), {}, (INVALID,)),
        Case(rules(to_path(backend=to_service(number=9999))), {"/": "http://192.0.2.4:9999/"}, (INVALID,)),
        Case(rules(to_path(backend=to_service("named", number=443))), {"/": "https+insecure://192.0.2.5:443/"}),
        Case(rules(to_path(backend=to_service("udp", number=8080))), {"/": "http://192.0.2.6:8080/"}, (INVALID,)),
        Case(rules(to_path(backend=to_service("named", name="https"))), {"/": "https+insecure://192.0.2.5:8443/"}),
        Case(rules(to_path(backend=to_service("named", name="tls"))), {"/": "https+insecure://192.0.2.5:443/"}),
        Case(rules(to_path(backend=to_service("named", number=8443))), {"/": "http://192.0.2.5:8443/"}),
        Case(rules(to_path(backend=to_service("six", number=2283))), {"/": "http://[2001:db8::25]:2283/"}),
    ],
)
def test_a_path_is_served_or_left_out_with_the_reason(case: Case) -> None:
    result = serving_of(case.spec)
    assert (proxied(result), reasons(result)) == (case.urls, [*case.reasons])


def test_a_path_that_is_left_out_takes_no_other_with_it() -> None:
    result = serving_of(rules(to_path("/bad", to_service("missing")), to_path("/good")))
    assert proxied(result) == {"/good": "http://192.0.2.4:8080/good"}
    assert result.notes[0].message == (
        "path '/bad' is left out: Service 'missing' does not exist in the Ingress's namespace"
    )


def test_a_later_entry_for_a_path_counts() -> None:
    spec = {"defaultBackend": to_service(), **rules(to_path("/", to_service("six", number=1)))}
    assert proxied(serving_of(spec)) == {"/": "http://[2001:db8::25]:1/"}


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("web.tail1234.ts.net", "'web' is left out: a proxy has one name, that of spec.tls[0].hosts[0], 'web.tail1234"),
        ("", "'web' is left out, because spec.tls names no host: write web in spec.tls[0].hosts[0], or remove rules"),
    ],
)
def test_the_tls_host_is_compared_whole(host: str, words: str) -> None:
    result = serving_of(rules(to_path(), host="web"), host=host)
    assert reasons(result) == [INVALID]
    assert words in result.notes[0].message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"rules": None},
        {"rules": []},
        {"rules": [{}]},
        {"rules": [{"host": None, "http": None}]},
        {"rules": [{"host": "web"}]},
        {"rules": [{"http": {}}, {"http": {"paths": None}}]},
        {"defaultBackend": None},
        {"tls": None},
        {"tls": []},
        {"tls": [{}]},
        {"tls": [{"hosts": None}]},
        {"tls": [{"hosts": []}]},
    ],
)
def test_an_ingress_that_says_nothing_serves_nothing(spec: Object) -> None:
    assert serving_of(spec) == Serving(None, ())
    assert list(backend_names(live_ingress(spec=spec))) == []


@pytest.mark.parametrize(
    ("tls", "host"),
    [
        ([{"hosts": ["a.example.org", "b"]}, {"hosts": ["c"]}], "a.example.org"),
        ([{"hosts": []}, {"hosts": ["c"]}], ""),
        ([{}], ""),
        ([], ""),
        (None, ""),
    ],
)
def test_only_the_first_host_of_the_first_tls_entry_counts(tls: list[Object] | None, host: str) -> None:
    assert tls_host(live_ingress(spec={"tls": tls})) == host


def test_the_services_that_it_names_are_those_of_every_rule_and_the_default() -> None:
    bucket = to_path("/b", {"resource": {"name": "b"}})
    spec = {"defaultBackend": to_service("web"), **rules(to_path("/a", to_service("six")), bucket, host="other")}
    assert list(backend_names(live_ingress(spec=spec))) == ["web", "six"]


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ({"resource": {"kind": "Bucket", "name": "b"}}, "its backend is not a Service"),
        (to_service("missing"), "Service 'missing' does not exist in the Ingress's namespace"),
        (to_service("headless"), "'headless' is headless and has no cluster IP to send requests to: name a Service"),
        (to_service("external"), "'external' is of type ExternalName and has no cluster IP to send requests to: name"),
        (to_service("pending"), "Service 'pending' has no cluster IP yet"),
        (to_service("named", name="http"), "Service 'named' has no port named 'http'"),
        (to_service("named", number=80), "'/' leads to no open port: Service 'named' has TCP port 8443, 443"),
        (to_service("udp", number=8080), "Service 'udp' has no TCP port: correct one of the two"),
    ],
)
def test_a_wrong_backend_is_said_to_be_wrong(backend: Object, words: str) -> None:
    (note,) = serving_of(rules(to_path(backend=backend))).notes
    assert words in note.message


class Ignored(NamedTuple):
    tls: list[Object]
    notes: list[tuple[str, str]]


@pytest.mark.parametrize(
    "case",
    [
        Ignored([{"hosts": ["a", "a"]}, {"hosts": ["a"]}, {}], []),
        Ignored(
            [{"hosts": ["a", "b"]}, {"hosts": ["c", "b"]}], [("IgnoredTLSHosts", "hosts b, c of spec.tls are ignored")]
        ),
        Ignored([{"hosts": None}, {"hosts": ["c"]}], [("IgnoredTLSHosts", "hosts[0]; write the host there")]),
        Ignored([{"hosts": ["a"], "secretName": "s"}, {"secretName": "s"}], [("IgnoredTLSSecret", "secretName s of")]),
        Ignored([{"hosts": ["a"], "secretName": ""}], []),
    ],
)
def test_parts_of_tls_without_effect_are_said(case: Ignored) -> None:
    notes = serving(live_ingress(spec={"defaultBackend": to_service(), "tls": case.tls}), WEB).notes
    assert [(note.reason, words in note.message) for note, (_, words) in zip(notes, case.notes, strict=True)] == [
        (reason, True) for reason, _ in case.notes
    ]
