"""The kinds that the operator reconciles, as parameters for the tests of the contract.

To run all tests of the contract on a new kind, add one `KindExample` to one of the lists that `KINDS` has.
"""

from collections.abc import Iterable, Sequence

import pytest

from tests.operator.contract.groups import GROUPED
from tests.operator.contract.kind import KindExample
from tests.operator.contract.settings import SETTINGS
from tests.operator.contract.standalone import STANDALONE
from tests.support import real

KINDS: Sequence[KindExample] = [*STANDALONE, *GROUPED, *SETTINGS]
"""The kinds on which the tests of the contract run."""

_FOLLOWED = {resource.kind for resource in real.KINDS}


def marks(kind: KindExample) -> list[pytest.MarkDecorator]:
    """Return pytest's marks for *kind*: `simulated` if its tests can't run on a real API server.

    On a real API server, a World doesn't watch all kinds, and has no virtual time.
    """
    is_real = kind.resource.kind in _FOLLOWED and not kind.waits_for_minutes
    return [] if is_real else [pytest.mark.simulated]


def each(kinds: Iterable[KindExample]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name, marks=marks(kind)) for kind in kinds])


each_kind = each(KINDS)
each_parent = each(kind for kind in KINDS if kind.children)
each_labelling = each(kind for kind in KINDS if kind.children and kind.is_labelled)
each_joining = each(kind for kind in KINDS if kind.devices)
each_lasting = each(kind for kind in KINDS if not kind.is_collected)
each_rejoining = each(kind for kind in KINDS if kind.devices and not kind.is_collected)
each_edited = each(kind for kind in KINDS if kind.edits)
each_held = each(kind for kind in KINDS if kind.ending and kind.is_held)
