"""Which ProxyClass an object names, and whether that can be used."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.desired.classref import accepts_routes, class_name, class_problem, class_spec, is_ready

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


def test_a_default_class_that_does_not_exist_is_not_named_by_the_object() -> None:
    problem = class_problem(egress_service(), None, "prod")
    assert problem is not None
    assert problem.message == (
        "ProxyClass 'prod' does not exist: create it, or unset the operator's PROXY_DEFAULT_CLASS"
    )


@pytest.mark.parametrize(
    "found", [proxy_class(), proxy_class(ready=False), proxy_class(ready=True, generation=2)], ids=["new", "bad", "old"]
)
def test_a_class_that_is_not_ready_is_waited_for(found: Object) -> None:
    problem = class_problem(egress_service(), found, "prod")
    assert problem is not None
    assert problem.reason == "ProxyPending"
    assert "waiting for ProxyClass 'prod'" in problem.message
    assert not is_ready(found)


def test_a_class_that_cannot_be_read_is_waited_for_whatever_is_said_of_it() -> None:
    found = proxy_class(spec={"metrics": {"enable": "yes"}}, ready=True)
    problem = class_problem(egress_service(), found, "prod")
    assert problem is not None
    assert problem.reason == "ProxyPending"


def test_a_class_that_is_ready_is_no_problem() -> None:
    assert class_problem(egress_service({KEY: "prod"}), proxy_class(ready=True), "") is None


def test_what_a_class_says_is_read() -> None:
    spec = class_spec(proxy_class(spec={"useLetsEncryptStagingEnvironment": True}))
    assert spec is not None
    assert spec.use_lets_encrypt_staging_environment
    assert class_spec(None) is None
    assert class_spec(proxy_class(spec={"metrics": {"enable": "yes"}})) is None


@pytest.mark.parametrize(
    ("spec", "accepts"),
    [({}, False), ({"tailscale": {}}, False), ({"tailscale": {"acceptRoutes": True}}, True)],
)
def test_routes_are_accepted_only_where_a_class_says_so(spec: Object, accepts: bool) -> None:
    assert accepts_routes(class_spec(proxy_class(spec=spec))) is accepts
    assert not accepts_routes(None)
