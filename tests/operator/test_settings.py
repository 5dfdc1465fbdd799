"""Settings from the environment."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tsoperator.settings import InvalidSetting, Settings, cluster_dns, cluster_domain, read_settings


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The least that the operator needs."""
    for name in ("id", "secret"):
        (tmp_path / name).write_text(name)
    return {
        "OPERATOR_NAMESPACE": "tailscale",
        "CLIENT_ID_FILE": str(tmp_path / "id"),
        "CLIENT_SECRET_FILE": str(tmp_path / "secret"),
    }


def test_the_defaults_are_the_go_operators(environ: dict[str, str], tmp_path: Path) -> None:
    found = read_settings(environ)
    assert found == Settings("tailscale", tmp_path / "id", tmp_path / "secret", cluster_domain=found.cluster_domain)
    assert (found.proxy_image, found.proxy_tags) == ("tailscale/tailscale:latest", ("tag:k8s",))
    assert (found.ingress_class, found.nameserver_image) == ("tailscale", "tailscale/k8s-nameserver:stable")
    assert (found.zones, found.leader_election) == ((), True)
    assert (found.log_level, found.log_format) == ("INFO", "text")
    assert found.control_url == "https://controlplane.tailscale.com"


class Given(NamedTuple):
    name: str
    value: str
    field: str
    meaning: object


