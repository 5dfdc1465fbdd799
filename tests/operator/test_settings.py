"""Settings from environment variables, and the help on these variables."""

import re
from pathlib import Path

import pytest
from tsoperator.settings import InvalidSetting, Settings, cluster_dns, cluster_domain, read_settings
from tsoperator.variables import VARIABLES, help_lines


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment variables without which the operator doesn't start."""
    for name in ("id", "secret"):
        (tmp_path / name).write_text(name)
    return {
        "OPERATOR_NAMESPACE": "tailscale",
        "CLIENT_ID_FILE": str(tmp_path / "id"),
        "CLIENT_SECRET_FILE": str(tmp_path / "secret"),
    }


def test_the_defaults_of_the_settings_are_those_of_the_go_operator(environ: dict[str, str], tmp_path: Path) -> None:
    found = read_settings(environ)
    assert found == Settings("tailscale", tmp_path / "id", tmp_path / "secret", cluster_domain=found.cluster_domain)
    assert (found.proxy_image, found.proxy_tags) == (PROXY_IMAGE, ("tag:k8s",))
    assert (found.ingress_class, found.nameserver_image) == ("tailscale", "tailscale/k8s-nameserver:stable")
    assert (found.zones, found.leader_election, found.control_url) == ((), True, CONTROL_URL)
    assert (found.log_level, found.log_format) == ("INFO", "text")


@pytest.mark.parametrize(
    ("image", "recorder"),
    [
        ("tailscale/tailscale:v1.102.5", "tailscale/tsrecorder:v1.102.5"),
        ("registry.example.org:5000/tailscale:unstable-v1.103.7", "tailscale/tsrecorder:unstable-v1.103.7"),
        (f"tailscale/tailscale@sha256:{'0' * 64}", "tailscale/tsrecorder:stable"),
    ],
)
def test_the_default_image_of_recorders_has_the_same_tag_as_the_image_of_proxies(
    environ: dict[str, str], image: str, recorder: str
) -> None:
    assert read_settings({**environ, "PROXY_IMAGE": image}).recorder_image == recorder


PROXY_IMAGE = "tailscale/tailscale:latest"
CONTROL_URL = "https://controlplane.tailscale.com"
PATHS = f"/nonexistent:{__file__}"
HEADSCALE = "https://headscale.example.org"
GIVEN: dict[tuple[str, str], dict[str, object]] = {
    ("OPERATOR_LOGIN_SERVER", "control_url"): {f"{HEADSCALE}/": HEADSCALE, "": CONTROL_URL},
    ("OPERATOR_LOGIN_SERVER", "login_server"): {" https://a\n": "https://a"},
    ("PROXY_IMAGE", "proxy_image"): {"example.org/tailscale:v1": "example.org/tailscale:v1", " \n": PROXY_IMAGE},
    ("RECORDER_IMAGE", "recorder_image"): {
        "example.org/rec:v1": "example.org/rec:v1",
        "": "tailscale/tsrecorder:latest",
    },
    ("PROXY_TAGS", "proxy_tags"): {"tag:a, tag:b": ("tag:a", "tag:b"), "tag:a,": ("tag:a",)},
    ("PROXY_PRIORITY_CLASS_NAME", "proxy_priority_class"): {"high": "high"},
    ("PROXY_DEFAULT_CLASS", "proxy_class"): {"prod": "prod"},
    ("PROXY_CA_BUNDLE", "proxy_ca_bundle"): {"own-ca": "own-ca"},
    ("PROXY_FIREWALL_MODE", "firewall_mode"): {"nftables": "nftables"},
    ("OPERATOR_DEFAULT_LOAD_BALANCER", "default_load_balancer"): {"true": True, "1": True, "false": False, "F": False},
    ("OPERATOR_DNS_ENABLED", "makes_dnsconfig"): {"true": True, "": False},
    ("OPERATOR_MANAGE_CLUSTER_DNS", "manage_cluster_dns"): {"true": True, "": False},
    ("OPERATOR_TAKE_OVER_NAMES", "take_over_names"): {"true": True, "": False},
    ("OPERATOR_INGRESS_CLASS_NAME", "ingress_class"): {"private": "private"},
    ("OPERATOR_NAMESERVER_IMAGE", "nameserver_image"): {"example.org/ns:v1": "example.org/ns:v1"},
    ("OPERATOR_CLUSTER_DNS", "cluster_dns"): {
        "10.96.0.10, [2001:db8::1]:53": ("10.96.0.10", "[2001:db8::1]:53"),
        "": (),
    },
    ("OPERATOR_CLUSTER_DNS_CONFIGMAP", "cluster_dns_configmap"): {"dns-base": "dns-base", "": ""},
    ("OPERATOR_NAMESERVER_LOG_QUERIES", "nameserver_log_queries"): {"1/999999999": "1/999999999"},
    ("OPERATOR_DNS_ZONES", "zones"): {"ts.net, .Tail.Example.ORG.": ("ts.net", "tail.example.org")},
    ("OPERATOR_WATCH_NAMESPACES", "watch_namespaces"): {
        "team-b, team-a,tailscale,team-b": ("team-b", "team-a", "tailscale"),
        "": (),
    },
    ("KUBECONFIG", "kubeconfig"): {PATHS: PATHS},
    ("OPERATOR_SERVICE_ACCOUNT_NAME", "service_account"): {"ts": "ts"},
    ("OPERATOR_LEADER_ELECTION", "leader_election"): {"false": False},
    ("POD_NAME", "pod_name"): {"operator-1": "operator-1"},
    ("OPERATOR_SECRET", "operator_secret"): {"operator": "operator", "": ""},
    ("OPERATOR_HOSTNAME", "operator_hostname"): {"gate": "gate", "": "tailscale-operator"},
    ("OPERATOR_IMAGE", "operator_image"): {"example.org/operator:v1": "example.org/operator:v1", "": ""},
    ("TS_PORT", "operator_port"): {"41641": "41641", "0": "0", "65535": "65535", "": ""},
    ("APISERVER_PROXY_HTTP", "apiserver_proxy_http"): {"true": True, "false": False, "": False},
    ("OPERATOR_INITIAL_TAGS", "operator_tags"): {"tag:a,tag:b": ("tag:a", "tag:b"), "": ("tag:k8s-operator",)},
    ("OPERATOR_HEALTH_ADDR", "health_address"): {"[::1]:9002": "[::1]:9002", " ": "", " :9003 ": ":9003"},
    ("OPERATOR_STATUS_ADDR", "status_address"): {"[::1]:9003": "[::1]:9003", "": ""},
    ("OPERATOR_LOGGING", "log_level"): {"debug": "DEBUG", "dev": "DEBUG", "warn": "WARNING", "error": "ERROR"},
    ("OPERATOR_LOG_FORMAT", "log_format"): {"json": "json", "text": "text"},
}


