"""The layout of the source tree: packages and names work with the tools and with the standard library."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from tsnameserver.compiled import COMPILED

ROOT = Path(__file__).resolve().parent.parent
SOURCE_ROOTS = ("operator", "nameserver", "loadtest")
WHERE_IS_OPERATOR = "import sys; sys.modules.pop('operator', None); import operator; print(operator.__file__)"

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HATCH = PYPROJECT["tool"]["hatch"]["build"]
PACKAGES: list[str] = HATCH["targets"]["wheel"]["packages"]
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

OPERATOR = ROOT / "operator" / "tsoperator"
OPERATORS = {path.relative_to(OPERATOR).as_posix(): path.read_text() for path in MODULES if OPERATOR in path.parents}
"""The source texts of the operator's modules, by their paths."""
MOST_LINES = 450
ONE_A_KIND = {"Ask", "Observed"}
"""The names of classes that each reconciler can have: for the requests of its objects, and for the facts about one."""


@pytest.mark.parametrize("paths", [[], [ROOT, *(ROOT / root for root in SOURCE_ROOTS)]], ids=["plain", "sources first"])
@pytest.mark.parametrize("directory", ["", *SOURCE_ROOTS])
def test_import_operator_finds_the_module_of_the_standard_library_in_every_source_folder(
    directory: str, paths: list[Path]
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, "-c", WHERE_IS_OPERATOR]
    found = subprocess.check_output(command, cwd=ROOT / directory, env=environment, text=True, timeout=30)
    assert Path(found.strip()) == Path(os.__file__).parent / "operator.py"


def test_every_folder_of_sources_and_tests_is_a_package() -> None:
    folders = {path.parent for path in (*MODULES, *(ROOT / "tests").rglob("*.py"))}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_no_module_is_named_like_one_of_the_standard_library() -> None:
    names = {path: path.parent.name if path.name == "__init__.py" else path.stem for path in MODULES}
    assert not [str(path.relative_to(ROOT)) for path, name in names.items() if name in sys.stdlib_module_names]


def test_no_module_uses_relative_imports() -> None:
    assert not [path for path in MODULES if re.search(r"^ *from +\.", path.read_text(), re.MULTILINE)]


def test_no_two_public_classes_of_the_operator_have_the_same_name() -> None:
    nodes = (node for text in OPERATORS.values() for node in ast.walk(ast.parse(text)))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    assert {name for name, count in names.items() if count > 1} <= ONE_A_KIND


def test_no_module_of_the_operator_is_too_long_to_read_in_one_sitting() -> None:
    assert {path for path, text in OPERATORS.items() if len(text.splitlines()) > MOST_LINES} == set()


def test_the_modules_that_need_not_be_pure_are_those_that_pure_modules_must_not_import() -> None:
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    (pure,) = (each for each in contracts if each["name"] == "Decisions and answers are pure")
    (protected,) = (each for each in contracts if each["type"] == "protected")
    assert pure["ignore_imports"] == [f"{module} -> **" for module in protected["protected_modules"]]


def test_the_api_server_proxy_is_allowed_to_import_only_types_and_logs_of_the_operator() -> None:
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("source_modules") == ["tsoperator.apiproxy"])
    parts = {path.removesuffix(".py").split("/")[0] for path in OPERATORS} - {"__init__"}
    allowed = parts - {name.removeprefix("tsoperator.") for name in contract["forbidden_modules"]}
    assert allowed == {"api", "apiproxy", "logs"}


def test_only_the_app_imports_from_the_folder_of_a_reconciler() -> None:
    kinds = {f"tsoperator.reconcilers.{each.parent.name}." for each in OPERATOR.glob("reconcilers/*/__init__.py")}
    imported = {path: [*imports(text)] for path, text in OPERATORS.items() if path != "app.py"}
    for kind in kinds:
        users = {path for path, names in imported.items() if any(f"{name}.".startswith(kind) for name in names)}
        assert not [path for path in users if not f"tsoperator/{path}".replace("/", ".").startswith(kind)]


def imports(text: str) -> Iterator[str]:
    """Yield the full names of all that a module imports, such as `tsoperator.reconcilers.service.plan.Plan`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            where = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from (f"{where}{each.name}" for each in node.names)


def test_the_build_leaves_the_udp_loop_out_if_there_is_no_compiler(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "nameserver" / "udploop" / "hatch_build.py"), str(tmp_path)]
    result = subprocess.run(
        command, env={**os.environ, "CC": "false"}, capture_output=True, text=True, timeout=30, check=False
    )
    assert (result.returncode, list(tmp_path.iterdir())) == (1, [])
    assert result.stderr.startswith("the compiled UDP loop is left out: ")


def test_ci_tests_the_compiled_udp_loop() -> None:
    """Check that CI has a compiler: without one, the tests of the loop are skipped, and nobody would notice."""
    assert COMPILED or "CI" not in os.environ


def test_the_source_roots_contain_the_packages_of_the_wheel_and_are_no_packages_themselves() -> None:
    found = {path.parent.relative_to(ROOT) for root in SOURCE_ROOTS for path in (ROOT / root).glob("*/__init__.py")}
    assert {str(path) for path in found} == {*PACKAGES}
    assert {package.split("/")[0] for package in PACKAGES} == {*SOURCE_ROOTS} == {*HATCH["dev-mode-dirs"]}
    assert {*PYPROJECT["tool"]["mypy"]["mypy_path"].split(":")} == {*SOURCE_ROOTS, ".ci", "."}
    assert not any((ROOT / root / "__init__.py").exists() for root in SOURCE_ROOTS)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_of_the_wheel_is_importable(package: str) -> None:
    imported = import_module(Path(package).name)
    assert imported.__file__ == str(ROOT / package / "__init__.py")


def test_each_script_of_the_wheel_is_a_function_and_each_file_that_the_wheel_names_exists() -> None:
    project = PYPROJECT["project"]
    for module, _, function in (script.partition(":") for script in project["scripts"].values()):
        assert callable(getattr(import_module(module), function))
    assert all((ROOT / name).is_file() for name in (project["readme"], *project["license-files"]))
