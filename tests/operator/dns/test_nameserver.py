"""The DNSConfig in force, the image of the nameserver, and the rollout after which records are split into shards."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.dns.nameserver import NameserverImage, Program, elected, nameserver_image, parse, reads_shards

from tests.support.objects import deleting, live_dnsconfig, rolled_out, settings

OLD = live_dnsconfig("b", creationTimestamp="2026-01-01T00:00:00Z")
NEW = live_dnsconfig("a", creationTimestamp="2026-01-02T00:00:00Z")
TWIN = live_dnsconfig("a", creationTimestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("found", "counts"),
    [([NEW, OLD], OLD), ([OLD, TWIN], TWIN), ([deleting(OLD), NEW], NEW), ([deleting(OLD)], None), ([], None)],
    ids=["the oldest", "the first name of one second", "none that goes", "only one that goes", "none"],
)
def test_the_oldest_dnsconfig_that_is_not_being_deleted_is_in_force(found: list[Object], counts: Object | None) -> None:
    assert elected(found) == elected(found[::-1]) == counts


OURS, UPSTREAM, UNKNOWN = Program.OURS, Program.UPSTREAM, Program.UNKNOWN
THEIRS = "tailscale/k8s-nameserver:stable"
DEFAULT = "example.org/ns:v2"


@pytest.mark.parametrize(
    ("default", "asked", "said", "image", "program"),
    [
        (THEIRS, {}, "", THEIRS, UPSTREAM),
        (THEIRS, {}, "tsnameserver", THEIRS, UPSTREAM),
        (THEIRS, {"tag": "v1"}, "", "tailscale/k8s-nameserver:v1", UPSTREAM),
        (THEIRS, {"repo": "", "tag": ""}, "", THEIRS, UPSTREAM),
        (THEIRS, {"repo": "mirror.org/ns"}, "", "mirror.org/ns:stable", UNKNOWN),
        (THEIRS, {"repo": "mirror.org/ns"}, "tsnameserver", "mirror.org/ns:latest", OURS),
        (THEIRS, {"repo": "mirror.org/ns", "tag": "v1"}, "", "mirror.org/ns:v1", UNKNOWN),
        (THEIRS, {"repo": "mirror.org/ns", "tag": "v1"}, "k8s-nameserver", "mirror.org/ns:v1", UPSTREAM),
        ("docker.io/tailscale/k8s-nameserver:v1", {}, "", "docker.io/tailscale/k8s-nameserver:v1", UPSTREAM),
        (DEFAULT, {}, "", DEFAULT, OURS),
        (DEFAULT, {}, "k8s-nameserver", DEFAULT, UPSTREAM),
        (DEFAULT, {"tag": "v1"}, "", "tailscale/k8s-nameserver:v1", UPSTREAM),
        (DEFAULT, {"tag": "v1"}, "k8s-nameserver", "tailscale/k8s-nameserver:v1", UPSTREAM),
        (DEFAULT, {"tag": "v1"}, "tsnameserver", "example.org/ns:v1", OURS),
        (DEFAULT, {"repo": "example.org/ns"}, "", DEFAULT, OURS),
        (DEFAULT, {"repo": "example.org/ns", "tag": "v1"}, "", "example.org/ns:v1", OURS),
        (DEFAULT, {"repo": "mirror.org/ns"}, "", "mirror.org/ns:stable", UNKNOWN),
        (DEFAULT, {"repo": "mirror.org/ns"}, "tsnameserver", "mirror.org/ns:v2", OURS),
        (DEFAULT, {"repo": "mirror.org/ns"}, "k8s-nameserver", "mirror.org/ns:stable", UPSTREAM),
        (DEFAULT, {"repo": "ghcr.io/tailscale/k8s-nameserver"}, "", f"ghcr.io/{THEIRS}", UPSTREAM),
        (DEFAULT, {"repo": "mirror.org/k8s-nameserver"}, "", "mirror.org/k8s-nameserver:stable", UNKNOWN),
        ("mirror.org/k8s-nameserver:v1", {}, "", "mirror.org/k8s-nameserver:v1", UNKNOWN),
        ("mirror.org/k8s-nameserver:v1", {"tag": "v3"}, "", "mirror.org/k8s-nameserver:v3", UNKNOWN),
        ("mirror.org/k8s-nameserver:v1", {"repo": "other"}, "", "other:v1", UNKNOWN),
        ("mirror.org/k8s-nameserver:v1", {}, "tsnameserver", "mirror.org/k8s-nameserver:v1", OURS),
        ("k8s-nameserver/ours:v1", {}, "", "k8s-nameserver/ours:v1", OURS),
        ("example.org:5000/ns", {"repo": "example.org:5000/ns"}, "", "example.org:5000/ns:latest", OURS),
        ("example.org/ns@sha256:abc", {}, "", "example.org/ns@sha256:abc", OURS),
        ("example.org/ns@sha256:abc", {"tag": "v1"}, "tsnameserver", "example.org/ns:v1", OURS),
        ("example.org/ns:v2@sha256:abc", {"repo": "other"}, "tsnameserver", "other:v2", OURS),
    ],
)
def test_the_image_of_the_nameserver_never_combines_the_repository_of_one_program_with_the_tag_of_another(
    default: str, asked: Object, said: str, image: str, program: Program
) -> None:
    given = {"tailscale.com/nameserver": said} if said else {}
    obj = live_dnsconfig(nameserver={"image": asked}, annotations=given)
    parsed = DNSConfig.parse(obj)
    assert isinstance(parsed, DNSConfig)
    assert nameserver_image(obj, parsed, settings(nameserver_image=default)) == NameserverImage(image, program)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [(None, False), ("tsnameserver", False), ("k8s-nameserver", False), ("ours", True), ("", True)],
)
def test_an_unknown_nameserver_program_is_an_error(said: str | None, wrong: bool) -> None:
    given = {} if said is None else {"tailscale.com/nameserver": said}
    parsed = parse(live_dnsconfig(annotations=given))
    words = parsed.message if isinstance(parsed, Invalid) else ""
    assert ("write tsnameserver if " in words, "k8s-nameserver if it is Tailscale's" in words) == (wrong, wrong)


@pytest.mark.parametrize("program", Program)
def test_records_are_split_into_shards_only_once_all_pods_run_our_nameserver(program: Program) -> None:
    image = NameserverImage(DEFAULT, program)
    assert reads_shards(rolled_out(DEFAULT), image) is (program is OURS)
    assert not reads_shards(rolled_out("example.org/ns:v1"), image)
    assert not reads_shards(rolled_out(DEFAULT, updatedReplicas=1), image)
    assert not reads_shards(None, image)
