"""Tests."""

import pytest

pytest.register_assert_rewrite("tests.support")  # its assertions say what differed too
