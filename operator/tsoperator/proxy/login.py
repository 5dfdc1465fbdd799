"""The logins of a proxy's replicas: which ones need an auth key, and the messages about those that can't log in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tsoperator.proxy.replica import Replica
from tsoperator.proxy.secret import Reissue
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Note


@dataclass(frozen=True, slots=True)
class Login:
    """The facts about the logins of the *replicas* of a parent's proxy.

    *in_need* are the ordinals of the replicas that possibly need an auth key. *devices* has the IDs of the replicas'
    devices, by ordinal. A parent that *is_new* doesn't have our finalizer yet, so it has no children.
    """

    owner: Owner
    parent_uid: str
    replicas: Sequence[Replica]
    in_need: frozenset[int]
    devices: Mapping[int, str]
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Keys:
    """The auth keys with which replicas should log in, by ordinal.

    If a replica's auth key is the empty text, its parent has used up its share of auth keys, and the replica gets one
    in *requeue_after* seconds. If a proxy asks for another auth key but still seems connected, the operator also checks
    again after *requeue_after* seconds. For the *awaited* replicas, the control server has not answered yet. Their
    Secrets stay as they are, and the reconcile raises *pending* at its end to wait for the answer.
    """

    by_ordinal: Mapping[int, str] = field(default_factory=dict)
    requeue_after: float | None = None
    awaited: frozenset[int] = frozenset()
    pending: Exception | None = None


NO_KEYS = Keys()

SECONDS_A_KEY = 30.0
"""The seconds after which a parent that has used up its share of auth keys gets one more."""

_CAUSE = "could not log in to the tailnet: the auth key was refused, or the device was removed or has expired."
_GIVEN = "A new auth key has been given, with which it logs in anew"
_LATER = (
    f"Another auth key is given within {SECONDS_A_KEY:g} s; if this happens again and again, look at the log of the Pod"
)


def login_problem(asking: Mapping[int, Reissue], auth_keys: Mapping[int, str]) -> str:
    """Say which replicas can't log in yet, and what happens next; empty if all replicas can log in.

    *asking* has the replicas' requests for another auth key, by ordinal. An empty auth key in *auth_keys* means that
    the replica gets one later.
    """
    return " ".join(note.message for note in _told(asking, auth_keys, [*asking]))


def login_notes(asking: Mapping[int, Reissue], auth_keys: Mapping[int, str]) -> Sequence[Note]:
    """Return the Events for unanswered requests for auth keys.

    One Event names the replicas that get an auth key now. Another Event names the replicas that have to wait.
    """
    return _told(asking, auth_keys, [number for number in asking if asking[number] is Reissue.ASKED])


def _told(asking: Mapping[int, Reissue], auth_keys: Mapping[int, str], numbers: Sequence[int]) -> list[Note]:
    later = [number for number in numbers if auth_keys.get(number) == ""]
    given = [number for number in numbers if asking[number] is Reissue.ANSWERED or _is_given(number, asking, auth_keys)]
    told = (("AuthKeyReissued", given, _GIVEN), ("AuthKeyDelayed", later, _LATER))
    return [
        Note("Warning", reason, f"{_who(found, len(asking))} {_CAUSE} {words}")
        for reason, found, words in told
        if found
    ]


def _is_given(number: int, asking: Mapping[int, Reissue], auth_keys: Mapping[int, str]) -> bool:
    return asking[number] is Reissue.ASKED and bool(auth_keys.get(number))


def _who(numbers: Sequence[int], count: int) -> str:
    if count == 1:
        return "the proxy"
    return f"replica {', '.join(map(str, numbers))}"
