"""The ClusterIP Service in front of a ProxyGroup's proxies, for one egress Service."""

from tsoperator.api.objects import Key, Object
from tsoperator.group.clusterip import Target, cluster_ip_service, is_place, new_name, place_labels
from tsoperator.group.ports import Wanted

from tests.operator.group.places import NAMES, OWNER, PLACE, place
from tests.operator.reconcilers.service.specs import user_service
from tests.support.objects import egress_service

KEY = Key("tailscale", "ts-db-x7k2p")
SQL = Wanted("TCP", 5432)
BY_NAME = Target("db.tail1234.ts.net.", "")


def made(ports: dict[Wanted, int], target: Target = BY_NAME) -> Object:
    names = NAMES if SQL in ports else dict.fromkeys(ports, "a")
    return cluster_ip_service(KEY, place_labels(OWNER, "foo"), target, ports, names)


def test_the_clusterip_service_is_as_the_go_operator_makes_it_and_names_its_target() -> None:
    service = made({SQL: 10437})
    assert service["metadata"] == {
        "namespace": "tailscale",
        "name": "ts-db-x7k2p",
        "labels": {
            "tailscale.com/managed": "true",
            "tailscale.com/parent-resource-type": "svc",
            "tailscale.com/parent-resource": "db",
            "tailscale.com/parent-resource-ns": "default",
            "tailscale.com/proxy-group": "foo",
            "tailscale.com/svc-type": "egress",
        },
        "annotations": {
            "tailscale.com/operator-last-set-ts-tailnet-target-fqdn": "db.tail1234.ts.net.",
            "tailscale.com/magic-dnsname": "db.tail1234.ts.net",
        },
    }
    assert service["spec"] == {
        "type": "ClusterIP",
        "ipFamilyPolicy": "PreferDualStack",
        "ports": [
            {"name": "tailscale-unnamed", "protocol": "TCP", "port": 5432, "targetPort": 10437},
            {"name": "tailscale-health-check", "protocol": "TCP", "port": 9002, "targetPort": 9002},
        ],
    }


def test_the_clusterip_service_for_an_address_has_no_magicdns_name() -> None:
    notes = made({SQL: 10437}, Target("", "100.64.0.9"))["metadata"]["annotations"]
    assert notes == {"tailscale.com/operator-last-set-ts-tailnet-target-ip": "100.64.0.9"}


def test_the_health_port_of_a_clusterip_service_is_none_of_the_users_ports() -> None:
    for numbers, health in (((9001, 9003), 9002), ((9002,), 9003), ((9002, 9003), 9004), ((80,), 9002)):
        ports = {Wanted("UDP", number): 10000 + number for number in numbers}
        assert made(ports)["spec"]["ports"][-1]["port"] == health


def test_the_name_of_a_new_place_depends_on_the_service_and_its_group() -> None:
    names = {new_name(user_service(uid=uid), group) for uid in ("a", "b") for group in ("egress", "other")}
    assert (len(names), {name[:6] for name in names}) == (4, {"ts-db-"})


def test_only_a_service_with_the_label_for_egress_is_a_place_at_a_group() -> None:
    assert is_place(place(PLACE))
    assert not is_place(egress_service(labels=OWNER.labels))
