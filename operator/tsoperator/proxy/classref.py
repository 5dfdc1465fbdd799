"""Reads the ProxyClass that the parent of a proxy names, or says why the class can't be used."""

from typing import Final

from tsoperator.api.conditions import TRUE, conditions_of
from tsoperator.api.names import CONDITION_PROXYCLASS_READY, PROXY_CLASS
from tsoperator.api.objects import Object, annotations, generation_of, labels
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass, ProxyClassSpec
from tsoperator.runtime.plan import Refusal

UNSET_DEFAULT: Final = "unset the operator's PROXY_DEFAULT_CLASS"
"""The advice to the user if the default class does not exist."""


def class_name(parent: Object, default: str) -> str:
    """Return the name of the ProxyClass for *parent*; empty if it has none.

    The operator takes the name in a label of the parent, or else the one in an annotation, or else *default*.
    """
    for given in (labels(parent), annotations(parent)):
        if PROXY_CLASS in given:
            return given[PROXY_CLASS]
    return default


def chosen_class(parent: Object, proxy_class: Object | None, default: str) -> ProxyClassSpec | Refusal | None:
    """Return the spec of the ProxyClass for *parent*; None if it has none; a refusal if the class can't be used yet.

    *proxy_class* is the object of that class; None if it doesn't exist. *default* is the name of the default class.
    """
    named = any(PROXY_CLASS in given for given in (labels(parent), annotations(parent)))
    other = f"remove {PROXY_CLASS} from this object" if named else UNSET_DEFAULT
    return class_called(class_name(parent, default), proxy_class, other)


def class_called(name: str, proxy_class: Object | None, other: str) -> ProxyClassSpec | Refusal | None:
    """Return the spec of the class called *name*; None if *name* is empty; a refusal if the class can't be used yet.

    *proxy_class* is the object of that name. If it is None, the message advises the user to create it, or to do what
    *other* says. The refusal is passing if the class was valid before its last change, and its new generation hasn't
    been checked yet.
    """
    if not name:
        return None
    if proxy_class is None:
        return Refusal(f"ProxyClass {name!r} does not exist: create it, or {other}", "ProxyFailed")
    if is_ready(proxy_class):
        parsed = ProxyClass.parse(proxy_class)
        if not isinstance(parsed, Invalid):
            return parsed.spec
    return Refusal(
        f"waiting for ProxyClass {name!r}, which is not ready: see the {CONDITION_PROXYCLASS_READY} condition in its "
        "status; a proxy that runs stays as it is",
        "ProxyPending",
        is_passing=_is_changing(proxy_class),
    )


def is_ready(proxy_class: Object | None) -> bool:
    """Tell whether the condition of *proxy_class* says that its current generation is valid; False if it is None."""
    return proxy_class is not None and _found_valid(proxy_class) == generation_of(proxy_class)


def accepts_routes(spec: ProxyClassSpec | None) -> bool:
    """Tell whether proxies with this class use the routes that other devices advertise."""
    return spec is not None and spec.tailscale is not None and spec.tailscale.accept_routes


def _is_changing(proxy_class: Object) -> bool:
    """Tell whether an earlier generation of the class was found valid, and the current one hasn't been checked yet."""
    return _found_valid(proxy_class) not in (None, generation_of(proxy_class))


def _found_valid(proxy_class: Object) -> int | None:
    """Return the generation of the class that its condition calls valid; None if the condition doesn't say that."""
    for condition in conditions_of(proxy_class):
        if condition["type"] == CONDITION_PROXYCLASS_READY and condition["status"] == TRUE:
            return int(condition.get("observedGeneration", 0))
    return None
