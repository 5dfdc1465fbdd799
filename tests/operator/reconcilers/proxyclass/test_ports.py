"""The violations of the node ports in ProxyClasses."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.reconcilers.proxyclass import ports

from tests.support.objects import deleting, live_proxy_class

OLD, NEW = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"


def with_ports(*given: int | tuple[int, int], name: str = "prod", ready: bool | None = None, at: str = NEW) -> Object:
    each = [{"port": it} if isinstance(it, int) else {"port": it[0], "endPort": it[1]} for it in given]
    spec = {"staticEndpoints": {"nodePort": {"ports": each}}} if each else {}
    return live_proxy_class(name, spec, ready=ready, creationTimestamp=at)


def violation(obj: Object, *others: Object, cluster: ports.Range | None = None) -> str:
    parsed = ProxyClass.parse(obj)
    assert not isinstance(parsed, Invalid)
    return ports.violation(obj, parsed, [obj, *others], cluster) or ""


Ports = list[int | tuple[int, int]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ""),
        ([(3000, 3002), (3005, 3007)], ""),
        ([3005, (3006, 3010), 3001], ""),
        ([(1, 65535)], ""),
        ([(1000, 2000), (1500, 1800)], "1000-2000 and 1500-1800 overlap"),
        ([3005, (3001, 3010)], "3001-3010 and 3005 overlap"),
        ([(3001, 3000)], "3001-3000 is no range"),
        ([0], "0 is no range"),
        ([777777], "from 1 to 65535"),
        ([(30000, 70000)], "from 1 to 65535"),
    ],
)
def test_the_ports_of_a_class_must_be_valid_ranges_that_do_not_overlap(given: Ports, words: str) -> None:
    found = violation(with_ports(*given))
    assert (words in found, bool(found)) == (True, bool(words))


@pytest.mark.parametrize(
    ("other", "clashes"),
    [
        (with_ports(31000, 32000, name="other", ready=True), True),
        (with_ports((31999, 32100), name="other", ready=True), True),
        (with_ports(31000, name="other", ready=True), False),
        (with_ports(name="other", ready=True), False),
        (with_ports(32000, name="other"), False),
        (with_ports(32000, name="other", ready=False), False),
        (deleting(with_ports(32000, name="other", ready=True)), False),
        (live_proxy_class("other", {"staticEndpoints": {}}, ready=True), False),
    ],
)
def test_the_node_ports_of_a_class_must_not_overlap_with_the_node_ports_of_a_ready_class(
    other: Object, clashes: bool
) -> None:
    words = "ProxyClass 'other' has" if clashes else ""
    found = violation(with_ports((31005, 32070)), other)
    assert (words in found, bool(found)) == (True, clashes)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([30500], ""),
        ([(30500, 30600)], ""),
        ([30000, 32767], ""),
        ([29999], "29999 is not among the cluster's node ports: choose from 30000-32767"),
        ([32768], "32768 is not"),
        ([(32000, 33000)], "32000-33000 is not"),
        ([31000, (29000, 31000), 80], "29000-31000, 80 is not"),
        ([(31000, 30500)], "31000-30500 is no range"),
    ],
)
def test_the_ports_of_a_class_must_be_in_the_clusters_range_of_node_ports(given: Ports, words: str) -> None:
    found = violation(with_ports(*given), cluster=ports.Range(30000, 32767))
    assert (words in found, bool(found)) == (True, bool(words))


def test_a_ready_class_keeps_its_node_ports_if_an_older_class_that_is_not_ready_wants_them() -> None:
    older, newer = with_ports(32000, name="older", ready=False, at=OLD), with_ports(32000, ready=True)
    assert violation(older, newer)
    assert not violation(newer, older)


@pytest.mark.parametrize("at", [OLD, NEW], ids=["by time", "by name"])
def test_the_older_of_two_ready_classes_with_the_same_ports_stays_ready(at: str) -> None:
    first, second = with_ports(32000, name="a", ready=True, at=at), with_ports(32000, name="b", ready=True)
    assert not violation(first, second)
    assert "'a' has 32000" in violation(second, first)
