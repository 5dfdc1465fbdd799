"""OCI layouts: folders with images, their indexes, and artifacts about them."""

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
"""Hides all that the layers below have in its folder."""


def only_manifest(layout: Path) -> Descriptor:
    """Return the descriptor of the one image in a layout."""
    (found,) = _read(layout / "index.json")["manifests"]
    return {key: found[key] for key in ("mediaType", "digest", "size")}


def blob(layout: Path, digest: str) -> Path:
    """Return the file that has the content with this digest."""
    return layout / "blobs" / digest.replace(":", "/")


def config_of(layout: Path) -> dict[str, Any]:
    """Return the configuration of the one image in a layout."""
    manifest = _read(blob(layout, only_manifest(layout)["digest"]))
    return _read(blob(layout, manifest["config"]["digest"]))


def files_of(layout: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the content of those files of the one image in a layout whose path, without / before it, is *wanted*."""
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
    """Yield the wanted files of a layer, and before them what hides files of the layers below."""
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
    """Make *layout* one image for several platforms (*images*: platform → its layout), and return its descriptor."""
    manifests = []
    for platform, image in images.items():
        shutil.copytree(image / "blobs", layout / "blobs", dirs_exist_ok=True)
        system, architecture, *variant = platform.split("/")
        described = {"os": system, "architecture": architecture} | ({"variant": variant[0]} if variant else {})
        manifests.append({**only_manifest(image), "platform": described})
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    return {"mediaType": INDEX, **_write_layout(layout, index)}


def write_archive(file: Path, images: Mapping[str, Path]) -> None:
    """Write one file with several images (*images*: full name → layout), as a node or `docker load` reads it.

    It has both descriptions of its contents: the index of an OCI layout, which containerd reads, and the manifest.json
    of `docker save`.
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
    """Make *layout* an artifact with an in-toto statement about what *about* describes, and return its descriptor."""
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
    """Write what makes a folder a layout, and return digest and size of its index."""
    content = json.dumps(index, sort_keys=True).encode()
    (layout / "index.json").write_bytes(content)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found
