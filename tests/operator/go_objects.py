"""The objects that the Go operator 1.102.5 makes: those in proxy/recorded/, adapted to other parents."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object, key_of, uid

IMAGE = "tailscale/tailscale:stable"
SYSCTL_OF_1_103 = (
    "echo 1 > /proc/sys/net/ipv4/ip_forward && if [ -e /proc/sys/net/ipv6/conf/all/forwarding ]; "
    "then echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; fi"
)
"""The init script of the Go operator 1.103, of which there are no recordings."""

_FOLDER = Path(__file__).parent / "proxy" / "recorded"
_GIVEN_BY_THE_API_SERVER = ("uid", "resourceVersion")
_ALLOCATED = ("clusterIPs", "ipFamilies")


class Recording(NamedTuple):
    """A recorded proxy: its file, and the names in it that are replaced for the test's parent."""

    file: str
    parent: str
    uid: str


EGRESS = Recording("egress", "egress-fqdn", "bc7aab4c-406d-445d-93a9-ca0e7066a1c9")
EXPOSED = Recording("exposed", "lb", "6c0cbf7a-1704-4fd2-98af-d98de2954946")
INGRESS = Recording("ingress", "nginx", "91d5c039-db6d-4d4c-bd89-8460407abcc8")
CONNECTOR = Recording("connector", "router", "router-uid")
_NAMESERVER = Recording("nameserver", "ts-dns", "dnsconfig-uid")
_ADDRESS = "192.0.2.105"  # the address of the Services to which the recorded proxies lead


def proxy(
    parent: Object, recording: Recording, server: str, keys: Mapping[str, str], address: str = _ADDRESS
) -> list[Object]:
    """Return the headless Service, the Secrets and the StatefulSet of *parent*, whose replicas have yet to log in.

    *keys* are the auth keys of the replicas by hostname. The replicas log in to the control server at *server*, and
    lead to *address*.
    """
    found = _recorded(parent, recording, address)
    secrets = [
        _secret(_replica(found["secret"], ordinal), hostname, server, key)
        for ordinal, (hostname, key) in enumerate(keys.items())
    ]
    statefulset = found["statefulset"]
    statefulset["spec"]["replicas"] = len(keys)
    pod = statefulset["spec"]["template"]["spec"]
    for lists, name in ((pod["containers"][0], "volumeMounts"), (pod, "volumes")):
        lists[name] = [_replica(each, ordinal) for ordinal in range(len(keys)) for each in lists[name]]
    return [found["service"], *secrets, statefulset]


def grouped(parent: Object, group: str) -> Object:
    """Return the Service through which an egress Service reaches the proxies of its ProxyGroup."""
    service = _recorded(parent, EGRESS)["service"]
    service["metadata"]["labels"] |= {"tailscale.com/proxy-group": group, "tailscale.com/svc-type": "egress"}
    ports = [
        {"name": "tailscale-unnamed", "protocol": "TCP", "port": 5432, "targetPort": 10437},
        {"name": "tailscale-health-check", "protocol": "TCP", "port": 9002, "targetPort": 9002},
    ]
    return service | {"spec": {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ports": ports}}


def certificate(parent: Object, group: str, domain: str) -> Object:
    """Return the Secret with the certificate of an Ingress that a ProxyGroup serves."""
    more = {"tailscale.com/proxy-group": group, "tailscale.com/domain": domain, "tailscale.com/secret-type": "certs"}
    labels = _recorded(parent, INGRESS)["secret"]["metadata"]["labels"] | more
    metadata = {"namespace": "tailscale", "name": domain, "labels": labels}
    data = {"tls.crt": "", "tls.key": ""}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}


def nameserver(dnsconfig: Object, document: str) -> list[Object]:
    """Return the nameserver's objects, among them the ConfigMap with a *document* of records."""
    objects = [*_recorded(dnsconfig, _NAMESERVER).values()]
    metadata = {**objects[-1]["metadata"], "name": "dnsrecords"}
    configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"records.json": document}}
    return [configmap, *objects]


def held(parent: Object) -> Object:
    """Return the patch by which the Go operator puts its finalizer on *parent*.

    The finalizer keeps the parent until its proxy is gone.
    """
    return {"metadata": {"finalizers": [*parent["metadata"].get("finalizers", ()), FINALIZER]}}


def _recorded(parent: Object, recording: Recording, address: str = _ADDRESS) -> dict[str, Object]:
    key = key_of(parent)
    words = {
        recording.uid: uid(parent),
        f"ts-{recording.parent}-": f"ts-{key.name}-",
        f'"{recording.parent}"': f'"{key.name}"',
        '"side"': f'"{key.namespace}"',
        _ADDRESS: address,
    }
    pattern = re.compile("|".join(map(re.escape, words)))
    text = (_FOLDER / f"{recording.file}.json").read_text()
    found: dict[str, Object] = json.loads(pattern.sub(lambda match: words[match[0]], text))
    found.pop("status", None)
    for obj in found.values():
        for name in _GIVEN_BY_THE_API_SERVER:
            del obj["metadata"][name]
        if obj["kind"] == "Service":
            kept = {name: value for name, value in obj["spec"].items() if name not in _ALLOCATED}
            obj["spec"] = {name: value for name, value in kept.items() if name != "clusterIP" or value == "None"}
    return found


def _replica(value: Object, ordinal: int) -> Object:
    """Return *value*, which is about the first replica, with the names of the replica with *ordinal*."""
    replica: Object = json.loads(re.sub(r'-0"', f'-{ordinal}"', json.dumps(value)))
    return replica


def _secret(recorded: Object, hostname: str, server: str, auth_key: str) -> Object:
    """Return a *recorded* Secret in the state before its proxy logs in: with its configs and serve config only."""
    given = {"Hostname": hostname, "ServerURL": server, "AuthKey": auth_key}
    files = {name: value for name, value in recorded["data"].items() if isinstance(value, dict)}
    files = {name: value | given if name.startswith("cap-") else value for name, value in files.items()}
    return recorded | {"data": {name: b64encode(json.dumps(file).encode()).decode() for name, file in files.items()}}