@pytest.mark.parametrize(
    "case",
    [
        Given(
            "OPERATOR_LOGIN_SERVER", "https://headscale.example.org/", "control_url", "https://headscale.example.org"
        ),
        Given("OPERATOR_LOGIN_SERVER", "", "control_url", "https://controlplane.tailscale.com"),
        Given("PROXY_IMAGE", "example.org/tailscale:v1", "proxy_image", "example.org/tailscale:v1"),
        Given("PROXY_IMAGE", " \n", "proxy_image", "tailscale/tailscale:latest"),
        Given("OPERATOR_LOGIN_SERVER", " https://a\n", "login_server", "https://a"),
        Given("PROXY_TAGS", "tag:a, tag:b", "proxy_tags", ("tag:a", "tag:b")),
        Given("PROXY_TAGS", "tag:a,", "proxy_tags", ("tag:a",)),
        Given("PROXY_PRIORITY_CLASS_NAME", "high", "proxy_priority_class", "high"),
        Given("PROXY_DEFAULT_CLASS", "prod", "proxy_class", "prod"),
        Given("PROXY_FIREWALL_MODE", "nftables", "firewall_mode", "nftables"),
        Given("OPERATOR_DEFAULT_LOAD_BALANCER", "true", "default_load_balancer", True),
        Given("OPERATOR_DEFAULT_LOAD_BALANCER", "false", "default_load_balancer", False),
        Given("OPERATOR_DEFAULT_LOAD_BALANCER", "1", "default_load_balancer", True),
        Given("OPERATOR_DEFAULT_LOAD_BALANCER", "F", "default_load_balancer", False),
        Given("OPERATOR_MANAGE_CLUSTER_DNS", "true", "manage_cluster_dns", True),
        Given("OPERATOR_MANAGE_CLUSTER_DNS", "", "manage_cluster_dns", False),
        Given("OPERATOR_TAKE_OVER_NAMES", "true", "take_over_names", True),
        Given("OPERATOR_TAKE_OVER_NAMES", "", "take_over_names", False),
        Given("OPERATOR_INGRESS_CLASS_NAME", "private", "ingress_class", "private"),
        Given("OPERATOR_NAMESERVER_IMAGE", "example.org/ns:v1", "nameserver_image", "example.org/ns:v1"),
        Given(
            "OPERATOR_CLUSTER_DNS", "10.96.0.10, [2001:db8::1]:53", "cluster_dns", ("10.96.0.10", "[2001:db8::1]:53")
        ),
        Given("OPERATOR_CLUSTER_DNS", "", "cluster_dns", ()),
        Given("OPERATOR_NAMESERVER_LOG_QUERIES", "1/999999999", "nameserver_log_queries", "1/999999999"),
        Given("OPERATOR_DNS_ZONES", "ts.net, .Tail.Example.ORG.", "zones", ("ts.net", "tail.example.org")),
        Given("OPERATOR_WATCH_NAMESPACES", "", "watch_namespaces", ()),
        Given(
            "OPERATOR_WATCH_NAMESPACES",
            "team-b, team-a,tailscale,team-b",
            "watch_namespaces",
            ("team-b", "team-a", "tailscale"),
        ),
        Given("KUBECONFIG", f"/nonexistent:{__file__}", "kubeconfig", f"/nonexistent:{__file__}"),
        Given("OPERATOR_SERVICE_ACCOUNT_NAME", "ts", "service_account", "ts"),
        Given("OPERATOR_LEADER_ELECTION", "false", "leader_election", False),
        Given("POD_NAME", "operator-1", "pod_name", "operator-1"),
        Given("OPERATOR_HEALTH_ADDR", "127.0.0.1:0", "health_address", "127.0.0.1:0"),
        Given("OPERATOR_HEALTH_ADDR", "[::1]:9002", "health_address", "[::1]:9002"),
        Given("OPERATOR_HEALTH_ADDR", " ", "health_address", ""),
        Given("OPERATOR_HEALTH_ADDR", " :9003 ", "health_address", ":9003"),
        Given("OPERATOR_LOGGING", "debug", "log_level", "DEBUG"),
        Given("OPERATOR_LOGGING", "dev", "log_level", "DEBUG"),
        Given("OPERATOR_LOGGING", "warn", "log_level", "WARNING"),
        Given("OPERATOR_LOGGING", "error", "log_level", "ERROR"),
        Given("OPERATOR_LOG_FORMAT", "json", "log_format", "json"),
        Given("OPERATOR_LOG_FORMAT", "text", "log_format", "text"),
    ],
)
def test_each_variable_sets_its_field(case: Given, environ: dict[str, str]) -> None:
    assert getattr(read_settings({**environ, case.name: case.value}), case.field) == case.meaning


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("OPERATOR_LOGIN_SERVER", "headscale.example.org", "is not the URL of a control server"),
        ("PROXY_TAGS", "tag:a,db", '"db" is not a valid tag'),
        ("PROXY_TAGS", ",", "a tag is empty: remove the comma too many"),
        ("PROXY_IMAGE", "example.org/Tailscale", '"example.org/Tailscale": only the registry and the tag'),
        ("OPERATOR_NAMESERVER_IMAGE", "example.org/ns: v1", "this is not the name of an image"),
        ("OPERATOR_NAMESERVER_LOG_QUERIES", "1/0", "'1/0' is not a share such as 1/1000; 1/1 is all"),
        ("OPERATOR_NAMESERVER_LOG_QUERIES", "1/1000000000", "is not a share"),
        ("OPERATOR_NAMESERVER_LOG_QUERIES", "0.001", "is not a share"),
        ("PROXY_DEFAULT_CLASS", "Prod", '"Prod" is not a valid name of an object'),
        ("PROXY_PRIORITY_CLASS_NAME", "high priority", "is not a valid name of an object"),
        ("OPERATOR_INGRESS_CLASS_NAME", "tail_scale", "is not a valid name of an object"),
        ("OPERATOR_SERVICE_ACCOUNT_NAME", "-", "is not a valid name of an object"),
        ("POD_NAME", "Operator", "is not a valid name of an object"),
        ("APISERVER_PROXY", "true", "'true' can't be served, because this operator has no API server proxy yet: unset"),
        ("APISERVER_PROXY", "noauth", "this operator has no API server proxy yet"),
        ("AUTH_PROXY", "1", "this operator has no API server proxy yet"),
        ("OPERATOR_DEFAULT_LOAD_BALANCER", "yes", "'yes' is not one of true, false"),
        ("OPERATOR_MANAGE_CLUSTER_DNS", "yes", "'yes' is not one of true, false"),
        ("OPERATOR_TAKE_OVER_NAMES", "1", "'1' is not one of true, false"),
        ("KUBECONFIG", "/nonexistent", "there is no file '/nonexistent'"),
        ("PROXY_FIREWALL_MODE", "ipfw", "'ipfw' is not one of auto, iptables, nftables"),
        ("OPERATOR_CLUSTER_DNS", "10.96.0.10,kube-dns", "'kube-dns' is not the address of a DNS server"),
        ("OPERATOR_DNS_ZONES", "ts.net,", "'' is not a DNS zone"),
        ("OPERATOR_DNS_ZONES", "tail_net", "'tail_net' is not a DNS zone"),
        ("OPERATOR_DNS_ZONES", "a." * 126 + "ab", "is not a DNS zone"),
        ("OPERATOR_WATCH_NAMESPACES", "team-a,", '"" is not a valid DNS label'),
        ("OPERATOR_WATCH_NAMESPACES", "Team", "lower case; give a comma-separated list such as team-a,team-b"),
        ("OPERATOR_WATCH_NAMESPACES", "team-*", "must end with a letter or number; give a comma-separated list"),
        ("OPERATOR_LEADER_ELECTION", "no", "'no' is not one of true, false"),
        ("OPERATOR_HEALTH_ADDR", "9002", "is not ADDRESS:PORT"),
        ("OPERATOR_HEALTH_ADDR", ":70000", "is not ADDRESS:PORT"),
        ("OPERATOR_HEALTH_ADDR", ":²", "is not ADDRESS:PORT"),
        ("OPERATOR_HEALTH_ADDR", "::1:9002", "is not ADDRESS:PORT"),
        ("OPERATOR_HEALTH_ADDR", "[::1:9002", "is not ADDRESS:PORT"),
        ("OPERATOR_HEALTH_ADDR", "192.0.2.1:", "is not ADDRESS:PORT"),
        ("OPERATOR_LOGGING", "loud", "'loud' is not one of info, debug, dev, warn, error"),
        ("OPERATOR_LOG_FORMAT", "xml", "'xml' is not one of text, json"),
        ("OPERATOR_NAMESPACE", "", "is not set"),
        ("OPERATOR_NAMESPACE", "Tailscale", "its letters must be lower case"),
        ("CLIENT_ID_FILE", "", "is not set: give the path of the file that holds the OAuth client's ID"),
        ("CLIENT_ID", "id", 'cannot read "/var/run/secrets/tailscale/serviceaccount/token"'),
        ("CLIENT_SECRET_FILE", "", "is not set: give the path of the file that holds the OAuth client's secret"),
        ("CLIENT_ID_FILE", "/nonexistent/id", 'cannot read "/nonexistent/id": No such file or directory'),
    ],
)
def test_a_wrong_setting_names_its_variable_and_says_what_that_takes(
    name: str, value: str, words: str, environ: dict[str, str]
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        read_settings({**environ, name: value})
    assert re.fullmatch(rf"{name}\b[^\n]+", str(caught.value))
    assert words in str(caught.value)


class Warned(NamedTuple):
    name: str
    value: str
    words: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Warned(
            "OPERATOR_DEFAULT_LOAD_BALANCER", "1", "OPERATOR_DEFAULT_LOAD_BALANCER: '1' is read as true: write true"
        ),
        Warned("OPERATOR_DEFAULT_LOAD_BALANCER", "False", "OPERATOR_DEFAULT_LOAD_BALANCER: 'False' is read as false"),
        Warned("OPERATOR_DEFAULT_LOAD_BALANCER", "true"),
        Warned("APISERVER_PROXY", "false"),
        Warned("AUTH_PROXY", "f", "AUTH_PROXY: 'f' is read as false: write false"),
        Warned("PROXY_TAGS", "tag:a,", "PROXY_TAGS: 'tag:a,' has a comma too many: write tag:a"),
        Warned("PROXY_TAGS", "tag:a,,tag:b", "write tag:a,tag:b"),
        Warned("PROXY_TAGS", "tag:a"),
        Warned(
            "OPERATOR_LOGIN_SEVER", "x", "OPERATOR_LOGIN_SEVER is no setting and is not read: do you mean OPERATOR_LO"
        ),
        Warned("PROXY_TAG", "", "do you mean PROXY_TAGS?"),
        Warned("OPERATOR_HOSTNAME", "the Go operator's"),
        Warned("OPERATOR_INITIAL_TAGS", "the Go operator's"),
        Warned("OPERATOR_SHARED_ACME_ACCOUNT_KEY", "the Go operator's"),
        Warned("OPERATOR_NAMESPACE_PORT", "of a Service called operator-namespace"),
        Warned("OPERATOR_SERVICE_HOST", "of a Service called operator"),
        Warned("PROXY_IMAGE_SERVICE_PORT", "of a Service called proxy-image"),
        Warned("PROXY_TAGS_PORT_80_TCP", "of a Service called proxy-tags"),
        Warned("MY_PROXY_TAG", "of somebody else"),
    ],
)
def test_a_setting_that_is_not_right_but_clear_is_a_warning(case: Warned, environ: dict[str, str]) -> None:
    told = read_settings({**environ, case.name: case.value}).warnings
    assert len(told) == bool(case.words)
    assert case.words in "".join(told)


