"""The API server's answers that aren't stored objects: its version, and the answers to reviews of a client's rights."""

import re

from clustersim.objects import Object

VERSION: Object = {"major": "1", "minor": "36", "gitVersion": "v1.36.0-clustersim", "platform": "simulated"}
_REVIEW = re.compile(
    r"/apis/authorization\.k8s\.io/v1/(?:namespaces/[^/]+/)?"
    r"(?:self|local)?subject(?:access|rules)reviews"
)


def is_review(path: str) -> bool:
    """Tell whether the URL *path* is for reviews, by which a client asks about its rights."""
    return _REVIEW.fullmatch(path) is not None


def review(asked: Object) -> Object:
    """Return the review *asked* with the answer that the client is allowed to do everything."""
    if asked.get("kind") == "SelfSubjectRulesReview":
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        return {**asked, "status": {"resourceRules": rules, "nonResourceRules": [], "incomplete": False}}
    return {**asked, "status": {"allowed": True, "reason": "the simulated cluster allows everything"}}
