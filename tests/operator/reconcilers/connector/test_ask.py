"""The class and the tailnet that a Connector names; the plan shows what is wrong with it, and what it asks for."""

from tsoperator.reconcilers.connector.ask import class_name, tailnet_name

from tests.support.objects import live_connector


def test_a_connector_names_its_class_and_its_tailnet_in_its_spec_alone() -> None:
    labels = {"tailscale.com/proxy-class": "other"}
    for spec in (None, ["prod"], {"proxyClass": 7, "tailnet": 7}, {}):
        broken = {**live_connector(labels=labels), "spec": spec}
        assert (class_name(broken), tailnet_name(broken)) == ("", "")
    named = live_connector({"proxyClass": "prod", "tailnet": "a"}, labels=labels)
    assert (class_name(named), tailnet_name(named)) == ("prod", "a")
