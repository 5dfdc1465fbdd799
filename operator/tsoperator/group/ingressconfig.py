"""The ingress ConfigMap of a ProxyGroup, which tells the proxies what to serve (docs/development/groups.md).

The operator always computes the whole content of the ConfigMap. Nobody else writes it.
"""

import base64
from typing import Final

from tsoperator.api.names import INGRESS_RULES, INGRESS_SERVE_CONFIG
from tsoperator.api.objects import CONFIGMAP, Object, is_deleting, key_of
from tsoperator.proxy.hosting import Hosted, hosted, is_sound, rules_document, serve_document
from tsoperator.runtime.diff import metadata_patch
from tsoperator.runtime.plan import Creation, Patch, Step

_KEYS: Final = (INGRESS_RULES, INGRESS_SERVE_CONFIG)


def ingress_configmap_steps(wanted: Object, live: Object | None, content: Hosted) -> list[Step]:
    """Return the step that makes the ingress ConfigMap right; no step if it is right already.

    *wanted* has the metadata that the ConfigMap should have. The ConfigMap always has both documents, the rules and the
    serve config, even if they are empty: if a document is missing, the proxies keep the earlier one. The ConfigMap has
    no other keys.
    """
    if live is not None and is_deleting(live):
        return []  # when the ConfigMap is gone, the group is reconciled again
    if live is None:
        return [Creation({**wanted, "binaryData": {name: _document(name, content) for name in _KEYS}})]
    there = hosted(live)
    right = {INGRESS_RULES: there.rules == content.rules, INGRESS_SERVE_CONFIG: there.served == content.served}
    data: Object = {name: _document(name, content) for name in _KEYS if not (right[name] and is_sound(live, name))}
    data |= dict.fromkeys(name for name in live.get("binaryData") or () if name not in _KEYS)
    metadata = metadata_patch(live, wanted)
    body = ({"metadata": metadata} if metadata else {}) | ({"binaryData": data} if data else {})
    return [Patch(CONFIGMAP, key_of(live), body)] if body else []


def _document(name: str, content: Hosted) -> str:
    text = rules_document(content.rules) if name == INGRESS_RULES else serve_document(content.served)
    return base64.b64encode(text.encode()).decode()
