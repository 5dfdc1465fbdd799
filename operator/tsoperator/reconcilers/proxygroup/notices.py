"""Events about settings of a ProxyGroup that have no effect."""

from dataclasses import replace

from tsoperator.api.objects import is_deleting, spec_of
from tsoperator.group.claims import KUBE_APISERVER
from tsoperator.proxy.annotations import with_ignored
from tsoperator.reconcilers.proxygroup.ask import Ask
from tsoperator.runtime.plan import Note, Plan


def with_notices(made: Plan, ask: Ask) -> Plan:
    """Return *made* with an Event for each annotation, label and field of a ProxyGroup that has no effect."""
    made = with_ignored(made, ask.group, ask.type.vocabulary)
    spec = spec_of(ask.group)
    if ask.type.offers_api or "kubeAPIServer" not in spec or is_deleting(ask.group):
        return made
    words = (
        f"spec.kubeAPIServer has no effect on a ProxyGroup of type {spec.get('type')}: remove it, or make another "
        f"ProxyGroup of type {KUBE_APISERVER}"
    )
    return replace(made, notes=[*made.notes, Note("Warning", "IgnoredField", words, once=True)])
