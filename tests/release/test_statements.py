"""Provenance: from which sources something was made, and who ran it."""

from release.statements import Build, build_from, provenance, statement

ACTIONS = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "example/tailnet",
    "GITHUB_WORKFLOW_REF": "example/tailnet/.github/workflows/release.yml@refs/tags/v1",
    "GITHUB_RUN_ID": "7",
}
BUILD = Build("c0ffee", False, "https://example.org/a", "https://example.org/b", "", "then", "later")


def test_in_githubs_actions_the_workflow_and_its_run_are_named() -> None:
    found = build_from(ACTIONS, "c0ffee", True, "then")
    assert found == Build(
        commit="c0ffee",
        clean=True,
        source="https://github.com/example/tailnet",
        builder="https://github.com/example/tailnet/.github/workflows/release.yml@refs/tags/v1",
        invocation="https://github.com/example/tailnet/actions/runs/7/attempts/1",
        started="then",
    )


def test_elsewhere_the_builder_is_this_machine() -> None:
    found = build_from({}, "c0ffee", True, "then")
    assert (found.source, found.builder, found.invocation) == ("https://localhost", "https://localhost/make-images", "")


def test_provenance_names_the_commit_the_base_and_the_parameters() -> None:
    found = provenance(BUILD, {"target": "operator"}, {"example.org/python": "sha256:12"})
    definition = found["buildDefinition"]
    assert definition["externalParameters"] == {"target": "operator"}
    assert definition["internalParameters"] == {"sourcesAreThoseOfTheCommit": False}
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://example.org/a", "digest": {"gitCommit": "c0ffee"}},
        {"uri": "docker://example.org/python", "digest": {"sha256": "12"}},
    ]
    assert found["runDetails"]["builder"] == {"id": "https://example.org/b"}
    assert found["runDetails"]["metadata"] == {"startedOn": "then", "finishedOn": "later"}


def test_a_statement_is_about_one_digest() -> None:
    found = statement("example.org/a", "sha256:12", "https://example.org/said", {"b": 1})
    assert found["subject"] == [{"name": "example.org/a", "digest": {"sha256": "12"}}]
    assert (found["predicateType"], found["predicate"]) == ("https://example.org/said", {"b": 1})
