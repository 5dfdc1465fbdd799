"""The test that runs each documented command, or the reason why no test does.

A test runs a command if it runs the same words, or the same words with names of its own cluster. A command is on one
line, with single spaces and without comments. A very long command can end in ``…``.
"""

from collections.abc import Mapping
from typing import Final

WALK: Final = "tests/docs/test_walk.py::test_the_commands_on_a_page_of_the_docs_work_on_a_cluster"
"""The test that runs commands on a simulated cluster, after it has applied the manifests on their page."""
BED: Final = "tests/e2e/test_pages.py::test_a_documented_command_works_on_a_real_cluster"
"""The test that runs commands on the bed, because they need Pods with logs, or an operator in a Pod."""
_DEMO = (
    "tests/loadtest/clustersim/test_demo.py::test_in_the_demo_every_name_resolves_and_every_device_is_in_the_tailnet"
)
_IMAGES = "tests/e2e/test_images.py::test_the_labels_of_an_image_name_its_program"
_GATEWAY = (
    "tests/e2e/test_exposed.py::test_a_gateway_behind_a_load_balancer_serves_a_users_own_domain_with_its_certificate"
)
_ARCHIVE = (
    "tests/e2e/test_published.py::test_an_archive_of_images_has_the_images_under_the_names_that_the_chart_gives_them"
)
_VALUES = "tests/e2e/test_documented_values.py::test_the_operator_works_with_the_documented_values"
_HELM_TEST = "tests/e2e/test_install.py::test_helm_test_succeeds_if_every_replica_and_the_nameserver_are_healthy"
_UNINSTALL = "tests/e2e/test_uninstall.py::test_objects_stay_and_proxies_keep_running_after_the_operator_is_uninstalled"
_IMPORTED = "tests/e2e/test_without_registry.py::test_the_operator_runs_the_image_that_was_loaded_from_an_archive"
_LET_GO = "tests/e2e/test_uninstall.py::test_a_namespace_can_be_deleted_once_our_finalizers_are_removed_as_documented"
_OVERLAY = (
    "tests/charts/test_manifests.py::test_the_documented_overlay_makes_the_deployment_that_the_documented_values_make"
)
_REUSED = "tests/charts/test_chart.py::test_the_documented_upgrade_from_the_go_operators_chart_runs_our_images"
_BACK = "tests/e2e/test_upgrade.py::test_a_rollback_to_the_go_operator_changes_only_proxies_with_our_init_script"
_JOB = "tests/e2e/test_dnsload.py::test_the_documented_job_with_dnsload_finds_no_wrong_answer_of_the_clusters_dns"
_DNSLOAD = "tests/loadtest/dnsload/test_main.py::test_a_run_of_dnsload_prints_a_report_each_second_and_at_the_end"
_CHECK = "tests/e2e/test_check.py::test_the_command_check_finds_no_fault_in_a_healthy_cluster"
_LIST = "tests/e2e/test_check.py::test_the_commands_list_and_check_work_from_outside_of_the_cluster"
_INSIDE = (
    "tests/e2e/test_check.py::test_in_the_standby_the_command_list_fails_and_names_the_leading_pod_in_which_it_works"
)
_PAGE = "tests/e2e/test_check.py::test_the_documented_port_forward_leads_to_the_status_page_of_the_leading_pod"
_PREFLIGHT = "tests/e2e/test_pages.py::test_the_documented_command_shows_why_the_preflight_of_a_tailnet_failed"
_ONE_VALUE = "tests/e2e/test_cluster_dns.py::test_names_resolve_in_pods_as_long_as_the_value_dns_enabled_is_true"
_STANZA = "tests/e2e/test_nameserver.py::test_coredns_gives_the_same_answer_as_the_nameserver"
_USER = "tests/e2e/test_apiserver.py::test_the_api_server_knows_a_user_by_the_login_name_and_the_granted_groups"
_PLAIN = (
    "tests/e2e/test_apiserver.py::test_in_a_tailnet_without_certificates_users_reach_the_api_server_proxy_by_plain_http"
)

