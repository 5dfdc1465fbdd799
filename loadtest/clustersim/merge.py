"""JSON merge patch (RFC 7386)."""

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """Return *target* with a JSON merge patch applied; the result and *target* share the unchanged parts."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        else:
            merged[field] = merge_patch(merged.get(field), value)
    return merged
