"""The code in the README and the docs runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python(?: title=\"(.+?)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def test_code_of_the_readme_runs(capsys):
    namespace = {}
    for title, code in blocks("README.md"):
        assert not title
        exec(compile(code, "README.md", "exec"), namespace)
    assert "best explore" in capsys.readouterr().out
    assert len(blocks("README.md")[0][1].strip().splitlines()) <= 24


def test_code_of_the_page_on_structured_prediction_runs():
    namespace = {}
    for _, code in blocks("docs/structured.md"):
        exec(compile(code, "docs/structured.md", "exec"), namespace)


def test_page_on_the_engine_shows_the_equations_that_the_code_makes():
    page = (ROOT / "docs/engine.md").read_text("utf-8")
    namespace = {}
    exec(compile(blocks("docs/engine.md")[0][1], "docs/engine.md", "exec"), namespace)
    shown = re.search(r'^```text title="dford"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    assert shown.group(1).strip() == namespace["equations"], "\n" + namespace["equations"]


def test_learner_of_your_own_passes_its_test_and_is_short(tmp_path):
    files = dict(blocks("docs/own_learner.md"))
    assert set(files) == {"perceptron.py", "test_perceptron.py"}
    assert sum(len(code.splitlines()) for code in files.values()) < 60
    for name, code in files.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", str(ROOT), "-c", "pyproject.toml",
         "-o", f"pythonpath=. {tmp_path}", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


PAGES = ["README.md", *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_of_the_project_exist(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / page).read_text("utf-8")):
        assert ((ROOT / page).parent / target).exists(), target


def test_tests_that_hold_what_users_do_exist():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs/scenarios.md").read_text("utf-8"))
    assert len(named) > 50
    for file, name in named:
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text("utf-8"), (file, name)


def test_every_page_is_in_the_navigation():
    pages = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"  - {page.name}\n" in pages, page.name
