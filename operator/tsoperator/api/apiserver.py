"""The API server proxy: its modes, and the faults of its settings."""

from enum import StrEnum

from tsoperator.api.rules import DNS_LABEL_MAX


class ProxyMode(StrEnum):
    """The mode of the API server proxy. Its value is that of the variable APISERVER_PROXY."""

    OFF = "false"
    AUTH = "true"
    """The API server knows the callers by their names in the tailnet."""
    NOAUTH = "noauth"
    """Callers log in to the API server themselves."""


def modes_error(mode: str, old: str) -> str:
    """Say that the variables APISERVER_PROXY and AUTH_PROXY ask for different modes, *mode* and *old*.

    The text is empty if the modes are equal, or if one of them is empty.
    """
    if not (mode and old) or mode == old:
        return ""
    return (
        f"APISERVER_PROXY is {mode!r} and AUTH_PROXY is {old!r}, so it isn't clear which of them you want: unset "
        "AUTH_PROXY, and set APISERVER_PROXY (apiServerProxyConfig.mode of the chart)"
    )


def device_secret_error(name: str) -> str:
    """Say why the Secret called *name* can't hold the state of an API server proxy's device.

    Return an empty text if the Secret can hold it.
    """
    if not name:
        return (
            "OPERATOR_SECRET is not set, and the API server proxy keeps its device there: give the name of a Secret in "
            "the operator's namespace (the chart does)"
        )
    if len(name) > DNS_LABEL_MAX:
        return (
            f"OPERATOR_SECRET: {name!r} is too long for an API server proxy, whose objects have it in a label: give it "
            f"at most {DNS_LABEL_MAX} characters (fullnameOverride of the chart)"
        )
    return ""
