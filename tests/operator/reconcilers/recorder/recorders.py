"""Builders of Recorders and of their children, as the cache has them, for the tests of plans."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tsoperator.api.device import Device
from tsoperator.api.objects import RECORDER, STATEFULSET, Key, Object
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.recorder import plan
from tsoperator.reconcilers.recorder.ask import parse
from tsoperator.reconcilers.recorder.plan import Observed
from tsoperator.runtime.ownership import Owner, owner_reference
from tsoperator.runtime.plan import Plan
from tsoperator.settings import Settings

from tests.support.objects import children_of, obj, pod, settings, slim_secret, stored

SETTINGS = settings(recorder_image="tailscale/tsrecorder:v1.102.5")
NOTHING = Observed(Children())
OWNER = Owner("recorder", Key("", "rec"))
OWNED = {"ownerReferences": [owner_reference(RECORDER, "rec", "rec-uid")]}
UI: Object = {"enableUI": True}
S3: Object = {
    "storage": {
        "s3": {
            "endpoint": "s3.eu-central-1.amazonaws.com",
            "bucket": "sessions",
            "credentials": {"secret": {"name": "s3-keys"}},
        }
    }
}


def live_recorder(spec: Object | None = None, *, name: str = "rec", **metadata: Any) -> Object:
    """Return a Recorder with a UI, unless *spec* says otherwise."""
    return obj(RECORDER, Key("", name), {"spec": UI if spec is None else spec}, **{"generation": 1, **metadata})


def plan_of(recorder: Object, observed: Observed = NOTHING, of: Settings = SETTINGS, **given: Any) -> Plan:
    """Return the plan for *recorder*. Each of *given* is another argument of `plan.plan`, such as ``keys``."""
    ask = parse(recorder, of)
    return plan.plan(ask, plan.wanted(ask, observed, of), observed, of, **given)


def made(recorder: Object, observed: Observed = NOTHING, of: Settings = SETTINGS) -> dict[tuple[str, str], Object]:
    """Return the children that are written for *recorder*, by kind and name."""
    found = children_of(plan_of(recorder, observed, of))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def statefulset_of(spec: Object, **status: int) -> Object:
    """Return the stored StatefulSet of a Recorder with *spec*. Its *status* has these counts of Pods."""
    found = made(live_recorder(spec))[(STATEFULSET.kind, "rec")]
    return {**stored(found, generation=1), "status": {"observedGeneration": 1, **status}}


def owned(child: Object) -> Object:
    """Return *child* with the owner reference to the Recorder."""
    return {**child, "metadata": {**child["metadata"], **OWNED}}


def secrets(ordinal: int, state: Mapping[str, str | Object] | None = None, auth_key: str = "old") -> list[Object]:
    """Return the state Secret with *state* and the auth Secret with *auth_key* of a replica, as the cache has them."""
    made = [
        slim_secret(f"rec-{ordinal}", state or {}, OWNER.labels),
        slim_secret(f"rec-auth-{ordinal}", {"authkey": auth_key}, OWNER.labels),
    ]
    return [owned(each) for each in made]


def profile(ordinal: int, login_name: str = "") -> Object:
    """Return the state of a replica that has logged in.

    *login_name* is in the user profile. If it is empty, the name follows from *ordinal*.
    """
    name = login_name or f"test-{ordinal}.example.ts.net"
    config = {"NodeID": f"node-{ordinal}", "UserProfile": {"LoginName": name}}
    return {
        "_current-profile": "profile-abc",
        "profile-abc": {"ControlURL": "https://controlplane.tailscale.com", "Config": config},
    }


def device(ordinal: int) -> Device:
    """Return the device of a replica as the control server lists it."""
    return Device(
        f"node-{ordinal}", f"test-{ordinal}.example.ts.net", f"rec-{ordinal}", (f"100.64.0.{ordinal}",), ("tag:k8s",)
    )


def joined(*ordinals: int, listed: bool = True) -> Observed:
    """Return the facts about replicas with these *ordinals* that have joined the tailnet.

    If *listed* is false, the operator hasn't read the list of devices yet.
    """
    children = Children(
        secrets=[each for ordinal in ordinals for each in secrets(ordinal, profile(ordinal))],
        pods=[pod(f"rec-{ordinal}", f"p{ordinal}") for ordinal in ordinals],
    )
    devices = {f"node-{ordinal}": device(ordinal) for ordinal in ordinals} if listed else {}
    return replace(NOTHING, children=children, tailnet=TailnetView(devices=devices, is_listed=listed))
