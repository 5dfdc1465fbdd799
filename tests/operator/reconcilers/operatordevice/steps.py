"""The steps of a plan for the operator's own device, in words."""

from tsoperator.api.objects import key_of
from tsoperator.runtime.plan import Child, Creation, Deletion, Patch, Plan


def in_words(made: Plan) -> list[str]:
    """Return each step of the plan *made* as a verb and a name; for a request to a control server, only its type."""

    def words(step: object) -> str:
        match step:
            case Child(obj):
                return f"make {key_of(obj).name}"
            case Creation(obj):
                return f"create {key_of(obj).name}"
            case Deletion(_, obj):
                return f"delete {key_of(obj).name}"
            case Patch(_, key):
                return f"patch {key.name}"
        return type(step).__name__

    return [*map(words, made.steps)]
