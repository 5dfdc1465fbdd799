"""The tokens of the API server's users, and their kubeconfig files."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

# The groups of each user that has a token.
USERS: Mapping[str, tuple[str, ...]] = {
    "admin": ("system:masters",),
    "system:serviceaccount:tailscale:operator": (),  # an operator that a test runs outside the cluster
    "operatorbench": ("system:masters",),  # an operator that the benchmark measures
    "kube-controller-manager": ("system:masters",),
    "system:kube-scheduler": (),
    "system:kube-proxy": (),
    "system:node:node1": ("system:nodes",),
    "system:node:node2": ("system:nodes",),
}


def make_tokens(file: Path) -> dict[str, str]:
    """Write a token file with a new token for each user, and return the tokens by user."""
    tokens = {user: secrets.token_hex(16) for user in USERS}
    lines = (f'{tokens[user]},{user},{user},"{",".join(groups)}"' for user, groups in USERS.items())
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)
    return tokens


def write_kubeconfig(file: Path, server: str, ca: Path, token: str) -> Path:
    """Write the kubeconfig of the user with *token* to *file*, in JSON, which is valid YAML. Return *file*."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
        "current-context": "testbed",
    }
    file.write_text(json.dumps(content, indent=1))
    file.chmod(0o600)
    return file
