"""The requests in a Connector, and the reasons why it is invalid."""

from tsoperator.reconcilers.connector.ask import class_name, parse, tailnet_name

from tests.support.objects import live_connector, settings

SETTINGS = settings()
EXIT = {"exitNode": True}


def test_a_connector_reports_that_its_name_is_too_long_for_labels() -> None:
    for length, wrong in ((63, ""), (64, "its name must have at most 63 characters, not 64: make it anew")):
        found = parse(live_connector({**EXIT, "hostname": "gate"}, name="a" * length), SETTINGS).wrong
        assert found.partition(" with")[0] == wrong


def test_an_exit_node_may_also_list_a_default_route_among_its_routes() -> None:
    assert parse(live_connector({**EXIT, "subnetRouter": {"advertiseRoutes": ["0.0.0.0/0"]}}), SETTINGS).wrong == ""


def test_a_connector_that_cannot_be_parsed_names_no_class_and_no_tailnet() -> None:
    for spec in (None, ["prod"], {"proxyClass": 7, "tailnet": 7}):
        broken = {**live_connector(), "spec": spec}
        assert (class_name(broken), tailnet_name(broken)) == ("", "")
    assert tailnet_name(live_connector({"tailnet": "a"})) == "a"
