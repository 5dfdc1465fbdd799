"""The class and the tailnet that the operator reads from a Connector. test_plan.py tests the other fields."""

from tsoperator.reconcilers.connector.ask import parse

from tests.support.objects import live_connector, settings


def test_the_class_and_the_tailnet_of_a_connector_come_only_from_its_spec() -> None:
    labels = {"tailscale.com/proxy-class": "other"}
    for spec in (None, ["prod"], {"proxyClass": 7, "tailnet": 7}, {}):
        broken = {**live_connector(labels=labels), "spec": spec}
        found = parse(broken, settings(proxy_class="default"))
        assert (found.class_name, found.tailnet) == ("", "")
    named = parse(live_connector({"proxyClass": "prod", "tailnet": "a"}, labels=labels), settings())
    assert (named.class_name, named.tailnet) == ("prod", "a")
