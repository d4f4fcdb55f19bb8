"""The options of every experiment."""

import dataclasses
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from jonline import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """What every experiment can be told."""

    smoke: bool = False
    """A capped size that ends within 20 seconds: shows that it runs, its numbers mean nothing."""
    seeds: int = 10
    """Independent runs of every point, >= 1."""
    rounds: int = 10_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 50
    """Points of every curve: sums are kept over this many equal parts of a run."""
    key: int = 0
    """Seed of the root random key."""
    data: Path | None = None
    """Folder with the data files. Default: $JONLINE_DATA, else the cache, else a download; a smoke
    run makes up its data instead."""
    out: Path | None = None
    """Folder for the results, made if it is missing. Default: results/NAME, or results/NAME-smoke
    of a smoke run."""

    def __post_init__(self):
        self.check(at_least(1), "seeds", "rounds", "windows")
        self.check(at_least(0), "key")
        if self.data is not None and not checks.path("--data", self.data).is_dir():
            raise ValueError(f"--data must be a folder that exists, got {self.data}")
        if not self.smoke and self.rounds % self.windows:
            below = self.rounds // self.windows * self.windows
            nearest = f"{below} or {below + self.windows}" if below else f"{self.windows}"
            raise ValueError(
                f"rounds={self.rounds} is not a multiple of windows={self.windows}; use {nearest}"
            )

    def check(self, rule: Callable[[str, Any], Any], *names: str) -> None:
        """Calls `rule(option, value)`, which raises, with options or with each of their values."""
        for name in names:
            values = getattr(self, name)
            for value in values if isinstance(values, tuple) else (values,):
                rule(f"--{name.replace('_', '-')}", value)

    def check_some(self, *names: str) -> None:
        """Raises ValueError where an option of many values has none."""
        for name in names:
            option = f"--{name.replace('_', '-')}"
            checks.require(len(getattr(self, name)) > 0, option, "name at least one", "none")

    def capped(self, *, seeds: int = 2, rounds: int = 400, windows: int = 4):
        """Returns these options, with `--smoke` cut down to at most the given size."""
        if not self.smoke:
            return self
        windows = min(self.windows, windows)
        rounds = max(1, min(self.rounds, rounds) // windows) * windows
        return dataclasses.replace(
            self, seeds=min(self.seeds, seeds), rounds=rounds, windows=windows
        )

    @property
    def record_every(self) -> int:
        """Rounds of a window."""
        return self.rounds // self.windows

    def folder(self) -> Path:
        """Returns the folder for the results, made if it was missing.

        Raises:
          ValueError: if no file can be made there.
        """
        name = type(self).__module__.rpartition(".")[2] + "-smoke" * self.smoke
        folder = Path("results") / name if self.out is None else checks.path("--out", self.out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ValueError(
                f"--out must be a folder to write in, got {folder} ({error.strerror})"
            ) from error
        return folder


def at_least(least: int) -> Callable[[str, Any], Any]:
    """Returns the rule of counts >= `least`, for `SharedOptions.check`."""
    return partial(checks.at_least, least=least)


def within(region: str, ok: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """Returns the rule of values for which `ok` holds, for `SharedOptions.check`."""
    return lambda name, value: checks.require(ok(value), name, f"be in {region}", value)


positive_rate = within("(0, 1]", lambda rate: 0 < rate <= 1)
is_cost = within("(0, 0.5)", lambda cost: 0 < cost < 0.5)