RUN_BY: Final[Mapping[str, str]] = {
    "make demo": _DEMO,
    "tailscale configure kubeconfig tailscale-operator": _USER,
    "kubectl auth whoami": _USER,
    "tailscale configure kubeconfig --http tailscale-operator": _PLAIN,
    "kubectl apply -f - <<END apiVersion: tailscale.com/v1alpha1 kind: DNSConfig …": WALK,
    "kubectl wait dnsconfig/ts-dns --for=condition=ClusterDNSReady --timeout=5m": _ONE_VALUE,
    "kubectl wait dnsconfig/ts-dns --for=condition=NameserverReady": WALK,
    "kubectl wait dnsconfig/ts-dns --for=condition=NameserverReady --timeout=2m": WALK,
    "kubectl get dnsconfig ts-dns -o jsonpath='{.status.clusterDNS.snippet}'": WALK,
    "ip=$(kubectl get dnsconfig ts-dns -o jsonpath='{.status.nameserver.ip}')": WALK,
    "domain=$(kubectl get dnsconfig ts-dns -o jsonpath='{.status.clusterDNS.zones[0]}')": WALK,
    'sed "s/TAILNET_DOMAIN/$domain/; s/NAMESERVER_IP/$ip/" coredns/coredns-custom.yaml | kubectl apply …': WALK,
    "kubectl -n kube-system rollout restart deployment coredns": WALK,
    "kubectl -n kube-system rollout status deployment coredns": WALK,
    "kubectl -n kube-system patch configmap coredns-custom --type=json -p …": WALK,
    'sed "s/TAILNET_DOMAIN/$domain/; s/NAMESERVER_IP/$ip/" coredns/stub-domain.conf': WALK,
    "kubectl -n kube-system edit configmap coredns": WALK,
    "kubectl -n kube-system get configmap coredns -o jsonpath='{.data.Corefile}' > Corefile": WALK,
    '{ echo; sed "s/TAILNET_DOMAIN/$domain/; s/NAMESERVER_IP/$ip/" coredns/stub-domain.conf; } >> Corefile': WALK,
    "kubectl -n kube-system get configmap kube-dns -o jsonpath='{.data.stubDomains}'": WALK,
    "kubectl -n kube-system patch configmap kube-dns --type=merge …": WALK,
    "dnsload --target 127.0.0.1:5353 --records records.json …": _DNSLOAD,
    "docker build --target dnsload -t registry.example.org/dnsload:0.1.0 .": _JOB,
    "kubectl apply -f loadtest/dnsload/job.yaml": _JOB,
    "kubectl -n tailscale logs -f job/dnsload": _JOB,
    "kubectl get service db -o yaml --show-managed-fields": WALK,
    "docker build --target operator -t registry.example.org/tsoperator:0.1.0 .": _IMAGES,
    "docker build --target nameserver -t registry.example.org/tsnameserver:0.1.0 .": _IMAGES,
    "kubectl get service gateway -o jsonpath='{.status.loadBalancer.ingress}'": _GATEWAY,
    "make images ARCHIVE=dist/images.tar": _ARCHIVE,
    "helm upgrade --install tailscale-operator charts/tailscale-operator …": _VALUES,
    "kubectl -n tailscale rollout status deployment/operator": BED,
    "helm test tailscale-operator --namespace tailscale --logs": _HELM_TEST,
    "kubectl apply -k .": _OVERLAY,
    "helm install tailscale-operator oci://registry.example.org/tailnet/charts/tailscale-operator …": _IMPORTED,
    "helm uninstall tailscale-operator --namespace tailscale": _UNINSTALL,
    "kubectl --namespace tailscale get statefulsets --selector tailscale.com/managed=true …": WALK,
    "kubectl delete tailnets.tailscale.com,dnsconfigs.tailscale.com,proxyclasses.tailscale.com --all": WALK,
    "kubectl delete clusterrole,clusterrolebinding tailscale-auth-proxy --ignore-not-found": WALK,
    "kubectl get services,ingresses,connectors.tailscale.com,…": _LET_GO,
    "helm upgrade tailscale-operator charts/tailscale-operator --namespace tailscale --reuse-values …": _REUSED,
    "helm rollback tailscale-operator <revision> --namespace tailscale": _BACK,
    "kubectl wait service/directory --for=condition=TailscaleEgressSvcReady": WALK,
    "kubectl wait proxygroup/ingress --for=condition=ProxyGroupReady": WALK,
    "kubectl get service orders -o jsonpath=…": WALK,
    "kubectl annotate ingress shop tailscale.com/proxy-group=ingress": WALK,
    "kubectl annotate ingress shop tailscale.com/proxy-group=other --overwrite": WALK,
    "kubectl annotate ingress shop tailscale.com/proxy-group-": WALK,
    "kubectl wait proxygroup/egress --for=condition=ProxyGroupReady": WALK,
    "kubectl get proxygroup": WALK,
    "kubectl wait proxygroup/kapi --for=condition=ProxyGroupReady": WALK,
    "kubectl get proxygroup kapi": WALK,
    "kubectl get service directory -o jsonpath=…": WALK,
    "kubectl get service stock -o jsonpath=…": WALK,
    "kubectl get connector": WALK,
    "kubectl wait peerrelay/edge --for=condition=PeerRelayReady --timeout=5m": WALK,
    "kubectl get peerrelay": WALK,
    "kubectl get peerrelay edge -o jsonpath=…": WALK,
    "kubectl get connector devnet -o jsonpath=…": WALK,
    "kubectl get recorder": WALK,
    "kubectl get recorder sessions -o jsonpath=…": WALK,
    "kubectl get dnsconfig": WALK,
    "kubectl get proxyclass": WALK,
    "kubectl wait proxygrouppolicy/shared-proxies --for=condition=ProxyGroupPolicyReady": WALK,
    "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings --output name …": WALK,
    "kubectl delete proxygrouppolicies.tailscale.com --all --all-namespaces": WALK,
    "kubectl get ingress web": WALK,
    "kubectl get service orders": WALK,
    "kubectl get service db": WALK,
    "kubectl get service db -o jsonpath='{.status.conditions}'": WALK,
    "kubectl wait service/db --for=condition=TailscaleProxyReady": WALK,
    "kubectl annotate service <name> tailscale.com/expose=true": WALK,
    "kubectl wait service/<name> --for=condition=TailscaleProxyReady": WALK,
    "kubectl -n tailscale get pods -l tailscale.com/parent-resource=<name>": WALK,
    "kubectl -n tailscale rollout status statefulset -l tailscale.com/parent-resource=…": WALK,
    "kubectl annotate service db tailscale.com/proxy-group=egress": WALK,
    "kubectl annotate service db tailscale.com/proxy-group=other --overwrite": WALK,
    "kubectl annotate service db tailscale.com/proxy-group-": WALK,
    "kubectl -n tailscale get pods -l tailscale.com/parent-resource-type=proxygroup,…": WALK,
    "kubectl -n tailscale get services,endpointslices -l tailscale.com/proxy-group=egress": WALK,
    "kubectl create clusterrolebinding oidc-discovery …": WALK,
    "kubectl create clusterrolebinding tailnet-readers --clusterrole=view --group=tailnet-readers": WALK,
    "kubectl -n tailscale describe deployment operator": BED,
    "kubectl wait tailnet/partner --for=condition=TailnetReady": WALK,
    "kubectl get tailnet": WALK,
    "kubectl -n tailscale delete secret -l tailscale.com/parent-resource-type=connector,…": WALK,
    "kubectl describe service db": WALK,
    "kubectl -n tailscale get pods": WALK,
    "kubectl -n tailscale logs -l app=operator --tail=-1": BED,
    """kubectl -n tailscale logs -l app=operator --tail=-1 | grep '"namespace":"default","name":"db"'""": BED,
    "tsoperator check": _CHECK,
    "tsoperator list -A": _LIST,
    "kubectl -n tailscale exec deployment/operator -- python3 -m tsoperator list": _INSIDE,
    "leader=$(kubectl -n tailscale get lease tailscale-operator -o jsonpath='{.spec.holderIdentity}')": _PAGE,
    'kubectl -n tailscale port-forward "pod/${leader%_*}" 9003': _PAGE,
    "kubectl apply --server-side --force-conflicts --filename charts/tailscale-operator/files/crds": WALK,
    "kubectl -n tailscale get events --field-selector reason=PreflightFailed": _PREFLIGHT,
    "kubectl -n tailscale get pods -l tailscale.com/parent-resource=db": WALK,
    "kubectl -n tailscale logs -l tailscale.com/parent-resource=db --all-containers --tail=-1": BED,
    "kubectl -n tailscale delete secret -l tailscale.com/parent-resource-type=svc,…": WALK,
    "kubectl edit service db": WALK,
    "kubectl -n tailscale delete statefulset,service,secret -l …": WALK,
}

