"""The plan for a Connector: its children, its status and its Events."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Key, Object
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import connected_networks
from tsoperator.reconcilers.connector import plan as plans
from tsoperator.reconcilers.connector.ask import class_name, parse
from tsoperator.reconcilers.connector.plan import Observed
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Note, Plan, Refusal
from tsoperator.settings import Settings

from tests.support.objects import (
    children_of,
    condition_of,
    deleted_devices,
    deleting,
    held,
    live_connector,
    live_proxy_class,
    reasons_of,
    settings,
    slim_secret,
    status_of,
    stored,
)

SETTINGS = settings()
NOTHING = Observed(Children())
ROUTER = {"subnetRouter": {"advertiseRoutes": ["192.168.0.0/24", "10.40.0.0/14"]}}
EXIT = {"exitNode": True}
APP: Object = {"appConnector": {}}
OWNER = Owner("connector", Key("", "router"))
ZEROS = {"subnetRoutes": "", "isExitNode": False, "isAppConnector": False, "devices": []}


def plan(obj: Object, observed: Observed = NOTHING, keys: Keys | Refusal = NO_KEYS, of: Settings = SETTINGS) -> Plan:
    ask = parse(obj, of)
    return plans.plan(ask, plans.wanted(ask, observed, of), observed, of, keys)


def proxy(spec: Object, observed: Observed = NOTHING) -> Proxy:
    made = plans.wanted(parse(live_connector(spec), SETTINGS), observed, SETTINGS)
    assert isinstance(made, Proxy), made
    return made


def ready(made: Plan) -> tuple[str, str, str]:
    condition = condition_of(made)
    assert condition["type"] == "ConnectorReady"
    return condition["status"], condition["reason"], condition["message"]


def secret(ordinal: int, **data: str) -> Object:
    return slim_secret(f"ts-router-x7k2p-{ordinal}", data, OWNER.labels)


def joined(*ordinals: int) -> Observed:
    """Return what the reconciler observes of replicas with these *ordinals* that have joined the tailnet."""
    data = [
        {"device_id": f"n{n}", "device_fqdn": f"r-{n}.tail1234.ts.net.", "device_ips": f'["100.64.0.{n}"]'}
        for n in ordinals
    ]
    return Observed(Children(secrets=[secret(n, **each) for n, each in zip(ordinals, data, strict=True)]))


def without_conditions(made: Plan) -> Object:
    return {name: value for name, value in status_of(made).items() if name != "conditions"}


SUBNETS = {"subnetRoutes": "192.168.0.0/24,10.40.0.0/14"}


@pytest.mark.parametrize(
    ("spec", "routes", "app_connector", "shown"),
    [
        (ROUTER, ("10.40.0.0/14", "192.168.0.0/24"), False, SUBNETS),
        (EXIT, ("0.0.0.0/0", "::/0"), False, {"isExitNode": True}),
        (
            ROUTER | EXIT,
            ("0.0.0.0/0", "::/0", "10.40.0.0/14", "192.168.0.0/24"),
            False,
            {**SUBNETS, "isExitNode": True},
        ),
        (APP, (), True, {"isAppConnector": True}),
        ({"appConnector": {"routes": ["192.0.2.0/24"]}}, ("192.0.2.0/24",), True, {"isAppConnector": True}),
        (APP | {"exitNode": False}, (), True, {"isAppConnector": True}),
    ],
    ids=["subnet router", "exit node", "both", "app connector", "app connector with routes", "no exit node"],
)
def test_the_proxy_gets_the_role_of_its_connector_and_the_status_shows_it(
    spec: Object, routes: tuple[str, ...], app_connector: bool, shown: Object
) -> None:
    config = proxy(spec).config
    assert (config.routes, config.app_connector) == (routes, app_connector)
    assert without_conditions(plan(live_connector(spec))) == {**ZEROS, **shown}


def test_the_hostnames_of_the_devices_come_from_the_spec_or_the_connectors_name() -> None:
    cases: list[tuple[Object, list[str]]] = [
        ({}, ["router-connector"]),
        ({"hostname": "gate"}, ["gate"]),
        ({"hostname": "gate", "replicas": 0}, []),
        ({"replicas": 2}, ["router-connector", "router-connector"]),
        ({"hostnamePrefix": "ts-prod"}, ["ts-prod-0"]),
        ({"hostnamePrefix": "ts-prod", "replicas": 2}, ["ts-prod-0", "ts-prod-1"]),
    ]
    for spec, hostnames in cases:
        made = proxy(EXIT | spec)
        assert made.pod == connected_networks()
        assert [made.config_of(each).hostname for each in made.replicas] == hostnames


def test_the_devices_of_a_connector_without_tags_get_the_default_tags() -> None:
    assert tuple(proxy(EXIT).tags) == tuple(proxy({**EXIT, "tags": []}).tags) == ("tag:k8s",)
    assert tuple(proxy({**EXIT, "tags": ["tag:a", "tag:b"]}).tags) == ("tag:a", "tag:b")


def test_a_connector_is_ready_as_soon_as_its_children_are_made() -> None:
    made = plan(live_connector(generation=7))
    assert (made.hold, ready(made)) == (FINALIZER, ("True", "ConnectorCreated", "ConnectorCreated"))
    assert status_of(made)["conditions"][0]["observedGeneration"] == 7


def test_the_status_shows_the_devices_in_the_order_of_replicas() -> None:
    status = status_of(plan(live_connector({**EXIT, "replicas": 3}), joined(2, 0)))
    shown = [{"hostname": f"r-{n}.tail1234.ts.net", "tailnetIPs": [f"100.64.0.{n}"]} for n in (0, 2)]
    assert status["devices"] == shown
    assert (status["hostname"], status["tailnetIPs"]) == ("r-0.tail1234.ts.net", ["100.64.0.0"])


@pytest.mark.parametrize(("key", "words"), [("new-authkey", "A new auth key has been given"), ("", "within 30 s")])
def test_a_connector_whose_replica_logs_in_anew_is_not_ready_and_says_which(key: str, words: str) -> None:
    secrets = [secret(0, device_id="n0"), secret(1, device_id="n1", reissue_authkey="")]
    made = plan(live_connector({**EXIT, "replicas": 2}), Observed(Children(secrets=secrets)), Keys({1: key}))
    status, reason, message = ready(made)
    assert (status, reason) == ("False", "ConnectorCreating")
    assert message.startswith("replica 1 could not log in")
    assert words in message


def test_a_connector_reports_findings_about_its_devices_in_its_condition_and_by_events() -> None:
    news = [DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)]
    made = plan(live_connector(EXIT), Observed(Children(), tailnet=TailnetView(news=news)))
    assert ready(made) == ("False", "ConnectorCreationFailed", "not permitted")
    assert (reasons_of(made), made.requeue_after) == (["TagsRefused"], 60)


def test_the_status_shows_a_device_that_has_no_name_yet_with_an_empty_name() -> None:
    status = status_of(plan(live_connector(EXIT), Observed(Children(secrets=[secret(0, device_id="n0")]))))
    assert status["devices"] == [{"hostname": ""}]
    assert not {"hostname", "tailnetIPs"} & status.keys()


def test_the_status_does_not_show_a_role_that_the_connector_has_given_up() -> None:
    before = status_of(plan(live_connector({**EXIT, "replicas": 1}), joined(0)))
    after = status_of(plan(live_connector({**APP, "replicas": 0}) | {"status": {**before, "future": 1}}, joined(0)))
    assert (after["isExitNode"], after["isAppConnector"], after["devices"]) == (False, True, [])
    assert not {"hostname", "tailnetIPs", "future"} & after.keys()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "it connects nothing: set subnetRouter, exitNode or appConnector"),
        ({"exitNode": False}, "it connects nothing"),
        (APP | EXIT, "an app connector can't be"),
        (APP | ROUTER, "an app connector can't be"),
        ({**EXIT, "hostname": "gate", "replicas": 2}, "use hostnamePrefix instead of hostname"),
        ({**EXIT, "hostname": "gate", "hostnamePrefix": "ts"}, "hostname and hostnamePrefix exclude each other"),
        ({"subnetRouter": {"advertiseRoutes": ["1.2.3.4/5", "x"]}}, 'write 0.0.0.0/5; "x" is not a network'),
        ({"appConnector": {"routes": ["1.2.3.4/5"]}}, "write 0.0.0.0/5"),
        ({"subnetRouter": {"advertiseRoutes": ["0.0.0.0/0"]}}, "set exitNode to true"),
    ],
)
def test_a_bad_connector_says_why_in_its_condition_and_keeps_its_proxy(spec: Object, words: str) -> None:
    before = {**ZEROS, "isExitNode": True, "devices": [{"hostname": "a"}]}
    refusal = plan(live_connector(spec) | {"status": before})
    status, reason, message = ready(refusal)
    assert (status, reason, words in message) == ("False", "ConnectorInvalid", True)
    assert refusal == Plan(status=refusal.status, notes=[Note("Warning", reason, message)])
    assert without_conditions(refusal) == before


@pytest.mark.parametrize(
    ("length", "spec", "words"),
    [
        (53, {"replicas": 2}, ""),
        (54, {}, f"its hostname {'a' * 54}-connector must have at most 63 characters, not 64: set spec.hostname"),
        (54, {"replicas": 2}, "not 64: set spec.hostnamePrefix"),
        (54, {"hostnamePrefix": "gate"}, ""),
        (9, {"hostnamePrefix": "p" * 61, "replicas": 10}, ""),
        (9, {"hostnamePrefix": "p" * 61, "replicas": 11}, f"its last hostname {'p' * 61}-10 must have at most 63"),
        (9, {"hostnamePrefix": "p" * 62, "replicas": 0}, "characters, not 64: shorten spec.hostnamePrefix"),
    ],
)
def test_a_connector_whose_devices_would_share_a_cut_hostname_is_refused(length: int, spec: Object, words: str) -> None:
    refusal = plan(live_connector({**EXIT, **spec}, name="a" * length))
    _, reason, message = ready(refusal)
    assert (reason == "ConnectorInvalid", words in message) == (bool(words), True)
    assert bool(refusal.steps) is not bool(words)


def test_the_status_of_a_bad_connector_without_a_proxy_has_zero_values_and_the_reason() -> None:
    made = plan(live_connector({"replicas": "many"}))
    assert (ready(made)[2][:28], without_conditions(made)) == ("this Connector is invalid: s", ZEROS)


def plan_with_class(found: Object | None = None) -> Plan:
    given = {**EXIT, "proxyClass": "prod"}
    assert class_name(live_connector(given, labels={"tailscale.com/proxy-class": "other"})) == "prod"
    return plan(live_connector(given), Observed(Children(), found))


def test_a_connector_reports_that_its_class_does_not_exist() -> None:
    refusal = plan_with_class()
    status, reason, message = ready(refusal)
    assert (status, reason, "'prod' does not exist" in message) == ("False", "ConnectorCreationFailed", True)
    assert reasons_of(refusal) == ["ConnectorCreationFailed"]


def test_a_connector_waits_without_an_event_for_a_class_that_cannot_be_applied_yet() -> None:
    refusal = plan_with_class(live_proxy_class("prod"))
    status, reason, message = ready(refusal)
    assert (status, reason, "'prod'" in message) == ("False", "ConnectorCreating", True)
    assert (refusal.notes, refusal.steps, refusal.hold) == ([], (), "")
    changing = live_proxy_class("prod", ready=True, generation=2)  # its check goes on, which is no news
    assert plan_with_class(changing) == Plan(whole=False)


@pytest.mark.parametrize("accepts", [True, False])
def test_the_proxies_accept_routes_if_their_class_says_so(accepts: bool) -> None:
    class_ = live_proxy_class("prod", {"tailscale": {"acceptRoutes": accepts}}, ready=True)
    assert proxy({**EXIT, "proxyClass": "prod"}, Observed(Children(), class_)).config.accept_routes is accepts


def test_a_connector_has_no_default_class() -> None:
    assert class_name(live_connector(EXIT)) == ""
    assert ready(plan(live_connector(EXIT), of=settings(proxy_class="prod")))[0] == "True"


UNUSABLE_WORDS = "Tailnet 'other' can't be used: Secret \"other\" is empty"
UNUSABLE = TailnetView("other", refusal=Refusal(UNUSABLE_WORDS))


def test_a_connector_reports_that_its_tailnet_cannot_be_used() -> None:
    refusal = plan(live_connector({**EXIT, "tailnet": "other"}), Observed(Children(), tailnet=UNUSABLE))
    assert ready(refusal) == ("False", "ConnectorCreationFailed", UNUSABLE_WORDS)
    notes = [Note("Warning", "ConnectorCreationFailed", UNUSABLE_WORDS)]
    assert refusal == Plan(status=refusal.status, notes=notes)


def test_the_proxies_join_the_tailnet_of_the_connector() -> None:
    observed = Observed(Children(), tailnet=TailnetView("other", "https://headscale.example.org"))
    made = plans.wanted(parse(live_connector(EXIT), SETTINGS), observed, SETTINGS)
    assert isinstance(made, Proxy)
    assert (made.tailnet, made.config.server_url) == ("other", "https://headscale.example.org")


@pytest.mark.parametrize("live", [live_connector(), held(live_connector())], ids=["finalizer taken off", "held"])
def test_a_deleted_connector_is_released_after_its_devices_are_deleted(live: Object) -> None:
    made = plan(deleting(live), joined(0, 1))
    assert (deleted_devices(made), made.release) == (["n0", "n1"], FINALIZER)


def test_a_deleted_connector_without_our_finalizer_goes_at_once() -> None:
    assert plan(deleting(live_connector()), joined()) == Plan()


def test_the_devices_of_a_deleted_connector_are_deleted_even_in_a_tailnet_that_is_unusable() -> None:
    obj = deleting(held(live_connector({**EXIT, "tailnet": "other"})))
    made = plan(obj, replace(joined(0), tailnet=UNUSABLE))
    assert (deleted_devices(made), made.release, made.status) == (["n0"], FINALIZER, None)


UNTRIED = TailnetView("other", pending=ValueError("waiting"))


def test_a_deleted_connector_says_that_it_waits_for_its_tailnet() -> None:
    obj = deleting(held(live_connector({**EXIT, "tailnet": "other"})))
    made = plan(obj, replace(joined(0), tailnet=UNTRIED))
    words = "its devices can't be deleted until the operator has tried the credentials of Tailnet 'other'; if the"
    assert (deleted_devices(made), ready(made)[2].startswith(words)) == (["n0"], True)
    assert reasons_of(made) == ["ConnectorCreationFailed"]
    assert plan(obj, Observed(Children(secrets=[secret(0)]), tailnet=UNTRIED)).status is None


def test_a_connector_waits_without_a_status_for_a_tailnet_whose_credentials_are_untried() -> None:
    observed = replace(joined(0), tailnet=UNTRIED)
    assert plan(live_connector({**EXIT, "tailnet": "other"}), observed) == Plan(error=UNTRIED.pending)


def test_a_new_connector_writes_no_status_while_it_waits_for_auth_keys() -> None:
    keys = Keys(awaited=frozenset({0}), pending=ValueError("waiting"))
    assert plan(live_connector(EXIT), keys=keys) == Plan(error=keys.pending)


FIELDS = {
    "subnetRouter": st.none() | st.fixed_dictionaries({"advertiseRoutes": st.lists(st.text(max_size=20))}),
    "appConnector": st.none() | st.just({}),
    "exitNode": st.booleans() | st.text(),
    "hostname": st.text(max_size=5),
    "replicas": st.integers(-1, 3),
    "proxyClass": st.text(max_size=3),
}


@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_a_connector_with_any_spec_has_a_plan(spec: Object) -> None:
    obj = stored(held(live_connector(spec)))
    ask = parse(obj, SETTINGS)
    if isinstance(plans.wanted(ask, NOTHING, SETTINGS), Proxy):
        assert len(children_of(plan(obj))) == 2 + ask.replicas
    assert plan(deleting(obj)).release == FINALIZER


@pytest.mark.parametrize("given", ["annotations", "labels"])
@pytest.mark.parametrize(
    ("key", "cure"),
    [
        ("hostname", "Connector: write spec.hostname instead"),
        ("tags", "Connector: write spec.tags instead"),
        ("proxy-class", "Connector: write spec.proxyClass instead"),
        ("proxyclass", "if you mean tailscale.com/proxy-class, write spec.proxyClass instead"),
    ],
)
def test_an_event_names_an_annotation_or_label_that_has_no_effect(given: str, key: str, cure: str) -> None:
    marked = live_connector(EXIT)
    marked["metadata"][given] = {f"tailscale.com/{key}": "x"}
    for obj in (marked, {**marked, "spec": {}}):
        (told,) = (note for note in plan(obj).notes if note.reason.startswith("Ignored"))
        assert (told.type, told.once, told.message.endswith(cure)) == ("Warning", True, True)
    assert not plan(deleting(marked)).notes
