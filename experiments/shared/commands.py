"""The experiments and tools by name: files with `Options` and `main`, each named by its stem."""

import importlib
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parents[1]


def paths() -> dict[str, Path]:
    """Returns the file of every experiment and tool by its name, sorted."""
    found = {}
    for path in sorted(HERE.rglob("*.py"), key=lambda path: path.stem):
        text = path.read_text(encoding="utf-8")
        if "\nclass Options" in text and "\ndef main(options: Options)" in text:
            found[path.stem] = path
    return found


def load(name: str) -> ModuleType:
    """Returns the module of an experiment or tool."""
    inside = paths()[name].relative_to(HERE).with_suffix("")
    return importlib.import_module(".".join(("experiments", *inside.parts)))
