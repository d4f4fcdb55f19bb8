"""Who may import whom, read from the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "jonline").rglob("*.py"))
}
FAMILIES = ("ordinal", "reject", "structured")
BELOW_FAMILIES = (
    "core", "checks", "draws", "hypotheses", "kernels", "optimizers", "oracles", "metrics",
)  # fmt: skip
ENGINE = (
    "equations",
    "stages",
    "loops",
    "lanes",
    "wide",
    "program",
    "rounds",
    "engine",
    "blocks",
    "files",
    "folder",
    "programs",
    "windows",
    "keys",
    "checkpoint",
    "fingerprint",
    "processes",
    "board",
    "host",
    "door",
    "result",
    "sweep",
)
REQUIRED = ("jax", "jaxlib", "optax", "numpy", "chex")
EXTRAS = ("pooch", "sklearn", "scipy", "tqdm", "xarray", "pandas", "matplotlib", "numba", "orbax")


def imported(path, top_level=False):
    """Dotted names that a file imports; names of `from jonline import …` with their package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(_outside_functions(tree)) if top_level else list(ast.walk(tree))
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            inside = node.module in _PACKAGES
            names.update(
                f"{node.module}.{alias.name}" if inside else node.module for alias in node.names
            )
    return names


_PACKAGES = {"jonline"} | {
    ".".join(path.parent.relative_to(ROOT).parts) for path in MODULES.values()
}


def _outside_functions(node):
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _outside_functions(child)


def parts(names):
    """The parts of jonline among dotted names: "jonline.ordinal.prank" is part "ordinal"."""
    return {name.split(".")[1] for name in names if name.startswith("jonline.")}


def of_part(part):
    return {name: path for name, path in MODULES.items() if [*name.split("."), ""][1] == part}


def test_imports_of_a_file_are_read_right(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(
        "import jonline.engine as e\nfrom jonline import core, checks\n"
        "from jonline.ordinal.prank import prank\nif True:\n    import numpy.linalg\n"
        "def f():\n    import scipy\nclass A:\n    import optax\n"
    )
    expected = {"jonline.engine", "jonline.core", "jonline.checks", "jonline.ordinal.prank",
                "numpy.linalg", "optax"}  # fmt: skip
    assert imported(path, top_level=True) == expected
    assert imported(path) == expected | {"scipy"}
    assert parts(expected) == {"engine", "core", "checks", "ordinal"}


@pytest.mark.parametrize("family", FAMILIES)
def test_family_imports_itself_and_what_lies_below(family):
    for name, path in of_part(family).items():
        assert parts(imported(path)) <= {family, *BELOW_FAMILIES}, name


def test_what_lies_below_the_families_knows_neither_them_nor_the_engine():
    for part in BELOW_FAMILIES:
        for name, path in of_part(part).items():
            assert parts(imported(path)) <= set(BELOW_FAMILIES), name


@pytest.mark.parametrize("part", ENGINE)
def test_engine_knows_no_learner_stream_oracle_or_data(part):
    assert of_part(part)
    for name, path in of_part(part).items():
        assert parts(imported(path)) <= {"core", "checks", "runtime", *ENGINE}, name


def test_comparators_know_no_learner_stream_oracle_or_data():
    # The examples of a run come from the engine's own loop and keys, so that they are its bits.
    for part in ("ball", "comparators"):
        assert of_part(part)
        for name, path in of_part(part).items():
            assert parts(imported(path)) <= {"core", "checks", "ball", *ENGINE}, name


def test_contract_imports_nothing_of_jonline():
    assert parts(imported(MODULES["jonline.core"])) == set()


def test_nothing_imports_experiments_or_tests():
    for name, path in MODULES.items():
        tops = {module.split(".")[0] for module in imported(path)}
        assert not tops & {"experiments", "tests", "docs"}, name


def test_modules_need_only_the_required_packages():
    for name, path in MODULES.items():
        tops = {module.split(".")[0] for module in imported(path, top_level=True)}
        others = tops - {"jonline", *REQUIRED} - sys.stdlib_module_names
        assert not others, name


def test_import_works_without_the_extras():
    script = f"""
import sys
for name in {EXTRAS!r}:
    sys.modules[name] = None
import jonline
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, cwd=ROOT)
