"""Who may import whom, read from the source: by folder, so that a new file needs no line here."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in ("jonline", "experiments")
    for path in sorted((ROOT / top).rglob("*.py"))
}
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}
INSIDE = [name for name in MODULES if name.startswith("jonline.")]
FAMILIES = ("ordinal", "reject", "structured")
REQUIRED = ("jax", "jaxlib", "optax", "numpy", "chex")
EXTRAS = ("pooch", "sklearn", "scipy", "tqdm", "xarray", "pandas", "matplotlib", "numba", "orbax")


def imported(path, top_level=False):
    """Dotted names of the modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(_outside_functions(tree)) if top_level else list(ast.walk(tree))
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.add(whole if whole in MODULES else node.module)
    return names


def _outside_functions(node):
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _outside_functions(child)


def room(name):
    """Where a module lives: the folder or the file below `jonline` or `experiments`."""
    return [*name.split("."), ""][1]


STAIRS = ("core", "checks", "runtime", "_engine", "_sweep", "comparators")  # each sees those before
TOPS = ("data", "testing")  # nothing imports them


def may(name):
    """Rooms that a module of jonline may import from, besides its own.

    core, checks -> parts -> families; core, checks -> _engine -> _sweep -> comparators.
    """
    here = room(name)
    if here in STAIRS:
        return set(STAIRS[: STAIRS.index(here)])
    rooms = {room(one) for one in INSIDE}
    if here == "testing":
        return rooms
    return rooms - {*STAIRS[2:], *FAMILIES, *TOPS}


def test_imports_of_a_file_are_read_right(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(
        "import jonline._engine.stages as e\nfrom jonline import core, checks, sweep\n"
        "from jonline.ordinal.prank import prank\nif True:\n    import numpy.linalg\n"
        "def f():\n    import scipy\nclass A:\n    import optax\n"
    )
    expected = {"jonline._engine.stages", "jonline.core", "jonline.checks", "jonline",
                "jonline.ordinal.prank", "numpy.linalg", "optax"}  # fmt: skip
    assert imported(path, top_level=True) == expected
    assert imported(path) == expected | {"scipy"}


@pytest.mark.parametrize("name", INSIDE)
def test_imports_run_one_way(name):
    names = {one for one in imported(MODULES[name]) if one.partition(".")[0] == "jonline"}
    assert "jonline" not in names, "the package imports this module"
    others = {room(one) for one in names} - {room(name)}
    assert others <= may(name)


def test_no_module_imports_itself_by_way_of_others():
    graph = {
        name: {one for one in imported(path) if one in MODULES} - PACKAGES
        for name, path in MODULES.items()
        if name not in PACKAGES
    }
    while graph:
        free = {name for name, needs in graph.items() if not needs & graph.keys()}
        assert free, f"a circle among {sorted(graph)}"
        graph = {name: needs for name, needs in graph.items() if name not in free}


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("experiments.")])
def test_experiments_share_by_the_shared_folder(name):
    """Papers know `shared` and themselves, claims the papers too; the benchmark stands apart."""
    here = room(name)
    others = {room(one) for one in imported(MODULES[name]) if one.startswith("experiments.")}
    papers = {"ordinal", "structured", "reject"} if here == "claims" else set()
    assert others <= {here, "shared", *papers} - ({"shared"} if here == "" else set())


def test_stems_of_experiments_are_unique():
    from experiments.shared import commands

    stems = [
        path.stem
        for path in MODULES.values()
        if "\ndef main(options: Options)" in path.read_text(encoding="utf-8")
    ]
    assert sorted(stems) == sorted(commands.paths())


def test_nothing_in_the_library_imports_experiments_or_tests():
    for name in INSIDE:
        tops = {module.split(".")[0] for module in imported(MODULES[name])}
        assert not tops & {"experiments", "tests", "docs"}, name


def test_modules_need_only_the_required_packages():
    for name in INSIDE:
        tops = {module.split(".")[0] for module in imported(MODULES[name], top_level=True)}
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
