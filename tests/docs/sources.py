"""Reads the sources of tests, which tables of the documentation's tests name."""

import ast
from pathlib import Path


def functions_of(file: Path) -> set[str]:
    """Return the names of the functions of a module."""
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
