"""The API server's refusals, worded as Kubernetes words them."""

from typing import Any

from clustersim.objects import Resource


class ApiError(Exception):
    """The API server refuses a request, with an HTTP status, a reason for programs and a message for people."""

    def __init__(self, status: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}

    def to_status(self) -> dict[str, Any]:
        """Return the ``Status`` object that is the body of the response."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.status,
        }


def _details(resource: Resource, name: str) -> dict[str, Any]:
    details = {"name": name, "kind": resource.plural}
    return {**details, "group": resource.group} if resource.group else details


def not_found(resource: Resource, name: str) -> ApiError:
    """Return the error for an object that doesn't exist."""
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    """Return the error for the creation of an object whose name another object has."""
    return ApiError(409, "AlreadyExists", f'{resource} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, cause: str) -> ApiError:
    """Return the error for a write that names another version or another UID than the present object has."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {cause}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def invalid(resource: Resource, name: str, field: str, cause: str) -> ApiError:
    """Return the error for an object whose *field* has an unacceptable value."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {
        **_details(resource, name),
        "kind": resource.kind,
        "causes": [{"reason": "FieldValueInvalid", "message": cause, "field": field}],
    }
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {field}: {cause}', details)


def forbidden(resource: Resource, name: str, cause: str) -> ApiError:
    """Return the error for a request that RBAC or the state of the object forbids."""
    what = f'{resource} "{name}"' if name else str(resource)
    return ApiError(403, "Forbidden", f"{what} is forbidden: {cause}", _details(resource, name))


def bad_request(message: str) -> ApiError:
    """Return the error for a request that can't be understood."""
    return ApiError(400, "BadRequest", message)


def expired(oldest: int, wanted: int) -> ApiError:
    """Return the error for a request for changes after version *wanted*, if the history begins only at *oldest*."""
    return ApiError(410, "Expired", f"too old resource version: {wanted} ({oldest})")
