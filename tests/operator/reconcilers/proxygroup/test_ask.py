"""The requests in a ProxyGroup that are read even if it is invalid."""

from typing import Any

from tsoperator.group.grouptype import APISERVER, EGRESS
from tsoperator.reconcilers.proxygroup.ask import Ask, parse

from tests.operator.reconcilers.proxygroup.groups import live_group
from tests.support.objects import settings


def ask(spec: Any, default_class: str = "") -> Ask:
    return parse({**live_group(), "spec": spec}, settings(proxy_class=default_class))


def test_the_type_the_class_and_the_tailnet_of_a_group_are_read_even_from_a_broken_spec() -> None:
    broken = {"type": "kube-apiserver", "proxyClass": 1, "tailnet": None, "replicas": -1}
    found = [ask(each) for each in (broken, ["egress"], None)]
    read = [(each.type, each.class_name, each.tailnet) for each in found]
    assert read == [(APISERVER, "", ""), (EGRESS, "", ""), (EGRESS, "", "")]
    assert all(each.unreadable for each in found)
    assert ask(broken, "default").class_name == "default"


def test_the_class_in_the_spec_of_a_group_takes_precedence_over_the_default_class() -> None:
    assert ask({"type": "egress", "proxyClass": "own"}, "default").class_name == "own"
