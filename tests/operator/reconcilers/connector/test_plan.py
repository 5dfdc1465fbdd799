"""The plan for a Connector: its children, its status and its Events."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.names import DEFAULT_CONTROL_URL, FINALIZER
from tsoperator.api.objects import Key, Object
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import connected_networks
from tsoperator.proxy.secret import slim
from tsoperator.reconcilers.connector import plan as plans
from tsoperator.reconcilers.connector.ask import parse
from tsoperator.reconcilers.connector.plan import Observed
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Note, Plan, Refusal

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
    status_of,
    stored,
    whole_secret,
)
from tests.support.rows import Row, Said, play, said_by

SETTINGS = settings(proxy_class="default")  # a Connector has no default class
ROUTER = {"subnetRouter": {"advertiseRoutes": ["192.168.0.0/24", "10.40.0.0/14"]}}
EXIT = {"exitNode": True}
NO_EXIT = {"exitNode": False}
APP: Object = {"appConnector": {}}
CLASS = {**EXIT, "proxyClass": "prod"}
OTHER = {**EXIT, "tailnet": "other"}
OWNER = Owner("connector", Key("", "router"))
ZEROS = {"subnetRoutes": "", "isExitNode": False, "isAppConnector": False, "devices": []}


def seen(*secrets: Object, proxy_class: Object | None = None, tailnet: TailnetView = OWN_TAILNET) -> Observed:
    """Return the facts about a Connector: its *secrets*, its *proxy_class*, and those about its *tailnet*."""
    return Observed(Children(secrets=[*map(slim, secrets)]), proxy_class, tailnet)


NOTHING = seen()


def plan(obj: Object, observed: Observed = NOTHING, keys: Keys | Refusal = NO_KEYS) -> Plan:
    ask = parse(obj, SETTINGS)
    return plans.plan(ask, plans.wanted(ask, observed, SETTINGS), observed, SETTINGS, keys)


def ready(made: Plan) -> tuple[str, str, str]:
    condition = condition_of(made)
    assert condition["type"] == "ConnectorReady"
    return condition["status"], condition["reason"], condition["message"]


def secret(ordinal: int, **data: str) -> Object:
    return whole_secret(f"ts-router-x7k2p-{ordinal}", data, OWNER.labels)


def joined(n: int) -> Object:
    """Return the Secret of the replica with the ordinal *n*, which has joined the tailnet."""
    return secret(n, device_id=f"n{n}", device_fqdn=f"r-{n}.tail1234.ts.net.", device_ips=f'["100.64.0.{n}"]')


ALL, NET = ("0.0.0.0/0", "::/0"), "192.0.2.0/24"
SUBNETS = ("10.40.0.0/14", "192.168.0.0/24")
ACCEPTING = seen(proxy_class=live_proxy_class("prod", {"tailscale": {"acceptRoutes": True}}, ready=True))
USUAL = {
    "routes": ALL,
    "app": False,
    "hostnames": ["router-connector"],
    "tags": ["tag:k8s"],
    "accepts": False,
    "at": ("", DEFAULT_CONTROL_URL),
}
PROXIES: dict[str, tuple[Object, Observed, Object]] = {
    "exit node": (EXIT, NOTHING, {}),
    "subnet router": (ROUTER, NOTHING, {"routes": SUBNETS}),
    "both": (ROUTER | EXIT, NOTHING, {"routes": (*ALL, *SUBNETS)}),
    "app connector": (APP, NOTHING, {"routes": (), "app": True}),
    "one with routes": ({"appConnector": {"routes": [NET]}}, NOTHING, {"routes": (NET,), "app": True}),
    "no exit node": (APP | NO_EXIT, NOTHING, {"routes": (), "app": True}),
    "a default route, too": ({**EXIT, "subnetRouter": {"advertiseRoutes": ["0.0.0.0/0"]}}, NOTHING, {}),
    "hostname": ({**EXIT, "hostname": "gate"}, NOTHING, {"hostnames": ["gate"]}),
    "no replica": ({**EXIT, "hostname": "gate", "replicas": 0}, NOTHING, {"hostnames": []}),
    "replicas": ({**EXIT, "replicas": 2}, NOTHING, {"hostnames": ["router-connector", "router-connector"]}),
    "prefix": ({**EXIT, "hostnamePrefix": "ts"}, NOTHING, {"hostnames": ["ts-0"]}),
    "a prefix for two": ({**EXIT, "hostnamePrefix": "ts", "replicas": 2}, NOTHING, {"hostnames": ["ts-0", "ts-1"]}),
    "empty tags": ({**EXIT, "tags": []}, NOTHING, {}),
    "tags": ({**EXIT, "tags": ["tag:a", "tag:b"]}, NOTHING, {"tags": ["tag:a", "tag:b"]}),
    "class": (CLASS, ACCEPTING, {"accepts": True}),
    "another class": (CLASS, seen(proxy_class=live_proxy_class("prod", ready=True)), {}),
    "Tailnet": (OTHER, seen(tailnet=TailnetView("other", "https://x.org")), {"at": ("other", "https://x.org")}),
}


@pytest.mark.parametrize(("spec", "observed", "special"), PROXIES.values(), ids=PROXIES)
def test_the_spec_of_a_connector_decides_the_routes_names_tags_and_tailnet_of_its_proxies(
    spec: Object, observed: Observed, special: Object
) -> None:
    made = plans.wanted(parse(live_connector(spec), SETTINGS), observed, SETTINGS)
    assert isinstance(made, Proxy), made
    config = made.config
    assert made.pod == connected_networks()
    assert {
        "routes": config.routes,
        "app": config.app_connector,
        "hostnames": [made.config_of(each).hostname for each in made.replicas],
        "tags": [*made.tags],
        "accepts": config.accept_routes,
        "at": (made.tailnet, config.server_url),
    } == USUAL | special


DEVICES = [{"hostname": f"r-{n}.tail1234.ts.net", "tailnetIPs": [f"100.64.0.{n}"]} for n in (0, 2)]
JOINED = "it is in the tailnet as r-0.tail1234.ts.net (100.64.0.0) and r-2.tail1234.ts.net (100.64.0.2)"
IDLE = "spec.replicas is 0, so it connects nothing"
GONE = {**ZEROS, "isExitNode": True, "devices": DEVICES, **DEVICES[0], "future": 1}
SHOWN: dict[str, tuple[Object, list[Object], Object]] = {
    "subnet router": (ROUTER, [], {"subnetRoutes": "192.168.0.0/24,10.40.0.0/14"}),
    "both": (ROUTER | EXIT, [], {"subnetRoutes": "192.168.0.0/24,10.40.0.0/14", "isExitNode": True}),
    "app connector": (APP | NO_EXIT, [], {"isAppConnector": True}),
    "devices": ({**APP, "replicas": 3}, [joined(2), joined(0)], {"devices": DEVICES, **DEVICES[0]}),
    "a device without a name": (APP, [secret(0, device_id="n0")], {"devices": [{"hostname": ""}]}),
    "a surplus device": ({**APP, "replicas": 0}, [joined(0)], {}),
}


def shows(spec: Object, shown: Object) -> Callable[[Said], None]:
    """Return a check of what the operator says about a valid Connector with *spec*.

    The check fails unless the Connector is ready, isAppConnector in its status suits *spec*, and the other fields of
    its status are as in *shown*.
    """
    has_joined, role = "hostname" in shown, {"isAppConnector": "appConnector" in spec}
    none = "its proxy is made, and has not joined the tailnet yet" if spec.get("replicas", 1) else IDLE
    words = JOINED if has_joined else none

    def check(said: Said) -> None:
        assert said.ready() == ("True", "ConnectorCreated", words)
        assert said.status == {**ZEROS, **role, **shown, "conditions": said.status["conditions"]}
        assert said.reasons == ["ConnectorCreated"] * has_joined

    return check


@pytest.mark.parametrize(("spec", "secrets", "shown"), SHOWN.values(), ids=SHOWN)
def test_the_status_of_a_connector_shows_its_role_and_its_present_devices_ordered_by_replica(
    spec: Object, secrets: list[Object], shown: Object
) -> None:
    observed = seen(*secrets)
    made = plan(live_connector(spec, generation=7) | {"status": GONE}, observed)
    shows(spec, shown)(said_by(made))
    assert (made.hold, condition_of(made)["observedGeneration"]) == (FINALIZER, 7)
    assert [*made.notes] in ([], [Note("Normal", "ConnectorCreated", JOINED, once=True)])
    assert plan(live_connector(spec) | {"status": made.status}, observed).notes == []


@pytest.mark.parametrize(("key", "words"), [("new-authkey", "A new auth key has been given"), ("", "within 30 s")])
def test_a_connector_with_a_replica_that_logs_in_again_is_not_ready_and_names_the_replica(key: str, words: str) -> None:
    observed = seen(secret(0, device_id="n0"), secret(1, device_id="n1", reissue_authkey=""))
    status, reason, message = ready(plan(live_connector({**EXIT, "replicas": 2}), observed, Keys({1: key})))
    assert (status, reason) == ("False", "ConnectorCreating")
    assert message.startswith("replica 1 could not log in")
    assert words in message


def test_a_connector_reports_findings_about_its_devices_in_its_condition_and_by_events() -> None:
    news = [DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)]
    made = plan(live_connector(EXIT), seen(tailnet=TailnetView(news=news)))
    assert ready(made) == ("False", "ConnectorCreationFailed", "not permitted")
    assert (reasons_of(made), made.requeue_after) == (["TagsRefused"], 60)


GONE_TAILNET = "there is no Tailnet 'other': create it, with credentials for the tailnet"
UNUSABLE = TailnetView("other", refusal=Refusal(GONE_TAILNET))
UNTRIED = TailnetView("other", pending=ValueError("waiting"))


class Bad(NamedTuple):
    """A Connector whose proxies can't be made, with the reason and words of its condition and its Event."""

    spec: Object
    words: str
    reason: str = "ConnectorInvalid"
    observed: Observed = NOTHING
    name: str = "router"

    def check(self, said: Said) -> None:
        status, reason, message = said.ready()
        assert (status, reason, self.words in message) == ("False", self.reason, True), message
        assert (said.reasons, said.makes) == ([reason], False)


