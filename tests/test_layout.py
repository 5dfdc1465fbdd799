"""The tree is as the tools and the standard library need it."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tsnameserver.compiled import COMPILED

ROOT = Path(__file__).resolve().parent.parent
SOURCE_ROOTS = ("operator", "nameserver", "loadtest")
WHERE_IS_OPERATOR = "import sys; sys.modules.pop('operator', None); import operator; print(operator.__file__)"


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def wheel_packages() -> list[str]:
    packages: list[str] = pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return packages


def modules() -> list[Path]:
    return [path for package in wheel_packages() for path in sorted((ROOT / package).rglob("*.py"))]


def where_is_operator(directory: Path, *paths: Path) -> Path:
    """Return the file of the module `operator` for who runs Python in *directory* with *paths* before all others."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, "-c", WHERE_IS_OPERATOR]
    result = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    return Path(result.stdout.strip())


@pytest.mark.parametrize("directory", ["", *SOURCE_ROOTS])
def test_operator_is_the_standard_librarys(directory: str) -> None:
    library = Path(os.__file__).parent / "operator.py"
    assert where_is_operator(ROOT / directory) == library
    assert where_is_operator(ROOT / directory, ROOT, *(ROOT / root for root in SOURCE_ROOTS)) == library


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_is_no_package(root: str) -> None:
    assert (ROOT / root).is_dir()
    assert not (ROOT / root / "__init__.py").exists()


def test_every_folder_of_sources_and_tests_is_a_package() -> None:
    folders = {path.parent for path in (*modules(), *(ROOT / "tests").rglob("*.py"))}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_no_module_is_named_like_one_of_the_standard_library() -> None:
    names = {path: path.parent.name if path.name == "__init__.py" else path.stem for path in modules()}
    assert not [str(path.relative_to(ROOT)) for path, name in names.items() if name in sys.stdlib_module_names]


def test_no_module_imports_relatively() -> None:
    assert not [path for path in modules() if re.search(r"^ *from +\.", path.read_text(), re.MULTILINE)]


def test_the_udp_loop_is_left_out_where_there_is_no_compiler(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "nameserver" / "udploop" / "hatch_build.py"), str(tmp_path)]
    result = subprocess.run(
        command, env={**os.environ, "CC": "false"}, capture_output=True, text=True, timeout=30, check=False
    )
    assert (result.returncode, list(tmp_path.iterdir())) == (1, [])
    assert result.stderr.startswith("the compiled UDP loop is left out: ")


def test_ci_has_the_compiled_udp_loop() -> None:
    """Its tests are skipped where there is no compiler, which must not happen unseen."""
    assert COMPILED or "CI" not in os.environ


def test_every_package_is_in_the_wheel() -> None:
    packages = {
        str(path.parent.relative_to(ROOT)) for root in SOURCE_ROOTS for path in (ROOT / root).glob("*/__init__.py")
    }
    assert packages == {*wheel_packages()}


@pytest.mark.parametrize("package", wheel_packages())
def test_a_package_of_the_wheel_is_importable(package: str) -> None:
    imported = import_module(Path(package).name)
    assert imported.__file__ == str(ROOT / package / "__init__.py")


@pytest.mark.parametrize("script", pyproject()["project"]["scripts"].values())
def test_a_script_leads_to_a_function(script: str) -> None:
    module, function = script.split(":")
    assert callable(getattr(import_module(module), function))


def test_the_source_roots_are_those_of_the_editable_install() -> None:
    settings = pyproject()["tool"]
    assert {*settings["hatch"]["build"]["dev-mode-dirs"]} == {*SOURCE_ROOTS}
    assert {*settings["mypy"]["mypy_path"].split(":")} == {*SOURCE_ROOTS, ".ci", "."}
    assert {package.split("/")[0] for package in wheel_packages()} == {*SOURCE_ROOTS}


def test_the_readme_and_the_licence_that_the_wheel_names_exist() -> None:
    project = pyproject()["project"]
    assert all((ROOT / name).is_file() for name in (project["readme"], *project["license-files"]))