_FROM_PYPI = "it installs packages from PyPI: `make` does that, and all tests start from there"
_CLOUD = "it needs a cluster of that cloud"
_ALL_OTHERS = "it takes away what all other tests of the cluster need"
RUN_BY_NONE: Final[Mapping[str, str]] = {
    "docker push registry.example.org/tsoperator:0.1.0": "no engine is there: the bed pushes what buildah made",
    "docker push registry.example.org/dnsload:0.1.0": "no engine is there: the bed pushes what buildah made",
    "docker push registry.example.org/tsnameserver:0.1.0": "no engine is there: the bed pushes what buildah made",
    "docker run --rm --network host …": f"no engine is there to run images: {_CHECK} runs the program in it",
    "make test": "it runs all tests, and so this one",
    "kubectl -n tailscale create configmap headscale-ca --from-file=ca.crt": (
        "it only puts a file of a user into an object"
    ),
    "jq 'del(.items[].metadata[…": "it is the other half of the command before it",
    "kubectl -n tailscale get secrets -l 'tailscale.com/parent-resource-type in (svc,ingress,connector)' …": (
        "it saves what tests/operator/test_tags_and_names.py restores in a simulated cluster"
    ),
    "kubectl config set-context --current --user=<your user>": "it edits the kubeconfig of a user",
    "kubectl -n tailscale logs deployment/operator-apiserver-proxy --all-containers --tail=-1": (
        "it only shows the log of a Deployment that most tests lack"
    ),
    "oc edit dns.operator/default": "no OpenShift is there: tests/e2e/test_cluster_dns.py writes the same object",
    "kubectl run dns-check --image=busybox:1.36 …": f"no registry with that image is in reach: {_STANZA} asks instead",
    "aws eks describe-addon …": _CLOUD,
    "aws eks update-addon …": _CLOUD,
    "aws eks wait addon-active …": _CLOUD,
    "jq -Rs '{corefile: .}' Corefile > values.json": "it makes the file for a command that needs a cluster of a cloud",
    "gcloud container clusters describe …": _CLOUD,
    "python3 -m venv build/check": _FROM_PYPI,
    "build/check/bin/pip install '.[operator]'": _FROM_PYPI,
    "build/check/bin/tsoperator check": f"{_CHECK} runs it where it is installed already",
    "python3 -m venv build/load": _FROM_PYPI,
    "build/load/bin/pip install '.[loadtest]'": _FROM_PYPI,
    "headscale oauth-clients create …": "no Headscale is in reach that has OAuth clients",
    "kubectl delete --filename charts/tailscale-operator/files/crds": _ALL_OTHERS,
    "kubectl delete namespace tailscale": _ALL_OTHERS,
    "helm history tailscale-operator --namespace tailscale": "it only shows what Helm has kept",
    "kubectl --namespace tailscale patch service nameserver --patch …": "it mends what only an older release left",
}


def fate_of(command: str) -> str | None:
    """Return the test that runs a normalised *command*, or the reason why no test does.

    Return None if the command isn't in the tables.
    """
    found = entries_of(command)
    return {**RUN_BY, **RUN_BY_NONE}[found[0]] if found else None


def entries_of(command: str) -> list[str]:
    """Return the keys of the tables that match a normalised *command*."""
    return [
        entry
        for entry in (*RUN_BY, *RUN_BY_NONE)
        if entry == command or (entry.endswith("…") and command.startswith(entry.removesuffix("…")))
    ]