def test_dev_is_debug_for_people_as_with_the_go_operator(environ: dict[str, str]) -> None:
    found = read_settings({**environ, "OPERATOR_LOGGING": "dev", "OPERATOR_LOG_FORMAT": "json"})
    assert (found.log_level, found.log_format) == ("DEBUG", "text")


def test_credentials_that_are_no_text_are_refused(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "id").write_bytes(b"\xff")
    with pytest.raises(InvalidSetting, match="CLIENT_ID_FILE"):
        read_settings(environ)


def test_workload_identity_needs_no_files_and_goes_before_them(environ: dict[str, str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("e30.e30.c2ln")
    for given in (environ, {"OPERATOR_NAMESPACE": "tailscale"}):
        found = read_settings({**given, "CLIENT_ID": "kClientCNTRL"}, token)
        assert (found.client_id, found.identity_token) == ("kClientCNTRL", token)


@pytest.mark.parametrize(
    ("resolv_conf", "domain"),
    [
        ("search tailscale.svc.k8s.example.org svc.k8s.example.org k8s.example.org", "k8s.example.org"),
        ("search tailscale.svc.cluster.local. svc.Cluster.Local. cluster.local. example.org", "Cluster.Local"),
        (
            "search tailscale.svc.a.example.org svc.a.example.org\nnameserver 192.0.2.1\nsearch a.example.org # b",
            "a.example.org",
        ),
        ("# search tailscale.svc.a.example.org svc.a.example.org a.example.org", "cluster.local"),
        ("search tailscale.svc.a.example.org svc.a.example.org", "cluster.local"),
        ("search other.svc.a.example.org svc.a.example.org a.example.org", "cluster.local"),
        ("search tailscale.svc.a.example.org a.example.org a.example.org", "cluster.local"),
        ("search tailscale.svc.a.example.org svc.a.example.org b.example.org", "cluster.local"),
        ("search tailscale.svc. svc. .", "cluster.local"),
        ("", "cluster.local"),
    ],
)
def test_the_clusters_domain_is_read_from_the_search_path(resolv_conf: str, domain: str) -> None:
    assert cluster_domain(resolv_conf, "tailscale") == domain


SEARCH = "search tailscale.svc.cluster.local svc.cluster.local cluster.local\n"


@pytest.mark.parametrize(
    ("resolv_conf", "servers"),
    [
        (f"{SEARCH}nameserver 10.96.0.10\noptions ndots:5\n", ("10.96.0.10",)),
        (f"nameserver 169.254.20.10 # local\nnameserver\tfd00::a\n{SEARCH}", ("169.254.20.10", "fd00::a")),
        (f"#nameserver 10.96.0.9\nnameserver\nnameserver dns\n{SEARCH}", ()),
        ("search other.svc.cluster.local\nnameserver 10.96.0.10\n", ()),
        ("search example.org\nnameserver 192.0.2.1\n", ()),
        ("search\nnameserver 192.0.2.1\n", ()),
        ("", ()),
    ],
)
def test_the_clusters_dns_is_read_in_a_pod_that_asks_it(resolv_conf: str, servers: tuple[str, ...]) -> None:
    assert cluster_dns(resolv_conf, "tailscale") == servers