def long(length: int, words: str, **spec: object) -> Bad:
    """Return a `Bad` for an exit node with *spec* and with a name of *length* characters.

    The message of its condition must contain *words*.
    """
    return Bad({**EXIT, **spec}, words, name="a" * length)


BAD = {
    "no role": Bad({}, "it connects nothing: set subnetRouter, exitNode or appConnector"),
    "no exit node": Bad(NO_EXIT, "it connects nothing"),
    "app connector and exit node": Bad(APP | EXIT, "an app connector can't be"),
    "app connector and router": Bad(APP | ROUTER, "an app connector can't be"),
    "one hostname for two": Bad({**EXIT, "hostname": "gate", "replicas": 2}, "use hostnamePrefix instead of hostname"),
    "two hostnames": Bad({**EXIT, "hostname": "gate", "hostnamePrefix": "ts"}, "hostname and hostnamePrefix excl"),
    "bad routes": Bad({"subnetRouter": {"advertiseRoutes": ["1.2.3.4/5", "x"]}}, 'write 0.0.0.0/5; "x" is not a'),
    "bad route of an app": Bad({"appConnector": {"routes": ["1.2.3.4/5"]}}, "write 0.0.0.0/5"),
    "a default route": Bad({"subnetRouter": {"advertiseRoutes": ["0.0.0.0/0"]}}, "set exitNode to true"),
    "not parsed": Bad({"replicas": "many"}, "this Connector is invalid: s"),
    "long name": long(64, "its name must have at most 63 characters, not 64: make it anew with", hostname="gate"),
    "long hostname": long(54, f"its hostname {'a' * 54}-connector must have at most 63 characters, not 64: set spec."),
    "long hostname of one": long(54, "not 64: set spec.hostname"),
    "long hostnames": long(54, "not 64: set spec.hostnamePrefix", replicas=2),
    "long prefix": long(9, f"its last hostname {'p' * 61}-10 must have at", hostnamePrefix="p" * 61, replicas=11),
    "long prefix of none": long(9, "not 64: shorten spec.hostnamePrefix", hostnamePrefix="p" * 62, replicas=0),
    "no class": Bad(CLASS, "ProxyClass 'prod' does not exist", "ConnectorCreationFailed"),
    "no Tailnet": Bad(OTHER, GONE_TAILNET, "ConnectorCreationFailed", seen(tailnet=UNUSABLE)),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("before", [None, {**ZEROS, "isExitNode": True, "devices": [{"hostname": "a"}]}])
def test_a_connector_reports_why_its_proxies_cannot_be_made_and_its_children_do_not_change(
    bad: Bad, before: Object | None
) -> None:
    made = plan(live_connector(bad.spec, name=bad.name) | ({"status": before} if before else {}), bad.observed)
    bad.check(said_by(made))
    assert made == Plan(status=made.status, notes=[Note("Warning", *ready(made)[1:])])
    assert status_of(made) == {**(before or ZEROS), "conditions": status_of(made)["conditions"]}


@pytest.mark.virtual_time
async def test_a_connector_on_a_cluster_has_the_status_and_the_events_of_its_plan() -> None:
    shown = {
        name: Row(live_connector(spec), shows(spec, rest), secrets) for name, (spec, secrets, rest) in SHOWN.items()
    }
    await play(shown | {name: Row(live_connector(bad.spec, name=bad.name), bad.check) for name, bad in BAD.items()})


@pytest.mark.parametrize(
    "longest",
    [
        long(63, "", hostname="gate"),
        long(53, "", replicas=2),
        long(54, "", hostnamePrefix="gate"),
        long(9, "", hostnamePrefix="p" * 61, replicas=10),
    ],
)
def test_a_connector_with_the_longest_allowed_names_gets_its_proxies(longest: Bad) -> None:
    assert plan(live_connector(longest.spec, name=longest.name)).steps


def test_a_connector_waits_without_an_event_until_its_class_is_ready() -> None:
    made = plan(live_connector(CLASS), seen(proxy_class=live_proxy_class("prod")))
    status, reason, message = ready(made)
    assert (status, reason, "'prod'" in message) == ("False", "ConnectorCreating", True)
    assert made == Plan(status=made.status, notes=[])


KEYS = Keys(awaited=frozenset({0}), pending=ValueError("waiting"))
CHANGING = live_proxy_class("prod", ready=True, generation=2)  # the operator is still checking it


@pytest.mark.parametrize(
    ("obj", "observed", "keys", "waits"),
    [
        (live_connector(CLASS), seen(proxy_class=CHANGING), NO_KEYS, Plan(whole=False)),
        (live_connector(OTHER), seen(joined(0), tailnet=UNTRIED), NO_KEYS, Plan(error=UNTRIED.pending)),
        (live_connector(EXIT), NOTHING, KEYS, Plan(error=KEYS.pending)),
        (deleting(live_connector()), NOTHING, NO_KEYS, Plan()),
    ],
    ids=["class", "credentials", "auth keys", "the garbage collector"],
)
def test_nothing_is_written_for_a_connector_that_waits(
    obj: Object, observed: Observed, keys: Keys, waits: Plan
) -> None:
    assert plan(obj, observed, keys) == waits


WAITS = "its devices can't be deleted until the operator has tried the credentials of Tailnet 'other'; if the"


@pytest.mark.parametrize(
    ("live", "observed", "devices", "words", "events"),
    [
        (live_connector(), seen(joined(0), joined(1)), ["n0", "n1"], "", []),
        (held(live_connector()), seen(joined(0), joined(1)), ["n0", "n1"], "", []),
        (held(live_connector(OTHER)), seen(joined(0), tailnet=UNUSABLE), ["n0"], "", []),
        (held(live_connector(OTHER)), seen(joined(0), tailnet=UNTRIED), ["n0"], WAITS, ["ConnectorCreationFailed"]),
        (held(live_connector(OTHER)), seen(secret(0), tailnet=UNTRIED), [], "", []),
    ],
    ids=["finalizer taken off", "held", "in an unusable tailnet", "in an untried tailnet", "without a device"],
)
def test_a_deleted_connector_is_released_after_its_devices_are_deleted(
    live: Object, observed: Observed, devices: list[str], words: str, events: Sequence[str]
) -> None:
    made = plan(deleting(live), observed)
    assert (deleted_devices(made), made.release, reasons_of(made)) == (devices, FINALIZER, events)
    assert ready(made)[2].startswith(words) if words else made.status is None


FIELDS = {
    "subnetRouter": st.none() | st.fixed_dictionaries({"advertiseRoutes": st.lists(st.text(max_size=20))}),
    "appConnector": st.none() | st.just({}),
    "exitNode": st.booleans() | st.text(),
    "hostname": st.text(max_size=5),
    "replicas": st.integers(-1, 3),
    "proxyClass": st.text(max_size=3),
}


@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_the_operator_can_make_a_plan_for_a_connector_with_any_spec(spec: Object) -> None:
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
def test_an_event_names_an_ineffective_annotation_or_label_of_a_connector(given: str, key: str, cure: str) -> None:
    marked = live_connector(EXIT)
    marked["metadata"][given] = {f"tailscale.com/{key}": "x"}
    for obj in (marked, {**marked, "spec": {}}):
        (told,) = (note for note in plan(obj).notes if note.reason.startswith("Ignored"))
        assert (told.type, told.once, told.message.endswith(cure)) == ("Warning", True, True)
    assert not plan(deleting(marked)).notes
