"""Makes the serve config of the proxy that an Ingress has, and Events about the Ingress's hosts and names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.objects import Object
from tsoperator.proxy.paths import ingress_paths
from tsoperator.proxy.serve import web_config
from tsoperator.reconcilers.ingress.ask import Ask
from tsoperator.runtime.plan import Note
from tsoperator.runtime.success import device_words

_HTTPS: Final = 443


@dataclass(frozen=True, slots=True)
class Serving:
    """The serve config of an Ingress, and Events about the parts of its rules that have no effect.

    The serve config is None if the Ingress has no usable backend.
    """

    config: Object | None
    notes: tuple[Note, ...]


def serving(ask: Ask, services: Mapping[str, Object]) -> Serving:
    """Return the serve config of an Ingress, given the *services* of its namespace by name."""
    found = ingress_paths(ask.ingress, services, lambda host: "" if host == ask.host else _other_host(ask, host))
    config = web_config(found.origins, redirects=ask.redirects, funnels=ask.funnels) if found.origins else None
    return Serving(config, (*_ignored_hosts(ask), *secret_notes(ask), *found.notes))


def _other_host(ask: Ask, host: str) -> str:
    """Return the end of a message: why the proxy of an Ingress doesn't serve a rule for *host*, and what to do."""
    if name := ask.host:
        return (
            f": a proxy has one name, that of spec.tls[0].hosts[0], {name!r}; make an Ingress of its own for each "
            "further host, or remove rules[].host"
        )
    return f", because spec.tls names no host: write {host} in spec.tls[0].hosts[0], or remove rules[].host"


def _ignored_hosts(ask: Ask) -> Iterator[Note]:
    """Yield an Event if spec.tls has hosts that have no effect."""
    entries = ask.ingress["spec"].get("tls") or ()
    hosts = [host for entry in entries for host in entry.get("hosts") or ()]
    if unused := list(dict.fromkeys(host for host in hosts if host != ask.host)):
        cure = "make an Ingress of its own for each further host" if ask.host else "write the host there"
        message = (
            f"hosts {', '.join(unused)} of spec.tls are ignored: a proxy has one name, that of spec.tls[0].hosts[0]; "
            f"{cure}"
        )
        yield Note("Warning", "IgnoredTLSHosts", message)


def reached_notes(ask: Ask, status: Object | None, addresses: Sequence[str]) -> list[Note]:
    """Return the Event that tells the name and addresses by which the tailnet reaches an Ingress.

    Return it until the status of the Ingress shows that name. *status* is the desired status, None if the live one
    stays. *addresses* are the addresses of the name in that status.
    """
    entries = ((status or {}).get("loadBalancer") or {}).get("ingress") or ()
    if not entries or entries[0]["hostname"] == ask.shown_name:
        return []
    scheme = "https" if any(port["port"] == _HTTPS for port in entries[0]["ports"]) else "http"
    words = device_words([(f"{scheme}://{entries[0]['hostname']}", addresses)])
    return [Note("Normal", "IngressReachable", f"the tailnet reaches it at {words}", once=True)]


def secret_notes(ask: Ask) -> list[Note]:
    """Return an Event if an Ingress names Secrets with certificates, which have no effect."""
    entries = ask.ingress["spec"].get("tls") or ()
    secrets = list(dict.fromkeys(entry["secretName"] for entry in entries if entry.get("secretName")))
    if not secrets:
        return []
    message = (
        f"secretName {', '.join(secrets)} of spec.tls is ignored: the proxy has the certificate of its MagicDNS "
        "name, which it gets by itself; remove secretName"
    )
    return [Note("Warning", "IgnoredTLSSecret", message)]


def renamed_notes(ask: Ask, served: str) -> list[Note]:
    """Return an Event if an Ingress is *served* under another name than its host; none if *served* is empty."""
    host = ask.host
    if not served or "." not in host or host == served:
        return []
    message = (
        f"host {host} of spec.tls is served as {served}: names of the tailnet have its domain; its certificate is of "
        f"that name, so write {host.partition('.')[0]} to say so"
    )
    return [Note("Warning", "IgnoredTLSHosts", message)]
