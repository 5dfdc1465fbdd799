"""The ProxyClass that an object names, and whether it can be used."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.classref import accepts_routes, chosen_class, class_name, is_ready
from tsoperator.runtime.plan import Refusal

from tests.support.objects import egress_service, live_proxy_class

KEY = "tailscale.com/proxy-class"


def problem_of(parent: Object, proxy_class: Object | None, default: str) -> Refusal:
    chosen = chosen_class(parent, proxy_class, default)
    assert isinstance(chosen, Refusal)
    return chosen


def spec_of(proxy_class: Object) -> ProxyClassSpec:
    chosen = chosen_class(egress_service({KEY: "prod"}), proxy_class, "")
    assert isinstance(chosen, ProxyClassSpec)
    return chosen


@pytest.mark.parametrize(
    ("labels", "annotations", "name"),
    [
        ({}, {}, "default"),
        ({KEY: "label"}, {}, "label"),
        ({}, {KEY: "annotation"}, "annotation"),
        ({KEY: "label"}, {KEY: "annotation"}, "label"),
        ({KEY: ""}, {KEY: "annotation"}, ""),
        ({}, {KEY: ""}, ""),
    ],
)
def test_the_class_in_the_label_wins_over_the_class_in_the_annotation_and_both_win_over_the_default(
    labels: dict[str, str], annotations: dict[str, str], name: str
) -> None:
    assert class_name(egress_service(annotations, labels=labels), "default") == name


def test_an_object_that_names_no_class_has_none() -> None:
    assert chosen_class(egress_service(), None, "") is None
    assert chosen_class(egress_service({KEY: ""}), None, "default") is None


def test_a_missing_class_is_a_fault_of_every_object_that_names_the_class() -> None:
    problem, default = problem_of(egress_service({KEY: "prod"}), None, ""), problem_of(egress_service(), None, "prod")
    assert (problem.reason, problem.is_passing) == ("ProxyFailed", False)
    assert "'prod' does not exist: create it, or remove tailscale.com/proxy-class" in problem.message
    assert default.message.endswith("'prod' does not exist: create it, or unset the operator's PROXY_DEFAULT_CLASS")


@pytest.mark.parametrize(
    ("found", "is_passing"),
    [
        (live_proxy_class(), False),
        (live_proxy_class(ready=False), False),
        (live_proxy_class(ready=False, generation=2), False),
        (live_proxy_class(ready=True, generation=2), True),
    ],
    ids=["new", "bad", "bad and changed", "good and changed"],
)
def test_an_object_waits_for_a_class_that_is_not_ready(found: Object, *, is_passing: bool) -> None:
    problem = problem_of(egress_service(), found, "prod")
    assert (problem.reason, problem.is_passing) == ("ProxyPending", is_passing)
    assert "waiting for ProxyClass 'prod'" in problem.message
    assert not is_ready(found)


def test_an_object_waits_for_an_invalid_class_even_if_its_status_says_ready() -> None:
    found = live_proxy_class(spec={"metrics": {"enable": "yes"}}, ready=True)
    problem = problem_of(egress_service(), found, "prod")
    assert (problem.reason, problem.is_passing) == ("ProxyPending", False)


def test_the_spec_of_a_ready_class_is_used() -> None:
    assert spec_of(live_proxy_class(ready=True)) == ProxyClassSpec()
    given = live_proxy_class(spec={"useLetsEncryptStagingEnvironment": True}, ready=True)
    assert spec_of(given).use_lets_encrypt_staging_environment


def test_a_proxy_accepts_routes_only_if_its_class_says_so() -> None:
    specs: list[Object] = [{}, {"tailscale": {}}, {"tailscale": {"acceptRoutes": True}}]
    found = [accepts_routes(spec_of(live_proxy_class(spec=spec, ready=True))) for spec in specs]
    assert (found, accepts_routes(None)) == ([False, False, True], False)
