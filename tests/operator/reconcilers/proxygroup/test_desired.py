"""What a ProxyGroup of type egress needs."""

from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object
from tsoperator.desired.devices import TailnetView
from tsoperator.desired.login import Keys
from tsoperator.desired.plan import Plan, write_for
from tsoperator.desired.proxy import Children
from tsoperator.reconcilers.proxygroup.desired import Observed

from tests.operator.desired.recordings import recorded
from tests.operator.reconcilers.proxygroup.groups import (
    OWNED,
    OWNER,
    live_group,
    names,
    plan_of,
)
from tests.support.objects import (
    children_of,
    patches_of,
    pod,
    settings,
    slim_secret,
    status_of,
)

NOTHING = Observed(Children())


def child(made: Plan, kind: str) -> Object:
    (found,) = [each for each in children_of(made) if each["kind"] == kind]
    return found


def ready(made: Plan) -> tuple[str, str, str]:
    """The status, the reason and the message of the condition ProxyGroupReady."""
    found = next(each for each in status_of(made)["conditions"] if each["type"] == "ProxyGroupReady")
    return found["status"], found["reason"], found["message"]


def test_a_new_group_gets_its_account_before_its_secrets_and_its_pods_last() -> None:
    made = plan_of(live_group(), NOTHING, keys=Keys({0: "first", 1: "second"}))
    assert made.hold == FINALIZER
    assert names(children_of(made)) == [
        "ServiceAccount foo",
        "Role foo",
        "RoleBinding foo",
        *("Secret foo-0-config", "Secret foo-0", "Secret foo-1-config", "Secret foo-1"),
        "ConfigMap foo-egress-config",
        "StatefulSet foo",
    ]
    labels = {**OWNER.labels, "tailscale.com/secret-type": None}
    for each in children_of(made):
        assert each["metadata"]["labels"].items() <= {**labels, **each["metadata"]["labels"]}.items()
        assert each["metadata"]["ownerReferences"] == OWNED["ownerReferences"]


def recorded_group() -> tuple[dict[str, Object], Observed]:
    """What the Go operator made for a group of one replica, and how it looks in the cache."""
    made = recorded("group")
    slim = [
        slim_secret(key, made[name]["data"], made[name]["metadata"]["labels"])
        for key, name in (("one-0", "state"), ("one-0-config", "config"))
    ]
    found = [
        {**each, "metadata": {**each["metadata"], "ownerReferences": made[name]["metadata"]["ownerReferences"]}}
        for each, name in zip(slim, ("state", "config"), strict=True)
    ]
    children = Children(statefulsets=[made["statefulset"]], secrets=found, pods=[pod("one-0", "pod-uid")])
    return made, Observed(children, tailnet=TailnetView(login_url="https://headscale.example.org"))


def test_what_the_go_operator_made_is_only_marked() -> None:
    made, observed = recorded_group()
    of = settings(proxy_image="tailscale/tailscale:stable", firewall_mode="auto")
    plan = plan_of(live_group({"replicas": 1}, name="one"), observed, of)
    assert not patches_of(plan)
    for each in children_of(plan):
        live = made.get(each["kind"].lower())
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding", "StatefulSet"):
            written = write_for(each, live)
            assert live is not None
            assert written is not None
            assert {**written, "metadata": live["metadata"]} == live
