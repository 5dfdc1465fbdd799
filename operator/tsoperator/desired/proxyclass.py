"""Which ProxyClass a Service or an Ingress names, and whether it can be used."""

from dataclasses import dataclass

from tsoperator.api.names import PROXY_CLASS
from tsoperator.api.objects import Object, annotations, labels


@dataclass(frozen=True, slots=True)
class ClassProblem:
    """Why a proxy can't be made as its ProxyClass says."""

    reason: str
    message: str


def class_name(parent: Object, default: str) -> str:
    """Return the ProxyClass that *parent* names: its label, else its annotation, else *default*; named empty, none."""
    for given in (labels(parent), annotations(parent)):
        if PROXY_CLASS in given:
            return given[PROXY_CLASS]
    return default


def class_problem(parent: Object, proxy_class: Object | None, default: str) -> ClassProblem | None:
    """Say why *parent* can't have its proxy yet; *proxy_class* is the object of the class that it names, if there is
    one.
    """
    name = class_name(parent, default)
    if not name:
        return None
    if proxy_class is None:
        return ClassProblem(
            "ProxyFailed", f"ProxyClass {name!r} does not exist: create it, or remove {PROXY_CLASS} from this object"
        )
    return ClassProblem(
        "ProxyPending",
        f"ProxyClass {name!r} can't be applied by this version of the operator: remove {PROXY_CLASS} to get a proxy "
        "without it; a proxy that runs stays as it is",
    )
