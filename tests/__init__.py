"""All tests: of the operator, the nameserver, the chart, the documentation and the programs for tests."""

import pytest

pytest.register_assert_rewrite("tests.support")  # its assertions say what differed too
