"""The programs that are built from Go modules, and the folders of their builds."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.paths import PARTS, Paths

KUBERNETES = "v1.36.3"
OLDEST_KUBERNETES = "v1.30.14"
"""The newest patch release of the oldest Kubernetes version that the chart supports."""
_HELMS_KUBERNETES = tuple(f"helm.sh/helm/v3/pkg/chartutil.k8sVersion{part}" for part in ("Major", "Minor"))
_KUBERNETES_VERSION = "k8s.io/component-base/version.gitVersion"
TAILSCALE = "1.102.5"


@dataclass(frozen=True, slots=True)
class Part:
    """Programs that are built with one list of Go modules: the folder `parts/<name>` has its go.mod and go.sum."""

    name: str
    programs: Mapping[str, str]  # name of the binary → Go package
    values: Mapping[str, str] = field(default_factory=dict)  # Go variable → value, set by the linker

    @property
    def folder(self) -> Path:
        """The folder of the part: go.mod, go.sum, and our own sources, if it has any."""
        return PARTS / self.name

    @property
    def ldflags(self) -> str:
        """The linker's flags."""
        return " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in sorted(self.values.items()))])

    @property
    def digest(self) -> str:
        """The digest of the part's files, the names of its programs and packages, and the linker's flags.

        The name of the output folder contains the digest, so that a changed part is built again.
        """
        seen = hashlib.sha256(repr((sorted(self.programs.items()), self.ldflags)).encode())
        for file in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            seen.update(f"{file.relative_to(self.folder)}\0".encode() + file.read_bytes() + b"\0")
        return seen.hexdigest()[:16]

    def output(self, paths: Paths) -> Path:
        """Return the folder of the built programs. It doesn't exist before they are built."""
        return paths.cache / f"{self.name}-{self.digest}"


def _commands(module: str, *names: str) -> dict[str, str]:
    return {name: f"{module}/cmd/{name}" for name in names}


ALL = (
    Part(
        "kubernetes",
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            **_commands("k8s.io/kubernetes", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
            **_commands("k8s.io/kubernetes", "kubelet", "kube-proxy", "kubectl"),
        },
        {_KUBERNETES_VERSION: KUBERNETES},
    ),
    Part(
        "containerd",
        _commands("github.com/containerd/containerd/v2", "containerd", "containerd-shim-runc-v2", "ctr"),
    ),
    Part("coredns", {"coredns": "github.com/coredns/coredns"}),
    Part(
        "tailscale",
        {
            **_commands("tailscale.com", "tailscaled", "tailscale", "containerboot"),
            **_commands("tailscale.com", "k8s-nameserver", "k8s-operator", "k8s-proxy"),
        },
        {"tailscale.com/version.longStamp": TAILSCALE, "tailscale.com/version.shortStamp": TAILSCALE},
    ),
    Part("crane", _commands("github.com/google/go-containerregistry", "crane")),
    Part(
        "helm",
        {"helm": "helm.sh/helm/v3/cmd/helm"},
        # The Kubernetes for which `helm template` renders, as in an official build.
        dict(zip(_HELMS_KUBERNETES, KUBERNETES.removeprefix("v").split("."), strict=False)),
    ),
    Part("pebble", _commands("github.com/letsencrypt/pebble/v2", "pebble")),
    Part("pause", {"pause": "."}),
    Part("control", {"control": "."}),
    Part("recorder", {"tsrecorder": "."}),  # shares versions with `tailscale`, so most of it is built already
)

OLDEST = Part(
    "kubernetes-oldest",
    _commands("k8s.io/kubernetes", "kube-apiserver", "kube-controller-manager"),
    {_KUBERNETES_VERSION: OLDEST_KUBERNETES},
)
"""The programs of the oldest Kubernetes. Only a bed with *is_oldest* uses them instead of those in `ALL`."""

# The parts that a bed with only an API server needs.
API_ONLY = ("kubernetes",)


def named(name: str) -> Part:
    """Return the part called *name*.

    Raises: BedError: there is no such part.
    """
    for part in (*ALL, OLDEST):
        if part.name == name:
            return part
    raise BedError(f"there is no part {name}: choose from {', '.join(part.name for part in (*ALL, OLDEST))}")


def program(paths: Paths, name: str, *, oldest: bool = False) -> Path:
    """Return the path that the program called *name* has when it is built.

    With *oldest*, it is the program of the part `OLDEST`, if that part has a program of this name.

    Raises: BedError: no part has the program.
    """
    for part in (OLDEST, *ALL) if oldest else ALL:
        if name in part.programs:
            return part.output(paths) / name
    raise BedError(f"no part brings a program {name}")
