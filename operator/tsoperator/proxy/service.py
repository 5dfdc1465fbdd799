"""The headless Service in front of a proxy."""

from tsoperator.api.names import ANNOTATION_LAST_CLUSTER_IP, ANNOTATION_MAGIC_DNSNAME, DNS_FINALIZER, LABEL_APP
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.runtime.ownership import Owner


def headless_service(key: Key, owner: Owner, parent_uid: str, magic_dns_name: str, cluster_ip: str = "") -> Object:
    """Return the Service whose endpoints are the proxy's Pods.

    With a *magic_dns_name*, the Service has the annotation and the finalizer by which the Go operator tracks that name,
    so that they are right if a Go operator takes over. If the proxy forwards to a *cluster_ip*, another annotation
    stores that address, because the name in the cluster's DNS leads there.
    """
    metadata: Object = {"namespace": key.namespace, "name": key.name, "labels": owner.labels}
    if magic_dns_name:
        noted = {ANNOTATION_LAST_CLUSTER_IP: cluster_ip} if cluster_ip else {}
        metadata["annotations"] = {ANNOTATION_MAGIC_DNSNAME: magic_dns_name, **noted}
        metadata["finalizers"] = [DNS_FINALIZER]
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": metadata,
        "spec": {"clusterIP": "None", "selector": {LABEL_APP: parent_uid}, "ipFamilyPolicy": "PreferDualStack"},
    }
