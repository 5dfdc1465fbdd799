"""Tells which errors are refusals. The affected object reports a refusal to the user."""

from tsoperator.kube.errors import Denied, NameTaken, Rejected
from tsoperator.runtime.plan import Refusal
from tsoperator.tsclient.errors import ControlError
from tsoperator.tsclient.explanations import explain


def refusal_of(error: Exception) -> Refusal | None:
    """Return why the API server or a control server refused; None for an *error* that may pass by itself."""
    if isinstance(error, ControlError | Denied | Rejected):
        explanation = explain(error)
        return Refusal(explanation.message, explanation.reason, error, isinstance(error, NameTaken))
    return None
