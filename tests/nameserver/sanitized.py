"""A pytest plugin that loads the compiled loop from the path in the variable SANITIZED_UDPLOOP."""

import importlib.util
import os
import sys

_NAME = "tsnameserver._udploop"
_SPEC = importlib.util.spec_from_file_location(_NAME, os.environ["SANITIZED_UDPLOOP"])
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules[_NAME] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules[_NAME])
