"""The list of slow tests names tests that exist."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_slow_tests_exist():
    lines = (ROOT / "tests/slow.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        file, _, name = line.partition("::")
        text = "" if line.startswith("#") else (ROOT / file).read_text(encoding="utf-8")
        assert line.startswith("#") or f"\ndef {name.partition('[')[0]}(" in text, line
