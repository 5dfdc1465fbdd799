"""The type of an example: one kind that the operator reconciles, with the facts that the tests of the contract need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Key, Object, Resource, key_of, resource_of

from tests.support.manifests import proxy_class


class Edit(NamedTuple):
    """A merge patch, and words that the portrait of the world shows as soon as the patch has taken effect.

    The same Pods go on running unless the patch *restarts* them. The devices stay in any case.
    """

    patch: Object
    shows: str
    restarts: bool = False


class Bad(NamedTuple):
    """A merge patch that makes an object invalid. The condition then has this *reason*, and its message has *words*.

    An Event with the reason *event* also has these words. If *event* is empty, there is no Event. *is_simulated* is
    true if only a simulated API server accepts the patch, because a real one refuses it by the rules of the CRD.
    """

    patch: Object
    reason: str
    words: str
    event: str = ""
    is_simulated: bool = False


@dataclass(frozen=True, slots=True)
class KindExample:
    """A kind, an object of this kind, and the children and writes that the operator makes for the object.

    Each example has a name that occurs nowhere else, so that a test finds the leftovers by that name.
    """

    manifest: Object
    is_ready: Callable[[Object], bool]
    """A function that tells from the object whether the operator has made everything for it."""
    beside: Sequence[Object] = ()
    """The other objects that the object needs, such as a backend or a ProxyClass."""
    children: Mapping[Resource, Sequence[Object]] = field(default_factory=dict)
    """A map from each kind of child to merge patches for such a child. The operator has to undo each patch."""
    child_name: Callable[[Object, Resource], str] = lambda obj, resource: ""
    """A function that returns the name of the first child of a kind, given the stored object and this kind."""
    early: Resource | None = None
    """The kind of a child that the operator makes even for an invalid object."""
    filler: Key | None = None
    """The Pod that writes a certificate into the child Secret when the Pod starts. Then it checks the Secret daily."""
    shared: Sequence[tuple[Resource, Key]] = ()
    """The objects of other owners into which the operator writes. When the example is gone, they are as before."""
    devices: int = 0
    """The number of devices that the object has in the tailnet."""
    edits: Mapping[str, Edit] = field(default_factory=dict)
    bad: Mapping[str, Bad] = field(default_factory=dict)
    is_collected: bool = False
    """True if Kubernetes deletes the Secrets with the object. If the object goes without waiting for our finalizer,
    the operator can't find its devices any more."""
    keeps_others_labels: bool = False
    """True if the operator doesn't restore the labels of a child that has got the labels of another object's child."""
    is_labelled: bool = True
    """True if the children have labels, by which the operator finds them."""
    is_held: bool = True
    """True if our finalizer holds the object until its children are gone."""
    waits_for_minutes: bool = False
    """True if the object is complete only after minutes, so that its tests need virtual time."""
    finalizer: str = FINALIZER
    other_finalizer: str = ""
    """A second finalizer of ours; empty if there is none."""
    failed: str = ""
    """The reason in the condition when a server refuses a write; empty if the operator writes only the status."""
    making: frozenset[str] = frozenset()
    """All writes, as ``verb plural``, from the creation of the object until each edit has taken effect."""
    ending: frozenset[str] = frozenset()
    """All writes, as ``verb plural``, from the deletion of the object until it is gone."""

    @property
    def name(self) -> str:
        return key_of(self.manifest).name

    @property
    def resource(self) -> Resource:
        return resource_of(self.manifest)

    def __str__(self) -> str:
        return self.name


def has_reason(kind: str, reason: str) -> Callable[[Object], bool]:

    def holds(obj: Object) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any((each["type"], each["reason"]) == (kind, reason) for each in conditions)

    return holds


def is_balanced(obj: Object) -> bool:
    return bool((obj.get("status") or {}).get("loadBalancer", {}).get("ingress"))


def spec(**fields: Any) -> Object:
    return {"spec": fields}


def crd(patch: Object, reason: str, words: str) -> Bad:
    """Return a `Bad` whose patch a real API server refuses by the rules of the CRD."""
    return Bad(patch, reason, words, event=reason, is_simulated=True)


def writes(verb: str, *plurals: str) -> frozenset[str]:
    return frozenset(f"{verb} {plural}" for plural in plurals)


OTHER_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "tailscale", "image": "example.org/other:1"}]}}}}
METERED = proxy_class("metered", metrics={"enable": True})
MAKING = writes("create", "secrets", "services", "statefulsets") | {"patch secrets"}
TOUCH = frozenset({"patch pods"})  # when the config of a running proxy is edited
ENDING = writes("delete", "secrets", "services", "statefulsets")
