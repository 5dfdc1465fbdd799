"""A node: containerd, kubelet and kube-proxy."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.testbed import network
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.controlplane import ControlPlane
from tests.e2e.testbed.daemons import Daemon
from tests.e2e.testbed.isolation import Isolation
from tests.e2e.testbed.leftovers import make_cgroups
from tests.e2e.testbed.network import FIRST_NODE, Place
from tests.e2e.testbed.parts import named, program
from tests.e2e.testbed.registry import PAUSE, PORT

SOCKET = "/run/containerd/containerd.sock"  # in the isolation's own /run
TAINT = {"key": "example.org/second-node", "effect": "NoSchedule"}
"""The taint of a second node. It keeps away all Pods that don't tolerate it."""

# restrict_oom_score_adj: runc can't lower a score where root lacks CAP_SYS_RESOURCE, and says
# "can't get final child's PID". volatile: without it the end of each container waits for the whole disk to be written.
CONTAINERD = """
version = 3
root = "{folder}/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{folder}/cni"
[plugins."io.containerd.snapshotter.v1.overlayfs"]
mount_options = ["volatile"]
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{folder}/registries"
"""
HOSTS = """
server = "http://{registry}"
[host."http://{registry}"]
capabilities = ["pull", "resolve"]
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the bed's cluster.

    The first node is in the isolation of the control plane, each other node has its own.
    """

    plane: ControlPlane
    inside: Isolation
    folder: Path
    place: Place = FIRST_NODE

    def start_runtime(self) -> None:
        """Start containerd, which doesn't need the registry until the first Pod starts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_containerd()
        self._write("cni/10-testbed.conflist", _cni(self.place.pods))
        # containerd looks for its shim on the PATH.
        path = f"{named('containerd').output(self.plane.paths)}:/usr/sbin:/sbin:{os.environ.get('PATH', os.defpath)}"
        argv: list[Word] = [program(self.plane.paths, "containerd"), f"--config={self.folder / 'containerd.toml'}"]
        self.plane.daemons.start(self._named("containerd"), argv, self.inside, env={"PATH": path})

    def start(self) -> None:
        """Start the kubelet and kube-proxy on the node, after containerd. The API server must be ready."""
        version: list[Word] = [program(self.plane.paths, "ctr"), "--address", SOCKET, "version"]
        runs = lambda: self.inside.run(version, timeout=10)  # noqa: E731
        self.plane.daemons.wait_for(self._named("containerd"), runs, 60, "ctr version")
        (self.folder / "resolv.conf").write_text("")
        kubelet = self._write("kubelet.json", self._kubelet())
        self._start("kubelet", f"--config={kubelet}", f"--root-dir={self.folder / 'kubelet'}", *self._kubelet_flags)
        proxy = self._write("kube-proxy.json", _kube_proxy(self.place.name, self.plane.kubeconfig("system:kube-proxy")))
        self._start("kube-proxy", f"--config={proxy}")

    def wait(self) -> None:
        """Wait until the node accepts Pods."""
        path = '{.status.conditions[?(@.type=="Ready")].status}'
        ready = ("get", "node", self.place.name, "-o", f"jsonpath={path}")
        is_ready = lambda: self.plane.kubectl(*ready, timeout=10) == "True"  # noqa: E731
        self.plane.daemons.wait_for(self._named("kubelet"), is_ready, 90, f"node {self.place.name} Ready")

    def die(self) -> None:
        """Cut the node off and kill all its processes at once, as a power failure does."""
        self.inside.run(["ip", "link", "set", "eth0", "down"])
        self.inside.first.end(grace=0)

    def remove(self) -> None:
        """Remove the node and its Pods from the cluster. The node can be dead already."""
        self.inside.remove()
        self.plane.kubectl("delete", "node", self.place.name, "--ignore-not-found")
        here = f"--field-selector=spec.nodeName={self.place.name}"
        self.plane.kubectl("delete", "pods", "--all-namespaces", here, "--force", "--grace-period=0")
        shutil.rmtree(self.folder)

    def _named(self, program: str) -> str:
        """Return the name that this node's *program* has in the bed's `Daemons`."""
        return program if self.place == FIRST_NODE else f"{self.place.name}-{program}"

    @property
    def _logs(self) -> Path:
        return self.plane.daemons.logs / self._named("pods")

    def _kubelet(self) -> dict[str, Any]:
        configuration = _kubelet(self.folder, self.plane.pki.ca, self._logs)
        if self.place == FIRST_NODE:
            return configuration
        # Two kubelets with one cgroup would end each other's Pods.
        return {**configuration, "cgroupRoot": make_cgroups(self.place.name), "registerWithTaints": [TAINT]}

    @property
    def _kubelet_flags(self) -> list[str]:
        kubeconfig = self.plane.kubeconfig(f"system:node:{self.place.name}")
        flags = {"kubeconfig": kubeconfig, "hostname-override": self.place.name, "node-ip": self.place.address}
        return [f"--{flag}={value}" for flag, value in flags.items()]

    def _start(self, name: str, *flags: str) -> Daemon:
        return self.plane.daemons.start(self._named(name), [program(self.plane.paths, name), *flags], self.inside)

    def _write_containerd(self) -> None:
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(folder=self.folder, pause=PAUSE))
        hosts = self.folder / "registries" / "_default" / "hosts.toml"
        hosts.parent.mkdir(parents=True)
        hosts.write_text(HOSTS.format(registry=f"{FIRST_NODE.address}:{PORT}"))

    def _write(self, name: str, content: Mapping[str, Any]) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1))
        return file


def _cni(pods: str) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "testbed", "plugins": [bridge, ports]}


def _kubelet(folder: Path, ca: Path, logs: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(ca)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "podLogsDir": str(logs),
        "volumePluginDir": str(folder / "volume-plugins"),
        "resolvConf": str(folder / "resolv.conf"),
        "clusterDNS": [network.DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "maxPods": 500,
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def _kube_proxy(node: str, kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": node,
        "mode": "iptables",
        "clusterCIDR": network.POD_CIDR,
        # A network namespace other than the first can't set the machine's limits.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0s"},
    }
