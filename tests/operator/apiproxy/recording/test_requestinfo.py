"""The parts of requests to the API server, and the requests that open sessions."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.apiproxy.recording.requestinfo import (
    RequestInfo,
    SessionRequest,
    query_parameters,
    request_info,
    session_request,
)

POD = "/api/v1/namespaces/default/pods/web"


def info(verb: str, resource: str, **more: Any) -> RequestInfo:
    """Return the parts of a request for a *resource* of the core group. The path is empty: the test adds it."""
    given = {"api_prefix": "api", "parts": (resource,), **more}
    return RequestInfo(True, "", verb, api_version="v1", resource=resource, **given)


class Case(NamedTuple):
    target: str
    info: RequestInfo
    method: str = "GET"


def pod(name: str, *parts: str, **more: Any) -> RequestInfo:
    given = {"namespace": "default", "name": name, "parts": ("pods", name, *parts), **more}
    return info(given.pop("verb", "get"), "pods", **given)


# The first rows are the requests in the Go operator's tests.
CASES = [
    Case("/api/v1/namespaces/default/pods/foo.bar", pod("foo.bar")),
    Case("/api/v1/namespaces/default/pods/foo-bar", pod("foo-bar")),
    Case("/api/v1/pods?watch=true", info("watch", "pods")),
    Case("/api/v1/pods?labelSelector=app%3Dfoo", info("list", "pods", label_selector="app=foo")),
    Case(
        "/api/v1/pods?fieldSelector=status.phase%3DRunning",
        info("list", "pods", field_selector="status.phase=Running"),
    ),
    Case("/api/v1/foo", info("list", "foo")),
    Case("/api/v1/pods", info("list", "pods")),
    Case("/api/v1/pods", info("create", "pods"), "POST"),
    Case(
        "/apis/custom.example.com/v1/myresources",
        info("list", "myresources", api_prefix="apis", api_group="custom.example.com"),
    ),
    Case("/api/v1/namespaces/default/pods/foo/proxy", pod("foo", "proxy", subresource="proxy")),
    Case(
        "/api/v1/namespaces/default/services/foo:8080/proxy-subpath/more/segments",
        info(
            "get",
            "services",
            namespace="default",
            name="foo:8080",
            subresource="proxy-subpath",
            parts=("services", "foo:8080", "proxy-subpath", "more", "segments"),
        ),
    ),
    Case("/healthz", RequestInfo(False, "", "get")),
    Case("/api/v1", RequestInfo(False, "", "options"), "OPTIONS"),
    Case("/apis/apps/v1", RequestInfo(False, "", "get", "apis")),
    Case("/api/v1/pods?watch=0", info("list", "pods")),
    Case("/api/v1/pods?watch", info("watch", "pods")),
    Case("/api/v1/pods", info("deletecollection", "pods"), "DELETE"),
    Case("/api/v1/pods", info("update", "pods"), "PUT"),
    Case("/api/v1/pods", info("patch", "pods"), "PATCH"),
    Case("/api/v1/pods", info("", "pods"), "OPTIONS"),
    Case("/api/v1/pods", info("list", "pods"), "HEAD"),
    Case(
        "/api/v1/pods?fieldSelector=a%3Db,metadata.name%3D%3Dweb",
        info("list", "pods", name="web", field_selector="a=b,metadata.name==web"),
    ),
    Case("/api/v1/pods?fieldSelector=metadata.name%3D..", info("list", "pods", field_selector="metadata.name=..")),
    Case(
        "/api/v1/namespaces/default",
        info("get", "namespaces", namespace="default", name="default", parts=("namespaces", "default")),
    ),
    Case(
        "/api/v1/namespaces/default/finalize",
        info(
            "update",
            "namespaces",
            namespace="default",
            name="default",
            subresource="finalize",
            parts=("namespaces", "default", "finalize"),
        ),
        "PUT",
    ),
    Case("/api/v1/watch/namespaces/default/pods?labelSelector=a", info("watch", "pods", namespace="default")),
    Case("/api/v1/proxy/nodes/a/b", info("proxy", "nodes", name="a", parts=("nodes", "a", "b"))),
    Case("/api/v1/watch", info("list", "watch")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.method} {case.target}")
def test_a_request_is_read_as_the_api_server_reads_it(case: Case) -> None:
    found = request_info(case.method, case.target)
    path = case.target.partition("?")[0]
    assert found.as_event() == {**case.info.as_event(), "Path": path}


def test_an_event_names_the_parts_of_a_request_as_the_go_operator_names_them() -> None:
    names = "IsResourceRequest Path Verb APIPrefix APIGroup APIVersion Namespace Resource Subresource Name Parts"
    assert [*request_info("GET", "/").as_event()] == [*names.split(), "FieldSelector", "LabelSelector"]


def test_a_parameter_that_occurs_several_times_in_a_query_keeps_all_its_values() -> None:
    assert query_parameters("/?a=1&b&a=%202+&") == {"a": ["1", " 2 "], "b": [""]}
    assert query_parameters("/") == {}


EXEC = SessionRequest("exec", "default", "web")
SHELL = SessionRequest("exec", "default", "web", "main", "ls -l", True)


@pytest.mark.parametrize(
    ("target", "session"),
    [
        (f"{POD}/exec", EXEC),
        (f"{POD}/exec?container=main&command=ls&command=-l&tty=true&stdin=true", SHELL),
        (f"{POD}/exec?tty=false", EXEC),
        (f"{POD}/exec?tty=false&tty=true", EXEC),
        (f"{POD}/exec/", EXEC),
        (f"/{POD}//exec", EXEC),
        (f"{POD}/./exec", EXEC),
        (f"{POD}/x/../exec", EXEC),
        (f"{POD}%2Fexe%63", EXEC),
        (f"{POD}/attach", SessionRequest("attach", "default", "web")),
        ("/apis/example.org/v1/namespaces/default/pods/web/exec", EXEC),
        ("/api/v1/nodes/n/proxy/exec/default/web/main?command=ls&command=-l&tty=1", SHELL),
        ("/api/v1/nodes/n/proxy/exec/default/web/uid/main?command=ls&command=-l&tty=1", SHELL),
        ("/api/v1/nodes/https:n:10250/proxy/attach/a/b/c", SessionRequest("attach", "a", "b", "c")),
        ("/api/v1/proxy/nodes/n/exec/a/b/c", SessionRequest("exec", "a", "b", "c")),
        ("/api/v1/nodes/n/proxy//exec/a", SessionRequest("exec", is_recordable=False)),
        ("/api/v1/nodes/n/proxy/run/a/b/c", SessionRequest("run", is_recordable=False)),
        ("/api/v1/nodes/n/proxy/../../run/a/b/c", SessionRequest("run", is_recordable=False)),
        ("/api/v1/nodes/n/proxy/x/%2e%2e/%2E%2E/exec/a/b/c", SessionRequest("exec", "a", "b", "c")),
        ("/api/v1/nodes/n/proxy/portForward/a/b", SessionRequest("port-forward", is_recordable=False)),
        ("/api/v1/nodes/n/proxy/cri/exec/x", SessionRequest("kubelet session", is_recordable=False)),
        (f"{POD}/portforward", SessionRequest("port-forward", "default", "web", is_recordable=False)),
        (f"{POD}/ephemeralcontainers", SessionRequest("ephemeral container", "default", "web", is_recordable=False)),
        (f"{POD}", None),
        (f"{POD}/log", None),
        (f"{POD}/proxy/exec", None),
        ("/api/v1/nodes/n/proxy/metrics", None),
        ("/api/v1/nodes/n/proxy", None),
        ("/api/v1/namespaces/exec", None),
        ("/exec", None),
    ],
)
def test_a_request_that_opens_a_session_is_recognised_by_its_path(target: str, session: SessionRequest | None) -> None:
    assert session_request("POST", target) == session


@pytest.mark.parametrize(
    ("target", "is_session"),
    [
        (
            "/api/v1/namespaces/default/services/https:kubernetes:443/proxy/api/v1/namespaces/default/pods/web/exec",
            True,
        ),
        (f"{POD}/proxy/", True),
        (f"{POD}/log?follow=true", False),
        ("/api/v1/nodes/n/proxy/containerLogs/a/b/c", True),
        ("/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/vm/console", True),
        ("/apis/example.org/v1/namespaces/default/pods/web/log", True),
        ("/apis/example.org/v1/terminals/web", True),
        ("/apis/example.org/v1/watch/terminals/web/open", True),
        ("/api/v1/namespaces/default/pods?watch=1", False),
        ("/api/v1/namespaces/default/pods/web/proxy/..?watch=1", True),
        ("/version", True),
    ],
)
def test_any_upgraded_connection_is_a_session_except_for_a_watch_or_the_log_of_a_pod(
    target: str, is_session: bool
) -> None:
    found = session_request("GET", target, upgrades=True)
    assert (found and found.kind) == ("upgraded connection" if is_session else None)
    assert session_request("GET", target) is None


def test_a_get_of_the_ephemeral_containers_of_a_pod_opens_no_session() -> None:
    assert session_request("GET", f"{POD}/ephemeralcontainers") is None


@given(st.text("/api1v.%2Fexcns?&=", max_size=40))
def test_no_target_of_a_request_causes_an_unforeseen_error(target: str) -> None:
    assert request_info("GET", f"/{target}").path.startswith("/")
    session_request("GET", f"/api/v1/{target}")
