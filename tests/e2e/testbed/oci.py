"""Writes and reads container images as OCI layouts.

An image is a list of tar files and a configuration, so no container engine is needed. The layers stay uncompressed: all
traffic is on one machine, where gzip would cost more than it saves.
"""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Start:
    """The command and the environment with which a container of an image starts."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Sequence[str] = (PATH,)


def architecture() -> str:
    """Return this machine's architecture in the form that images use."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def other_architecture() -> str:
    """Return the other architecture for which a release has images."""
    return "amd64" if architecture() == "arm64" else "arm64"


def digest_of(file: Path) -> str:
    """Return a file's SHA-256 as hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_layer(target: Path, files: Mapping[str, Path]) -> None:
    """Write a tar file with *files*, a map from the path in the image to the file here. All files belong to root."""
    with tarfile.open(target, "w") as tar:
        for inside, file in sorted(files.items()):
            entry = tar.gettarinfo(file, inside.lstrip("/"))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            with file.open("rb") as content:
                tar.addfile(entry, content)


def write_layout(folder: Path, layers: Sequence[Path], start: Start, of: str = "") -> None:
    """Write an OCI layout with one image.

    On the same file system, layers are hard links and not copies. *of* is the image's architecture, by default this
    machine's.
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    digests = []
    for layer in layers:
        digests.append(digest_of(layer))
        _link(layer, blobs / digests[-1])
    config = {
        "architecture": of or architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": list(start.entrypoint),
            "Cmd": list(start.command),
            "Env": list(start.environment),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        # buildah compares the number of layers with this list.
        "history": [{"created_by": "testbed"} for _ in digests],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(blobs, CONFIG, config),
        "layers": [_descriptor(LAYER, blobs / digest) for digest in digests],
    }
    index = {"schemaVersion": 2, "manifests": [_blob(blobs, MANIFEST, manifest)]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def layers_of(folder: Path) -> list[Path]:
    """Return the layer files of the only image in an OCI layout."""
    return [_blob_path(folder, layer["digest"]) for layer in _manifest(folder)["layers"]]


def _manifest(folder: Path) -> dict[str, Any]:
    index = json.loads((folder / "index.json").read_text())
    manifest: dict[str, Any] = json.loads(_blob_path(folder, index["manifests"][0]["digest"]).read_text())
    return manifest


def _blob_path(folder: Path, digest: str) -> Path:
    return folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _blob(blobs: Path, media_type: str, content: Mapping[str, Any]) -> dict[str, Any]:
    data = json.dumps(content, sort_keys=True).encode()
    file = blobs / hashlib.sha256(data).hexdigest()
    file.write_bytes(data)
    return _descriptor(media_type, file)


def _descriptor(media_type: str, file: Path) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{file.name}", "size": file.stat().st_size}


def _link(source: Path, target: Path) -> None:
    if target.exists():
        return
    try:
        target.hardlink_to(source)
    except OSError:  # the folder is on another file system, so a hard link isn't possible
        shutil.copyfile(source, target)
