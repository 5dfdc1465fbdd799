"""Names the tests that show each difference from the Go operator that docs/migration.md lists.

Each key is the beginning of a row in a table of that page. Paths are relative to tests/. Test names are without
`test_`.
"""

from collections.abc import Mapping
from typing import Final

_SERVICE = "operator/reconcilers/service"
_GROUP = "operator/reconcilers/proxygroup"
_TAILNET = "operator/reconcilers/tailnet"
_DNSCONFIG = "operator/reconcilers/dnsconfig"
_REFUSED_DNSCONFIG = "a_dnsconfig_reports_a_refusal_beside_the_answers_of_the_clusters_dns_and_no_child_is_written"
_TAILNET_OF_RELAYS = "the_spec_of_a_peerrelay_decides_the_hostname_prefix_the_tags_and_the_tailnet_of_its_devices"
_CONNECTOR = "operator/reconcilers/connector"
_RECORDER = "operator/reconcilers/recorder"
_INGRESS = "operator/reconcilers/ingress"
_RELAY = "operator/reconcilers/peerrelay"
_POLICY = "operator/reconcilers/proxygrouppolicy"
_REWRITES = "operator/runtime/test_rewrites.py"
_CHART = "charts/test_chart.py"
_EVERY_VARIABLE = (
    "charts/test_values.py each_environment_variable_in_the_chart_is_a_setting_of_the_operator_or_a_listed_exception"
)
_COMBINATIONS = f"{_CHART} the_main_combinations_of_values_render_the_golden_files"

_DEVICE = "operator/reconcilers/operatordevice/test_reconciler.py"
_PROXY_PLAN = "operator/reconcilers/operatordevice/test_apiserverproxy.py"
_HOSTED = "operator/reconcilers/tailscaleservice/test_reconciler.py"

