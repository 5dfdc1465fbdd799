"""Which ProxyClass an object names, and whether that can be used."""

import pytest
from tsoperator.desired.proxyclass import class_name, class_problem

from tests.support.objects import egress_service, proxy_class

KEY = "tailscale.com/proxy-class"


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
def test_the_label_comes_before_the_annotation_before_the_default(
    labels: dict[str, str], annotations: dict[str, str], name: str
) -> None:
    assert class_name(egress_service(annotations, labels=labels), "default") == name


def test_an_object_that_names_no_class_has_no_problem() -> None:
    assert class_problem(egress_service(), None, "") is None
    assert class_problem(egress_service({KEY: ""}), None, "default") is None


def test_a_class_that_does_not_exist_has_failed() -> None:
    problem = class_problem(egress_service({KEY: "prod"}), None, "")
    assert problem is not None
    assert problem.reason == "ProxyFailed"
    assert "'prod' does not exist: create it, or remove tailscale.com/proxy-class" in problem.message


def test_a_class_that_exists_is_waited_for() -> None:
    problem = class_problem(egress_service(), proxy_class("default"), "default")
    assert problem is not None
    assert problem.reason == "ProxyPending"
    assert "'default'" in problem.message
