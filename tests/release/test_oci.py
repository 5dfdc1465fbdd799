"""OCI layouts: the files of images, indexes of several platforms, and statements about images."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from release import oci

from tests.release import layouts


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("layers", "found"),
    [
        ([{"app/a": "1", "app/b": "2", "etc/c": "3"}], {"app/a": b"1", "app/b": b"2"}),
        ([{"./app/a": "1"}, {"/app/b": "2"}], {"app/a": b"1", "app/b": b"2"}),
        ([{"app/a": "1"}, {"app/a": "2"}], {"app/a": b"2"}),
        ([{"app/a": "1", "app/ab": "2"}, {"app/.wh.a": ""}], {"app/ab": b"2"}),
        ([{"app/d/a": "1"}, {"app/.wh.d": ""}], {}),
        ([{"app/a": "1"}, {".wh.app": ""}], {}),
        ([{"app/a": "1"}, {"app/b": "2", "app/.wh..wh..opq": ""}], {"app/b": b"2"}),
    ],
)
def test_the_files_of_an_image_are_those_of_all_its_layers_and_a_higher_layer_replaces_files_below(
    tmp_path: Path, layers: list[dict[str, str]], found: dict[str, bytes], zipped: bool
) -> None:
    layout = layouts.write(tmp_path, layers, zipped=zipped)
    assert oci.files_of(layout, lambda path: path.startswith("app/")) == found


def read(layout: Path, descriptor: dict[str, Any]) -> dict[str, Any]:
    """Return the content that *descriptor* names, after checking its size and its digest."""
    content = oci.blob(layout, descriptor["digest"]).read_bytes()
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
    assert len(content) == descriptor["size"]
    found: dict[str, Any] = json.loads(content)
    return found


def test_an_index_leads_to_the_images_of_all_platforms(tmp_path: Path) -> None:
    images = {
        platform: layouts.write(tmp_path / str(number), [{"a": platform}], User=platform)
        for number, platform in enumerate(["linux/amd64", "linux/arm/v7"])
    }
    layout = tmp_path / "index"
    described = oci.write_index(layout, images)
    content = (layout / "index.json").read_bytes()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert described == {"mediaType": oci.INDEX, "digest": digest, "size": len(content)}
    index = json.loads(content)
    assert index["mediaType"] == oci.INDEX
    assert [each["platform"] for each in index["manifests"]] == [
        {"os": "linux", "architecture": "amd64"},
        {"os": "linux", "architecture": "arm", "variant": "v7"},
    ]
    manifests = [read(layout, each) for each in index["manifests"]]
    assert [read(layout, each["config"])["config"]["User"] for each in manifests] == [*images]


def test_an_archive_of_images_can_be_loaded_by_containerd_and_by_docker(tmp_path: Path) -> None:
    images = {
        f"docker.io/library/{name}:1": layouts.write(tmp_path / name, [{"shared": "s"}, {"a": name}], User=name)
        for name in ("one", "two")
    }
    oci.write_archive(tmp_path / "images.tar", images)
    with tarfile.open(tmp_path / "images.tar") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
        assert len(archive.getnames()) == len({*archive.getnames()})
    unpacked = tmp_path / "unpacked"
    index = json.loads((unpacked / "index.json").read_text())
    assert [each["annotations"]["io.containerd.image.name"] for each in index["manifests"]] == [*images]
    manifests = [read(unpacked, each) for each in index["manifests"]]
    assert [read(unpacked, each["config"])["config"]["User"] for each in manifests] == ["one", "two"]
    saved = json.loads((unpacked / "manifest.json").read_text())
    assert [each["RepoTags"] for each in saved] == [[name] for name in images]
    for each, manifest in zip(saved, manifests, strict=True):
        assert each["Config"] == f"blobs/{manifest['config']['digest'].replace(':', '/')}"
        digests = [f"sha256:{hashlib.sha256((unpacked / layer).read_bytes()).hexdigest()}" for layer in each["Layers"]]
        assert digests == [layer["digest"] for layer in manifest["layers"]]


def test_a_statement_about_an_image_is_an_oci_artifact_whose_subject_is_the_image(tmp_path: Path) -> None:
    about = {"mediaType": oci.MANIFEST, "digest": "sha256:1", "size": 7, "platform": {"os": "linux"}}
    statement = {"predicateType": "https://example.org/said", "predicate": {"a": 1}}
    described = oci.write_artifact(tmp_path, about, statement)
    manifest = read(tmp_path, described)
    assert oci.only_manifest(tmp_path) == described
    assert manifest["subject"] == {"mediaType": oci.MANIFEST, "digest": "sha256:1", "size": 7}
    (layer,) = manifest["layers"]
    assert manifest["artifactType"] == layer["mediaType"] == "application/vnd.in-toto+json"
    assert manifest["annotations"] == layer["annotations"] == {"in-toto.io/predicate-type": "https://example.org/said"}
    assert (read(tmp_path, layer), read(tmp_path, manifest["config"])) == (statement, {})