SHOWN_BY: Final[Mapping[str, list[str]]] = {
    "Tags follow the object": [
        "operator/test_tags_and_names.py an_edit_of_the_tags_of_an_object_changes_the_tags_of_its_running_devices",
        "operator/tailnet/test_upkeep.py the_tags_of_a_device_are_set_and_reported_once",
        f"{_INGRESS}/test_plan.py events_report_auth_keys_paths_tags_hosts_and_certificates_of_a_served_ingress",
    ],
    "A proxy whose object is gone": [
        "operator/test_orphans.py an_orphan_stays_for_an_hour_before_it_is_deleted_step_by_step_with_its_device",
        "operator/test_orphans.py an_orphan_whose_parent_was_back_briefly_stays_for_another_hour_and_is_logged_again",
    ],
    "The operator doesn't run as a device": [
        f"{_DEVICE} the_device_of_the_go_operator_stays_the_operators_device",
        "docs/test_manifests.py the_documented_objects_work_once_applied_and_leave_nothing_once_deleted",
        _EVERY_VARIABLE,
    ],
    "An egress Service with a proxy of its own is ready": [
        f"{_SERVICE}/test_reconciler.py an_egress_service_is_ready_and_leads_to_its_proxy_as_soon_as_the_proxy_serves",
        f"{_SERVICE}/test_reconciler.py an_egress_service_stays_as_it_is_while_its_pod_is_replaced",
    ],
    "A name of a device that would have more than 63 characters": [
        f"{_CONNECTOR}/test_plan.py a_connector_reports_why_its_proxies_cannot_be_made_and_its_children_do_not_change",
        f"{_GROUP}/test_plan.py the_condition_says_why_a_group_cannot_be_made_and_its_proxies_stay",
    ],
    "When you delete or edit an object that the operator has made": [
        "operator/contract/test_children.py a_child_that_is_deleted_comes_back_under_its_name",
        "operator/contract/test_children.py the_operator_undoes_an_edit_of_a_child",
    ],
    "A proxy that can't log in": ["operator/test_reissue.py a_lost_device_comes_back_under_its_name"],
    "If you set `operatorConfig.takeOverNames`": [
        "operator/tailnet/test_upkeep.py a_proxy_takes_its_name_over_from_a_dead_device",
        "operator/test_tags_and_names.py a_rebuilt_cluster_takes_over_the_names_of_its_dead_devices",
    ],
    "If a tool keeps resetting an egress Service": [
        f"{_REWRITES} the_wait_before_a_rewrite_of_an_object_grows_with_each_revert_up_to_a_minute",
        f"{_SERVICE}/test_egress.py the_message_about_reverts_of_a_service_says_how_to_end_the_reverts",
    ],
    "The operator refuses a `tailscale.com/tailnet-ip`": [
        f"{_SERVICE}/test_plan.py each_violation_of_a_service_names_the_annotation_and_the_values_that_are_allowed",
        "operator/api/test_rules.py the_error_for_an_invalid_name_target_address_or_tag_says_why",
    ],
    "A new Ingress gets no proxy while": [
        f"{_INGRESS}/test_plan.py events_say_why_an_ingress_is_not_served_and_nothing_changes",
        f"{_INGRESS}/test_plan.py a_served_ingress_with_a_bad_hostname_or_tag_keeps_the_old_value_and_gets_a_warning",
    ],
    "A Connector makes nothing until its ProxyClass is ready": [
        f"{_CONNECTOR}/test_plan.py a_connector_waits_without_an_event_until_its_class_is_ready",
    ],
    "While no proxy of a name is ready": [
        "operator/dns/records/test_live.py a_name_whose_proxies_are_all_down_exists_without_addresses",
        "nameserver/test_settings.py the_default_settings_fit_the_deployment_that_the_go_operator_makes",
    ],
    "Load balancers and other exposed Services have names": [
        f"{_SERVICE}/test_reconciler.py the_name_of_an_exposed_service_leads_pods_to_its_cluster_ips",
        "operator/dns/test_clusternames.py an_object_has_no_name_if_its_annotation_says_so",
    ],
    "`helm uninstall` leaves": [
        f"{_CHART} the_chart_has_all_crds_and_helm_keeps_them_when_the_release_is_uninstalled",
        "e2e/test_uninstall.py objects_stay_and_proxies_keep_running_after_the_operator_is_uninstalled",
    ],
    "Proxies can read and update Secrets": [f"{_CHART} the_static_manifests_equal_the_output_of_the_chart"],
    "With two DNSConfigs": [
        f"{_DNSCONFIG}/test_plan.py {_REFUSED_DNSCONFIG}",
        f"{_DNSCONFIG}/test_plan.py the_younger_of_two_dnsconfigs_does_not_change_the_plan_for_the_older",
    ],
    "Conditions turn False": [
        f"{_SERVICE}/test_plan.py a_service_waits_for_its_class_to_be_ready_and_keeps_its_proxy",
        f"{_CONNECTOR}/test_plan.py a_connector_reports_why_its_proxies_cannot_be_made_and_its_children_do_not_change",
        "operator/reconcilers/tailnet/test_proofs.py credentials_that_were_good_stay_in_use_when_a_fault_appears_later",
    ],
    "There are more Events": [
        "docs/test_tables.py every_reason_of_a_condition_has_a_row_in_the_docs_and_every_row_is_a_reason"
    ],
    "Metrics are on port 9002": [
        "docs/test_metrics.py every_metric_has_a_row_in_the_documentation_and_every_row_is_for_a_metric",
        f"{_CHART} the_servicemonitor_selects_the_metrics_of_the_operator_and_of_the_nameserver",
    ],
    "The log has other messages": [
        "operator/test_logs.py a_json_line_has_the_fields_ts_level_logger_and_msg_of_the_go_operators_log",
    ],
    "Two Pods run": [
        "operator/runtime/test_leader.py two_processes_never_lead_at_once_and_one_process_leads_in_the_end",
        "e2e/test_install.py helm_test_succeeds_if_every_replica_and_the_nameserver_are_healthy",
    ],
    "The operator writes Events about cluster-wide objects": [
        "operator/runtime/test_events.py an_event_is_in_the_namespace_of_its_object_or_else_in_the_namespace_default",
    ],
    "A ProxyGroupPolicy lets objects without any annotation pass": [
        f"{_POLICY}/test_enforcement.py a_proxygrouppolicy_does_not_affect_other_namespaces_or_objects_without_a_group",
        f"{_POLICY}/test_enforcement.py the_operator_can_change_objects_that_are_older_than_the_policy",
        f"{_POLICY}/test_reconciler.py the_go_operators_admission_policies_are_taken_over_in_place",
    ],
    "A wrong setting stops the operator": [
        "operator/test_main.py an_operator_that_cannot_work_says_why_in_one_line",
        "operator/test_settings.py the_error_for_a_wrong_setting_names_the_variable_and_its_valid_values",
    ],
    "The chart refuses wrong values": [
        "charts/test_given_values.py the_chart_refuses_wrong_values_with_words_that_say_what_to_do",
        "charts/test_given_values.py the_chart_refuses_a_value_with_an_unknown_name_and_suggests_similar_names",
    ],
    "`operatorConfig.annotations` has an effect": [_COMBINATIONS],
    "`TS_PORT` has an effect only": [_EVERY_VARIABLE],
    "The chart sets `K8S_PROXY_IMAGE`": [
        "charts/test_given_values.py the_image_of_api_server_proxies_has_the_version_of_the_other_proxies"
    ],
    "A new hostname of a ProxyGroup of type `kube-apiserver`": [
        "operator/test_apiserver_groups.py a_group_serves_its_new_hostname_before_it_gives_up_the_old_one"
    ],
    "A ProxyGroup of type `kube-apiserver` that is deleted": [
        "operator/test_apiserver_groups.py an_ingress_keeps_a_name_that_a_group_asks_for_even_when_the_group_is_deleted"
    ],
    "The credentials are read again": [
        "operator/tsclient/test_oauth.py credentials_that_are_rotated_or_replaced_are_used_at_once"
    ],
    "A MagicDNS name outside of `ts.net`": [
        f"{_SERVICE}/test_plan.py each_violation_of_a_service_names_the_annotation_and_the_values_that_are_allowed",
    ],
    "The proxy is a Pod of its own": [
        f"{_PROXY_PLAN} the_plan_makes_or_updates_the_api_server_proxy_unless_there_is_a_problem",
        "e2e/test_apiserver.py a_watch_through_the_api_server_proxy_continues_if_both_pods_of_the_operator_are_killed",
    ],
    "Without HTTPS on the tailnet": [
        "e2e/test_apiserver.py in_a_tailnet_without_certificates_users_reach_the_api_server_proxy_by_plain_http",
    ],
    "The ServiceAccount of the operator may not impersonate": [
        f"{_CHART} our_chart_renders_every_object_that_the_go_operators_chart_renders_from_the_same_values",
    ],
    "The proxy refuses callers": [
        "operator/apiproxy/test_impersonation.py a_caller_with_a_bad_name_or_a_bad_grant_is_refused_with_a_reason"
    ],
    "The proxy refuses unusual HTTP": [
        "operator/apiproxy/test_head.py a_bad_head_of_a_request_is_refused_with_a_status_and_a_reason"
    ],
    "If a grant enforces recording,": [
        (
            "operator/apiproxy/test_impersonation.py "
            "a_session_that_no_recorder_can_record_is_refused_if_it_must_be_recorded"
        ),
        (
            "operator/apiproxy/recording/test_sessions.py "
            "a_request_that_must_be_recorded_is_refused_if_no_recorder_takes_its_event"
        ),
    ],
    "A change of a terminal's size": [
        "operator/apiproxy/recording/test_cast.py each_output_and_each_new_terminal_size_becomes_a_line_of_a_recording"
    ],
    "`APISERVER_PROXY` and `AUTH_PROXY`": [
        "operator/test_settings.py "
        "the_mode_of_the_api_server_proxy_comes_from_one_of_two_variables_which_must_not_differ",
    ],
    "The configuration of a relay is in": [
        f"{_RELAY}/test_plan.py the_config_of_a_peerrelays_replica_makes_the_replica_a_relay",
        f"{_RELAY}/test_plan.py a_config_for_newer_images_that_another_operator_wrote_for_a_relay_is_removed",
    ],
    "A relay logs in at": [
        f"{_RELAY}/test_plan.py {_TAILNET_OF_RELAYS}",
        "e2e/test_upgrade.py all_proxies_and_policies_work_after_an_upgrade_to_our_operator",
    ],
    "When replicas go": [
        f"{_RELAY}/test_plan.py the_plan_deletes_the_device_of_a_surplus_relay_without_a_pod_before_its_load_balancer",
        f"{_RELAY}/test_plan.py the_devices_of_a_deleted_peerrelay_without_pods_are_deleted_before_its_load_balancers",
    ],
    "A replica is ready only if": [
        f"{_RELAY}/test_plan.py the_status_of_a_peerrelay_shows_its_endpoints_and_says_what_is_missing"
    ],
    "A PeerRelay waits until": [
        f"{_RELAY}/test_plan.py the_condition_of_an_invalid_peerrelay_says_how_to_fix_it_and_its_relays_stay"
    ],
    "A load balancer with an address": [f"{_RELAY}/test_endpoints.py a_relay_gets_endpoints_from_its_load_balancer"],
    "A PeerRelay has at most": [
        f"{_RELAY}/test_plan.py the_condition_of_an_invalid_peerrelay_says_how_to_fix_it_and_its_relays_stay"
    ],
    "The StatefulSet of a group keeps its Pod template": [
        f"{_GROUP}/test_statefulset.py pods_of_the_go_operator_and_of_earlier_versions_stay_until_the_group_is_edited",
    ],
    "When a Service has moved to another group": [
        "operator/group/test_places.py the_old_places_are_unused_when_the_service_has_moved_to_the_new_place",
        "operator/group/test_places.py the_deletion_of_a_place_also_removes_the_go_operators_finalizer",
        "operator/group/test_configmap.py the_clusterip_services_of_a_group_decide_which_entries_its_configmap_gets",
    ],
    "An Ingress or a Service can [move]": [
        f"{_HOSTED} a_claim_that_moves_to_another_group_keeps_its_tailscale_service_and_the_group_gets_the_rights",
        f"{_INGRESS}/test_grouped.py an_ingress_is_released_when_its_tailscale_service_is_completely_removed",
        f"{_SERVICE}/test_hosted.py the_finalizer_of_a_service_stays_until_its_tailscale_service_is_completely_removed",
    ],
    "When a group is deleted before its Ingresses": [
        f"{_INGRESS}/test_grouped.py an_ingress_is_released_when_its_tailscale_service_is_completely_removed",
    ],
    "If two objects want the same name": [
        f"{_SERVICE}/test_hosted.py a_service_reports_that_an_older_object_claims_its_label_but_ignores_a_newer_claim",
    ],
    "If operators of other clusters own": [
        "operator/group/test_exposing.py facts_about_an_object_decide_whether_the_proxies_serve_and_advertise_it",
    ],
    "The condition `TailscaleIngressSvcValid`": [
        f"{_SERVICE}/test_hosted.py a_load_balancer_shows_its_name_and_its_ipv4_address",
    ],
    "The names of Services in a group lead": [
        "operator/reconcilers/dnsrecords/test_reconciler.py "
        "the_name_of_a_service_that_a_group_exposes_leads_to_its_cluster_ips",
    ],
    "A Recorder that is deleted takes all": [
        f"{_RECORDER}/test_plan.py a_deleted_recorder_is_released_after_the_devices_of_all_replicas_are_deleted",
    ],
    "A Recorder can be deleted after its Tailnet": [
        f"{_RECORDER}/test_reconciler.py a_recorder_that_is_deleted_after_its_tailnet_says_how_to_go_on",
    ],
    "A failed step is tried again": [
        f"{_RECORDER}/test_plan.py a_recorder_reports_a_failed_step_of_its_plan_and_tries_the_step_again",
    ],
    "An object with a name that the Recorder needs": [
        f"{_RECORDER}/test_plan.py a_recorder_names_the_foreign_object_that_has_the_name_of_a_child",
        f"{_RECORDER}/test_reconciler.py a_recorder_does_not_change_the_children_and_devices_of_a_group_of_its_name",
    ],
    "A Recorder has at most": [
        f"{_RECORDER}/test_plan.py a_recorder_is_refused_if_its_pods_would_have_invalid_names",
        f"{_RECORDER}/test_plan.py an_invalid_recorder_reports_its_fault_in_its_condition_and_keeps_its_pods",
    ],
    "The image of a Recorder": [
        "operator/test_settings.py the_default_image_of_recorders_has_the_same_tag_as_the_image_of_proxies",
    ],
    "When the labels of the Pods change": [
        f"{_RECORDER}/test_plan.py a_recorder_whose_pod_labels_change_gets_another_statefulset",
    ],
    "The old ServiceAccount of a renamed one": [
        f"{_RECORDER}/test_reconciler.py the_earlier_service_account_of_a_recorder_is_deleted_when_no_pod_needs_it",
    ],
    "MagicDNS names of Services in a group": [
        "e2e/test_proxygroup.py the_name_of_a_device_behind_an_egress_group_resolves_to_the_clusterip_service",
    ],
    "A Tailnet stays while": [
        f"{_TAILNET}/test_proofs.py a_tailnet_object_stays_while_an_object_of_any_kind_names_it",
        f"{_TAILNET}/test_reconciler.py a_tailnet_object_stays_while_its_tailnet_has_devices_of_a_connector_that_left",
    ],
    "A ProxyGroup or a Connector has at most 100 replicas": [
        "operator/proxy/test_replica.py a_proxy_has_at_most_a_hundred_replicas",
        f"{_GROUP}/test_plan.py the_condition_says_why_a_group_cannot_be_made_and_its_proxies_stay",
    ],
    "Messages of conditions that are True": [
        "operator/runtime/test_success.py an_event_is_written_when_an_object_becomes_ready_or_can_be_reached_elsewhere",
        f"{_SERVICE}/test_plan.py a_service_is_pointed_at_its_proxy_and_is_ready_when_the_proxy_serves",
    ],
    "A Tailnet is tried again": [
        "operator/reconcilers/tailnet/test_proofs.py good_credentials_of_a_tailnet_are_tried_again_once_a_day",
    ],
}
