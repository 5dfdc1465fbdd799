"""Reports the objects with which something is wrong, according to the conditions that the operator wrote."""

from collections.abc import Iterable, Iterator

from tsoperator.api.objects import Object, key_of
from tsoperator.check.findings import OBJECTS, Finding, failed, ok, waiting
from tsoperator.status.conditions import UNNAMED, Grade, ingress_name, judge, ours, wrong_one


def check_conditions(objects: Iterable[Object]) -> Iterator[Finding]:
    """Yield a finding for each of *objects* that isn't served, according to a condition of the operator.

    If there is no such object, yield one finding with the number of objects that are served.
    """
    told = wrong = 0
    for obj in objects:
        conditions = ours(obj)
        told += bool(conditions)
        said = wrong_one(conditions)
        if said is not None:
            wrong += 1
            judged = judge(said)
            finding = waiting if judged.grade is Grade.WAITING else failed
            yield finding(
                OBJECTS,
                f"{obj['kind']} {key_of(obj)}: {said['type']} is {said['status']}: {judged.words}",
                judged.cure,
            )
    if not wrong:
        yield ok(OBJECTS, f"objects with a condition of the operator that are served: {told} of {told}")


def check_ingresses(ingresses: Iterable[Object], ingress_class: str) -> Iterator[Finding]:
    """Yield a finding for each Ingress of the operator's class that has no name in its status.

    If all of them have a name, yield one finding with their number. Ingresses have no conditions.
    """
    of_class = [each for each in ingresses if (each.get("spec") or {}).get("ingressClassName") == ingress_class]
    wrong = [key_of(each) for each in of_class if not ingress_name(each)]
    for key in wrong:
        yield failed(
            OBJECTS,
            f"Ingress {key}: {UNNAMED}",
            f"`kubectl -n {key.namespace} describe ingress {key.name}` shows Events that say why; a new Ingress needs "
            "a minute",
        )
    if of_class and not wrong:
        count = len(of_class)
        yield ok(OBJECTS, f"Ingresses of class {ingress_class} that have a name: {count} of {count}")
