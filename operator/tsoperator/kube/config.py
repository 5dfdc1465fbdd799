"""Loads the address of the API server and our credentials, from a kubeconfig or the Pod's ServiceAccount."""

import base64
import json
import os
from pathlib import Path
from ssl import SSLContext
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from tsoperator.api.objects import Object
from tsoperator.kube.errors import KubeError

_DEFAULT_NAMESPACE: Final = "default"
_DEFAULT_KUBECONFIG: Final = str(Path("~/.kube/config").expanduser())


class NoClusterError(KubeError):
    """An error: there is no usable kubeconfig and no ServiceAccount."""


async def load_configuration(kubeconfig: str = "", context: str = "") -> Configuration:
    """Return the configuration of the API server and the credentials.

    *kubeconfig* is a path (or several, joined by the path separator) as in ``KUBECONFIG``. If it is empty, use the
    Pod's ServiceAccount, or ``~/.kube/config`` outside a cluster or if *context* is given. *context* names a context
    of the kubeconfig; empty means its current context. Raises NoClusterError, which says what to set.
    """
    configuration = Configuration()
    try:
        if is_in_cluster(kubeconfig) and not context:
            config.load_incluster_config(client_configuration=configuration)
        else:
            await config.load_kube_config(
                config_file=_existing(kubeconfig or _DEFAULT_KUBECONFIG),
                context=context or None,
                client_configuration=configuration,
                persist_config=False,
            )
    except (config.ConfigException, yaml.YAMLError, OSError, TypeError, ValueError) as error:
        raise NoClusterError(
            f"cannot find the API server: {' '.join(str(error).split())}; "
            "set KUBECONFIG to a kubeconfig file, or run in a Pod with a ServiceAccount"
        ) from error
    configuration.proxy = configuration.proxy or _proxy_from_environment(configuration.host)
    return configuration


def current_namespace(kubeconfig: str, context: str) -> str:
    """Return the namespace that kubectl uses if the user names none: that of the *context*, or ``default``."""
    contexts, current = _contexts(kubeconfig)
    chosen = next((each for each in contexts if each["name"] == context), current) or {}
    return str((chosen.get("context") or {}).get("namespace") or _DEFAULT_NAMESPACE)


def context_names(kubeconfig: str) -> list[str]:
    """Return the names of the contexts in a kubeconfig; none if it can't be read."""
    return [str(each["name"]) for each in _contexts(kubeconfig)[0]]


def _contexts(kubeconfig: str) -> tuple[list[Object], Object | None]:
    """Return the contexts of a kubeconfig, and its current context; no contexts and None if it can't be read."""
    try:
        contexts, current = config.list_kube_config_contexts(_existing(kubeconfig or _DEFAULT_KUBECONFIG))
    except (config.ConfigException, yaml.YAMLError, OSError, TypeError, ValueError):
        return [], None
    return contexts, current


def is_in_cluster(kubeconfig: str) -> bool:
    """Tell whether this process runs in a Pod of the cluster that it talks to.

    That is so if *kubeconfig* is empty, and the environment has the address of the API server.
    """
    return not kubeconfig and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def tls_context(configuration: Configuration) -> SSLContext:
    """Return the TLS context for the API server. Raises KubeError if the certificates can't be used."""
    try:
        tls: SSLContext = RESTClientObject(configuration).ssl_context
    except OSError as error:  # ssl.SSLError is one
        raise KubeError(f"cannot use the certificates that lead to {configuration.host}: {error}") from error
    return tls


async def pod_of_token(configuration: Configuration) -> str:
    """Return the UID of the Pod to which our token is bound; empty if it is bound to none, or if we use no token.

    If the token is bound to a Pod, nobody can use it after the Pod is gone, because the API server refuses it.
    """
    if configuration.cert_file:  # the API server uses our certificate and ignores the token
        return ""
    token = await configuration.get_api_key_with_prefix("BearerToken", "authorization")
    return pod_in_claims(token or "")


def pod_in_claims(token: str) -> str:
    """Return the UID of the Pod to which a ServiceAccount's *token* is bound; empty if it is bound to none."""
    try:
        _, claims, _ = token.split(".")
        return str(
            json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["kubernetes.io"]["pod"]["uid"]
        )
    except (ValueError, LookupError, TypeError):
        return ""


def _proxy_from_environment(url: str) -> str | None:
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _existing(paths: str) -> str:
    """Return *paths* if there is a file at any of them. Otherwise raise FileNotFoundError.

    Without a file, the loader would complain of a missing key instead.
    """
    if not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep)):
        raise FileNotFoundError(f"there is no file {paths}")
    return paths
