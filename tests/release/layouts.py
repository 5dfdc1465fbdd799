"""Writes OCI layouts like those of buildah, for the tests."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from release import oci


def write(folder: Path, layers: Sequence[Mapping[str, str]], *, zipped: bool = True, **config: Any) -> Path:
    """Write an image with the *layers* into *folder*, and return *folder*.

    A layer has the contents of files by path, and is compressed if *zipped* is true. *config* is the image's config.
    """
    described = []
    for layer in layers:
        data = _tar(layer)
        described.append(_blob(folder, gzip.compress(data) if zipped else data))
    manifest = {
        "schemaVersion": 2,
        "layers": described,
        "config": _blob(folder, json.dumps({"config": config}).encode()),
    }
    top = {**_blob(folder, json.dumps(manifest).encode()), "mediaType": oci.MANIFEST, "annotations": {"a": "b"}}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [top]}))
    return folder


def _tar(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def _blob(folder: Path, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    file = oci.blob(folder, digest)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return {"digest": digest, "size": len(content)}