@pytest.mark.parametrize(("variable", "field"), GIVEN)
def test_each_environment_variable_sets_its_field_of_the_settings(
    variable: str, field: str, environ: dict[str, str]
) -> None:
    given = GIVEN[variable, field]
    assert {value: getattr(read_settings({**environ, variable: value}), field) for value in given} == given


NAMES = {
    "PROXY_PRIORITY_CLASS_NAME": "high priority",
    "OPERATOR_INGRESS_CLASS_NAME": "tail_scale",
    "OPERATOR_SERVICE_ACCOUNT_NAME": "-",
    "POD_NAME": "Operator",
    "OPERATOR_SECRET": "Operator",
}
FLAGS = {
    "OPERATOR_DEFAULT_LOAD_BALANCER": "yes",
    "OPERATOR_MANAGE_CLUSTER_DNS": "yes",
    "OPERATOR_TAKE_OVER_NAMES": "1",
    "OPERATOR_LEADER_ELECTION": "no",
    "APISERVER_PROXY_HTTP": "yes",
}
ADDRESSES = ("9002", ":70000", ":²", "::1:9002", "[::1:9002", "192.0.2.1:")
WRONG = [
    ("OPERATOR_LOGIN_SERVER", "headscale.example.org", "is not the URL of a control server"),
    ("PROXY_TAGS", "tag:a,db", '"db" is not a valid tag'),
    ("PROXY_TAGS", ",", "a tag is empty: remove the comma too many"),
    ("PROXY_IMAGE", "example.org/Tailscale", '"example.org/Tailscale": only the registry and the tag'),
    ("OPERATOR_NAMESERVER_IMAGE", "example.org/ns: v1", "this is not the name of an image"),
    ("OPERATOR_NAMESERVER_LOG_QUERIES", "1/0", "'1/0' is not a share such as 1/1000; 1/1 is all"),
    ("OPERATOR_NAMESERVER_LOG_QUERIES", "1/1000000000", "is not a share"),
    ("OPERATOR_NAMESERVER_LOG_QUERIES", "0.001", "is not a share"),
    ("PROXY_DEFAULT_CLASS", "Prod", '"Prod" is not a valid name of an object'),
    ("APISERVER_PROXY", "auth", "'auth' is not one of false, true, noauth"),
    ("AUTH_PROXY", "noauth", "'noauth' is not one of true, false"),
    ("OPERATOR_HOSTNAME", "gate.example.org", '"gate.example.org" is not a valid DNS label'),
    ("OPERATOR_IMAGE", "example.org/Operator", '"example.org/Operator": only the registry and the tag'),
    ("OPERATOR_INITIAL_TAGS", "k8s", '"k8s" is not a valid tag'),
    *(("TS_PORT", value, "is not a UDP port: give a number up to 65535") for value in ("65536", "-1", "any", "²")),
    ("KUBECONFIG", "/nonexistent", "there is no file '/nonexistent'"),
    ("PROXY_FIREWALL_MODE", "ipfw", "'ipfw' is not one of auto, iptables, nftables"),
    ("OPERATOR_CLUSTER_DNS", "10.96.0.10,kube-dns", "'kube-dns' is not the address of a DNS server"),
    ("OPERATOR_DNS_ZONES", "ts.net,", "'' is not a DNS zone"),
    ("OPERATOR_DNS_ZONES", "tail_net", "'tail_net' is not a DNS zone"),
    ("OPERATOR_DNS_ZONES", "a." * 126 + "ab", "is not a DNS zone"),
    (
        "OPERATOR_DNS_ZONES",
        "ts.net,cluster.local",
        "'cluster.local' would take names from the cluster, whose domain is ",
    ),
    ("OPERATOR_DNS_ZONES", "Local", "'local' would take names from the cluster"),
    ("OPERATOR_DNS_ZONES", "svc.cluster.local.", "leave it out of operatorConfig.zones of the chart"),
    ("OPERATOR_WATCH_NAMESPACES", "team-a,", '"" is not a valid DNS label'),
    ("OPERATOR_WATCH_NAMESPACES", "Team", "lower case; give a comma-separated list such as team-a,team-b"),
    ("OPERATOR_WATCH_NAMESPACES", "team-*", "must end with a letter or number; give a comma-separated list"),
    ("OPERATOR_LOGGING", "loud", "'loud' is not one of info, debug, dev, warn, error"),
    ("OPERATOR_LOG_FORMAT", "xml", "'xml' is not one of text, json"),
    ("OPERATOR_NAMESPACE", "", "is not set"),
    ("OPERATOR_NAMESPACE", "Tailscale", "its letters must be lower case"),
    ("CLIENT_ID_FILE", "", "is not set: give the path of the file that holds the OAuth client's ID"),
    ("CLIENT_ID", "id", 'cannot read "/var/run/secrets/tailscale/serviceaccount/token"'),
    ("CLIENT_SECRET_FILE", "", "is not set: give the path of the file that holds the OAuth client's secret"),
    ("CLIENT_ID_FILE", "/nonexistent/id", 'cannot read "/nonexistent/id": No such file or directory'),
    *((name, value, f'"{value}" is not a valid name of an object') for name, value in NAMES.items()),
    *((name, value, f"'{value}' is not one of true, false") for name, value in FLAGS.items()),
    ("OPERATOR_STATUS_ADDR", "9003", "is not ADDRESS:PORT"),
    *(("OPERATOR_HEALTH_ADDR", value, "is not ADDRESS:PORT") for value in ADDRESSES),
]


