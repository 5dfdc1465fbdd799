"""Makes in-toto statements about an image or a chart, such as its SLSA provenance, which says how it was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

PROVENANCE: Final = "https://slsa.dev/provenance/v1"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_UNKNOWN: Final = "https://localhost"


@dataclass(frozen=True, slots=True)
class Build:
    """One run of `make images`: its sources, its builder and its times."""

    commit: str
    clean: bool
    """True if the sources had no change since the commit."""
    source: str
    """The URL of the repository, or `_UNKNOWN`."""
    builder: str
    """The URL of the workflow that runs the build. Outside GitHub Actions, it is a made-up URL of localhost."""
    invocation: str
    started: str
    finished: str = ""

    @property
    def docs(self) -> str:
        """The URL of the documentation in this commit; empty if the repository is unknown."""
        return "" if self.source == _UNKNOWN else f"{self.source}/blob/{self.commit}/docs"


def build_from(environment: Mapping[str, str], commit: str, clean: bool, started: str) -> Build:
    """Return the build of *commit* that began at the time *started* and still runs.

    *clean* is True if the sources have no change since the commit. In GitHub Actions, the *environment* names the
    repository, the workflow and its run.
    """
    server, repository = (environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY"))
    source = f"{server}/{repository}" if server and repository else _UNKNOWN
    workflow, run = (environment.get(f"GITHUB_{name}", "") for name in ("WORKFLOW_REF", "RUN_ID"))
    return Build(
        commit=commit,
        clean=clean,
        source=source,
        builder=f"{server}/{workflow}" if workflow else f"{_UNKNOWN}/make-images",
        invocation=f"{source}/actions/runs/{run}/attempts/{environment.get('GITHUB_RUN_ATTEMPT', '1')}" if run else "",
        started=started,
    )


def statement(name: str, digest: str, predicate_type: str, predicate: Mapping[str, Any]) -> dict[str, Any]:
    """Return an in-toto statement with *predicate* about the image or chart *name* with this *digest*."""
    return {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def provenance(build: Build, parameters: Mapping[str, Any], bases: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the SLSA provenance of an image or a chart: the *build* with its *parameters*, and the base images.

    *bases* has the digest of each base image, by the name of the image.
    """
    sources = {"uri": f"git+{build.source}", "digest": {"gitCommit": build.commit}}
    images: Sequence[dict[str, Any]] = [
        {"uri": f"docker://{name}", "digest": {"sha256": digest.removeprefix("sha256:")}}
        for name, digest in (bases or {}).items()
    ]
    metadata = {"invocationId": build.invocation, "startedOn": build.started, "finishedOn": build.finished}
    return {
        "buildDefinition": {
            "buildType": f"{build.source}#make-images",
            "externalParameters": dict(parameters),
            "internalParameters": {"sourcesAreThoseOfTheCommit": build.clean},
            "resolvedDependencies": [sources, *images],
        },
        "runDetails": {
            "builder": {"id": build.builder},
            "metadata": {name: value for name, value in metadata.items() if value},
        },
    }
