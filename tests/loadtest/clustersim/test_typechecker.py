import pytest
from clustersim.objects import ADMISSIONPOLICY
from clustersim.store import Store
from clustersim.typechecker import run

from tests.loadtest.clustersim.running import until
from tests.support.cluster import running


@pytest.mark.virtual_time
async def test_an_admission_policy_gets_a_status_a_moment_after_its_creation_and_after_an_edit() -> None:
    store = Store()
    policy = {"metadata": {"name": "a"}, "spec": {"failurePolicy": "Ignore"}}

    def checked() -> bool:
        found = store.get(ADMISSIONPOLICY, "", "a")
        return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])

    async with running(run(store)):
        for write in (store.create, store.replace):
            write(ADMISSIONPOLICY, policy)
            assert not checked()
            await until(store, checked)
            policy["spec"] = {"failurePolicy": "Fail"}
    assert store.get(ADMISSIONPOLICY, "", "a")["metadata"]["generation"] == 2