MODES: dict[tuple[str, str], str] = {
    ("", ""): "false",
    ("false", ""): "false",
    ("true", ""): "true",
    ("noauth", ""): "noauth",
    ("", "true"): "true",
    ("", "t"): "true",
    ("", "false"): "false",
    ("true", "true"): "true",
    ("false", "f"): "false",
    ("false", "true"): "APISERVER_PROXY is 'false' and AUTH_PROXY is 'true'",
    ("noauth", "true"): "unset AUTH_PROXY, and set APISERVER_PROXY (apiServerProxyConfig.mode of the chart)",
    ("true", "0"): "APISERVER_PROXY is 'true' and AUTH_PROXY is 'false'",
}


@pytest.mark.parametrize(("given", "mode"), MODES.items(), ids=map(str, MODES))
def test_the_mode_of_the_api_server_proxy_comes_from_one_of_two_variables_which_must_not_differ(
    given: tuple[str, str], mode: str, environ: dict[str, str]
) -> None:
    mixed = {**environ, "OPERATOR_SECRET": "operator", "APISERVER_PROXY": given[0], "AUTH_PROXY": given[1]}
    if mode in ("true", "noauth", "false"):
        assert read_settings(mixed).apiserver_proxy == mode
    else:
        with pytest.raises(InvalidSetting, match=re.escape(mode)):
            read_settings(mixed)


