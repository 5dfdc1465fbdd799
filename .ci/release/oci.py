"""Reads and writes OCI layouts: folders with an image, with an image for several platforms, or with a statement."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

Descriptor = dict[str, Any]

INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
EMPTY: Final = "application/vnd.oci.empty.v1+json"
STATEMENT: Final = "application/vnd.in-toto+json"
PREDICATE_TYPE: Final = "in-toto.io/predicate-type"
NAME_OF_IMAGE: Final = "io.containerd.image.name"
"""The annotation from which containerd takes the name of an image that it imports."""
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
"""The name of a file in a layer. It hides the files that lower layers have in its folder."""


def only_manifest(layout: Path) -> Descriptor:
    """Return the descriptor of the only image in *layout*."""
    (found,) = _read(layout / "index.json")["manifests"]
    return {key: found[key] for key in ("mediaType", "digest", "size")}


def blob(layout: Path, digest: str) -> Path:
    """Return the path of the file in *layout* whose content has this *digest*."""
    return layout / "blobs" / digest.replace(":", "/")


def config_of(layout: Path) -> dict[str, Any]:
    """Return the configuration of the only image in *layout*."""
    manifest = _read(blob(layout, only_manifest(layout)["digest"]))
    return _read(blob(layout, manifest["config"]["digest"]))


def files_of(layout: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the contents of files of the only image in *layout*, by path.

    The function *wanted* chooses the files by their paths, which have no slash at the start.
    """
    found: dict[str, bytes] = {}
    for layer in _read(blob(layout, only_manifest(layout)["digest"]))["layers"]:
        for path, content in _entries(blob(layout, layer["digest"]), wanted):
            folder, _, name = path.rpartition("/")
            if name.startswith(_WHITEOUT):
                gone = folder if name == _OPAQUE else f"{folder}/{name.removeprefix(_WHITEOUT)}".removeprefix("/")
                found = {each: text for each, text in found.items() if each != gone and not each.startswith(f"{gone}/")}
            else:
                found[path] = content
    return found


def _entries(layer: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each *wanted* file in *layer*.

    Before these, yield the path of each whiteout, a file that hides files of lower layers, with an empty content.
    """
    data = layer.read_bytes()
    plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        entries = [(entry, entry.name.removeprefix("./").removeprefix("/")) for entry in tar if entry.isfile()]
        hiding = [path for _, path in entries if path.rpartition("/")[2].startswith(_WHITEOUT)]
        yield from ((path, b"") for path in hiding)
        for entry, path in entries:
            content = tar.extractfile(entry) if wanted(path) and path not in hiding else None
            if content:
                yield path, content.read()


def write_index(layout: Path, images: Mapping[str, Path]) -> Descriptor:
    """Write an image for several platforms into *layout*, and return its descriptor.

    *images* has the layout of the image for each platform, by platform.
    """
    manifests = []
    for platform, image in images.items():
        shutil.copytree(image / "blobs", layout / "blobs", dirs_exist_ok=True)
        system, architecture, *variant = platform.split("/")
        described = {"os": system, "architecture": architecture} | ({"variant": variant[0]} if variant else {})
        manifests.append({**only_manifest(image), "platform": described})
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    return {"mediaType": INDEX, **_write_layout(layout, index)}


def write_archive(file: Path, images: Mapping[str, Path]) -> None:
    """Write several images into *file*, which containerd and `docker load` can import.

    *images* has the layout of each image, by the full name of the image. The file describes its contents twice: in the
    index of an OCI layout, which containerd reads, and in the manifest.json of `docker save`.
    """
    described, saved = [], []
    with tarfile.open(file, "w") as archive:
        added: set[str] = set()
        for name, layout in images.items():
            image = only_manifest(layout)
            manifest = _read(blob(layout, image["digest"]))
            tag = name.rpartition(":")[2]
            described.append({**image, "annotations": {NAME_OF_IMAGE: name, "org.opencontainers.image.ref.name": tag}})
            contents = [each["digest"] for each in (manifest["config"], *manifest["layers"])]
            paths = {digest: f"blobs/{digest.replace(':', '/')}" for digest in (image["digest"], *contents)}
            config, *layers = (paths[digest] for digest in contents)
            saved.append({"Config": config, "RepoTags": [name], "Layers": layers})
            for digest, path in paths.items():
                if path not in added:
                    archive.add(blob(layout, digest), path, filter=_as_root)
                    added.add(path)
        _add(archive, "index.json", {"schemaVersion": 2, "mediaType": INDEX, "manifests": described})
        _add(archive, "oci-layout", {"imageLayoutVersion": "1.0.0"})
        _add(archive, "manifest.json", saved)


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def _add(archive: tarfile.TarFile, path: str, content: object) -> None:
    data = json.dumps(content, sort_keys=True).encode()
    entry = tarfile.TarInfo(path)
    entry.size = len(data)
    archive.addfile(_as_root(entry), io.BytesIO(data))


def write_artifact(layout: Path, about: Descriptor, statement: Mapping[str, Any]) -> Descriptor:
    """Write an artifact with an in-toto *statement* into *layout*, and return the descriptor of the artifact.

    *about* is the descriptor of the image or chart that the statement is about.
    """
    content = json.dumps(statement, sort_keys=True).encode()
    layer = {**_write_blob(layout, STATEMENT, content), "annotations": {PREDICATE_TYPE: statement["predicateType"]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": STATEMENT,
        "config": _write_blob(layout, EMPTY, b"{}"),
        "layers": [layer],
        "subject": {key: about[key] for key in ("mediaType", "digest", "size")},
        "annotations": {PREDICATE_TYPE: statement["predicateType"]},
    }
    described = _write_blob(layout, MANIFEST, json.dumps(manifest, sort_keys=True).encode())
    _write_layout(layout, {"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]})
    return described


def _write_blob(layout: Path, media_type: str, content: bytes) -> Descriptor:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    file = blob(layout, digest)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _write_layout(layout: Path, index: Mapping[str, Any]) -> Descriptor:
    """Write *index* and the version of the format into *layout*, and return the digest and the size of the index."""
    content = json.dumps(index, sort_keys=True).encode()
    (layout / "index.json").write_bytes(content)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found
