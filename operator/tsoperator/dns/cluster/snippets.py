"""The stub domain as a text to paste, for users who configure the cluster's DNS themselves.

A comment says where the text belongs. The operator doesn't treat a pasted stub domain as its own, so it never changes
or removes the pasted text.
"""

import json
from textwrap import indent

from tsoperator.dns.cluster.platforms import CUSTOM_KEY, Platform, PlatformKind
from tsoperator.dns.cluster.results import StubDomain
from tsoperator.dns.cluster.serverblock import server_block


def snippet(platform: Platform, stub: StubDomain) -> str:
    """Return the stub domain in the format of *platform*. A comment in the first line says where to paste it."""
    match platform.kind:
        case PlatformKind.CORE_DNS:
            return f"# {platform.where}: add these lines at the end.\n{server_block(stub, platform.at)}\n"
        case PlatformKind.CORE_DNS_CUSTOM:
            block = indent(server_block(stub, platform.at), " " * 4)
            head = _configmap_head(platform)
            return f"# {platform.where}: apply this; it leaves other keys alone.\n{head}  {CUSTOM_KEY}: |\n{block}\n"
        case PlatformKind.KUBE_DNS:
            zones = json.dumps({zone: [*stub.addresses] for zone in stub.zones})
            return f"# {platform.where}: add this, or its entries to those that are there.\n{zones}\n"
        case PlatformKind.OPENSHIFT:
            return (
                f"# {platform.where}: add this to the list.\n"
                f"- name: tailnet\n  zones: {json.dumps(stub.zones)}\n"
                f"  forwardPlugin:\n    upstreams: {json.dumps(stub.addresses)}\n"
            )


def _configmap_head(platform: Platform) -> str:
    namespace, name = platform.key
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\ndata:\n"