@pytest.mark.parametrize(
    ("secret", "words"),
    {"": "OPERATOR_SECRET is not set", "o" * 64: "at most 63 characters"}.items(),
)
def test_the_api_server_proxy_needs_the_setting_operator_secret_with_at_most_63_characters(
    secret: str, words: str, environ: dict[str, str]
) -> None:
    given = {**environ, "OPERATOR_SECRET": secret}
    assert read_settings(given).operator_secret == secret
    with pytest.raises(InvalidSetting, match=words):
        read_settings({**given, "APISERVER_PROXY": "noauth"})


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_the_error_for_a_wrong_setting_names_the_variable_and_its_valid_values(
    name: str, value: str, words: str, environ: dict[str, str]
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        read_settings({**environ, name: value})
    assert re.fullmatch(rf"{name}\b[^\n]+", str(caught.value))
    assert words in str(caught.value)


BOOL = "OPERATOR_DEFAULT_LOAD_BALANCER"
WARNED = [
    (BOOL, "1", f"{BOOL}: '1' is read as true: write true"),
    (BOOL, "False", f"{BOOL}: 'False' is read as false"),
    ("AUTH_PROXY", "false", "AUTH_PROXY is the old name of a setting: unset it, and set APISERVER_PROXY instead"),
    ("PROXY_TAGS", "tag:a,", "PROXY_TAGS: 'tag:a,' has a comma too many: write tag:a"),
    ("PROXY_TAGS", "tag:a,,tag:b", "write tag:a,tag:b"),
    ("OPERATOR_INITIAL_TAGS", "tag:a,", "OPERATOR_INITIAL_TAGS: 'tag:a,' has a comma too many: write tag:a"),
    ("OPERATOR_LOGIN_SEVER", "x", "OPERATOR_LOGIN_SEVER is no setting and is not read: do you mean OPERATOR_LO"),
    ("PROXY_TAG", "", "do you mean PROXY_TAGS?"),
    ("OPERATOR_PROXY_TAGS", "tag:a", "OPERATOR_PROXY_TAGS is no setting and is not read: do you mean PROXY_TAGS?"),
]


@pytest.mark.parametrize(("name", "value", "words"), WARNED)
def test_a_wrong_setting_with_a_clear_meaning_causes_a_warning(
    name: str, value: str, words: str, environ: dict[str, str]
) -> None:
    (told,) = read_settings({**environ, name: value}).warnings
    assert words in told


FINE = {
    BOOL: "true",
    "APISERVER_PROXY": "false",
    "PROXY_TAGS": "tag:a",
    "OPERATOR_HOSTNAME": "tailscale-operator",
    "OPERATOR_SHARED_ACME_ACCOUNT_KEY": "true",
    "OPERATOR_NAMESPACE_PORT": "of a Service called operator-namespace",
    "OPERATOR_SERVICE_HOST": "of a Service called operator",
    "PROXY_IMAGE_SERVICE_PORT": "of a Service called proxy-image",
    "PROXY_TAGS_PORT_80_TCP": "of a Service called proxy-tags",
    "MY_PROXY_TAG": "of somebody else",
}


def test_a_valid_variable_or_a_variable_of_another_program_causes_no_warning(environ: dict[str, str]) -> None:
    assert not read_settings({**environ, **FINE}).warnings


def test_the_logging_mode_dev_is_debug_output_for_people_as_in_the_go_operator(environ: dict[str, str]) -> None:
    found = read_settings({**environ, "OPERATOR_LOGGING": "dev", "OPERATOR_LOG_FORMAT": "json"})
    assert (found.log_level, found.log_format) == ("DEBUG", "text")


def test_credentials_that_are_no_text_are_refused(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "id").write_bytes(b"\xff")
    with pytest.raises(InvalidSetting, match="CLIENT_ID_FILE"):
        read_settings(environ)


def test_workload_identity_needs_no_credential_files_and_is_preferred_to_them(
    environ: dict[str, str], tmp_path: Path
) -> None:
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
        ("search tailscale.svc.a.org svc.a.org\nnameserver 192.0.2.1\nsearch a.org # b", "a.org"),
        ("# search tailscale.svc.a.org svc.a.org a.org", "cluster.local"),
        ("search tailscale.svc.a.org svc.a.org", "cluster.local"),
        ("search other.svc.a.org svc.a.org a.org", "cluster.local"),
        ("search tailscale.svc.a.org a.org a.org", "cluster.local"),
        ("search tailscale.svc.a.org svc.a.org b.org", "cluster.local"),
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
def test_the_dns_servers_in_resolv_conf_are_used_only_if_the_pod_asks_the_clusters_dns(
    resolv_conf: str, servers: tuple[str, ...]
) -> None:
    assert cluster_dns(resolv_conf, "tailscale") == servers


LINES = help_lines().splitlines()
COLUMN, WIDTH = 35, 116


def test_each_variable_begins_a_line_of_the_help_and_its_meaning_stays_in_the_second_column() -> None:
    names = [line[:COLUMN].strip() for line in LINES]
    assert [name for name in names if name] == [*VARIABLES]
    assert all(line[COLUMN - 1] == " " and line[COLUMN] != " " for line in LINES)


def test_the_help_has_the_whole_meaning_of_each_variable_and_no_line_is_too_long() -> None:
    assert " ".join(line[COLUMN:] for line in LINES) == " ".join(VARIABLES.values())
    assert WIDTH - 10 < max(map(len, LINES)) <= WIDTH
