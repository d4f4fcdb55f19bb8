"""What the papers claim, held against what the experiments recorded: a ledger.

One row for each claim that a paper's text makes in words or numbers: where it stands, the
statistic and its test, the value, and a verdict: `holds`, `does not hold`, or `cannot be tested
here`. Writes `claims.md` and `claims.json`. It reads the records under `--results`, so the
experiments come first; a claim whose records are missing says which to run. `--smoke` plays tiny
versions of them itself, of which no verdict is drawn. `--seeds`, `--rounds` and `--windows` change
nothing.
"""

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import xarray as xr

from experiments.claims import dford, ledger, osp, reject
from experiments.shared import commands
from experiments.shared.options import SharedOptions
from experiments.shared.outputs import dump, save, write
from jonline import checks

Paper = Literal["dford", "osp", "reject"]
PAPERS: dict[Paper, ModuleType] = {"dford": dford, "osp": osp, "reject": reject}
NOTES = {
    "dford": "arXiv:2512.19550. Differences are in classes. EachMovie was withdrawn by its owner: "
    "rows about it alone are not judged, and where a row judges all eight data sets MovieLens "
    "stands for it. MSLR Web 10K is a sample of 5 000 rows where a row says `mslr_sample`.",
    "osp": "arXiv:2502.18709. The paper does not print the rates of exploration that it played. A "
    "claim about results has a row for each of three rules: `theory` is the theory's formula, cut "
    "at 1, where every output is drawn uniformly; `unit` the same with B = Cx = 1; `grid` the best "
    "of a few rates, for every method its own. Where all that is compared is uniform, nothing is "
    "judged.",
    "reject": "arXiv:1906.06166. Differences are in the mean risk, or in fractions of all rounds; "
    "intervals are 95 % over all that a row compares (Bonferroni). Gisette was not at hand: its "
    "rows are not judged, and say what holds on the digits that it was made of.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the ledger."""

    results: Path = Path("results")
    """Folder that holds the results of the experiments, each in a folder of its name."""
    papers: tuple[Paper, ...] = tuple(PAPERS)
    """Papers whose claims to judge: dford is arXiv:2512.19550, osp arXiv:2502.18709, reject
    arXiv:1906.06166."""
    data: Path | None = None
    """Folder with the data files of a smoke run, which else makes them up; it changes nothing where
    the ledger is read from results."""


def main(options: Options) -> None:
    """Judges every claim; writes the ledger."""
    results = play(options) if options.smoke else checks.path("--results", options.results)
    records, sources = read(results, options.papers)
    smoke = [name for name, source in sources.items() if source["arguments"]["smoke"]]
    notes = {name: other_protocol(name, source["arguments"]) for name, source in sources.items()}
    parts = {
        paper: [
            row(claim, ledger.settle(claim, records, smoke), notes)
            for claim in PAPERS[paper].CLAIMS
        ]
        for paper in options.papers
    }
    rows = [one for part in parts.values() for one in part]
    shown = [{name: one[name] for name in ("id", "verdict", "claim")} for one in rows]
    folder = write(options, table=rows, shown=shown)
    dump(folder / "claims.json", {"sources": sources, "claims": rows})
    page = as_markdown(parts, sources)
    save(folder / "claims.md", lambda to: to.write_text(page, "utf-8"))


def play(options: Options) -> Path:
    """Plays tiny versions of the experiments into the folder of the results; returns it."""
    small = {name: few for paper in options.papers for name, few in PAPERS[paper].SMOKE.items()}
    for name, few in small.items():
        module = commands.load(name)
        shared = {"smoke": True, "key": options.key, "data": options.data}
        module.main(module.Options(out=options.folder() / name, **shared, **few))
    return options.folder()


def read(
    results: Path, papers: tuple[Paper, ...]
) -> tuple[dict[str, xr.Dataset], dict[str, dict[str, Any]]]:
    """Returns the records and the provenance of every experiment that left them."""
    records, sources = {}, {}
    for name in sorted({name for one in papers for c in PAPERS[one].CLAIMS for name in c.needs}):
        folder = results / name
        if not (folder / "records.nc").exists() or not (folder / "provenance.json").exists():
            continue
        with xr.open_dataset(folder / "records.nc", engine="h5netcdf") as file:
            records[name] = file.load()
        sources[name] = json.loads((folder / "provenance.json").read_text("utf-8"))
    return records, sources


def other_protocol(name: str, arguments: dict[str, Any]) -> str:
    """Returns in what an experiment's options differ from its defaults, the paper's protocol."""
    options = dataclasses.asdict(commands.load(name).Options())
    for apart in ("data", "out", "key", "windows"):
        del options[apart]
    changed = [
        f"{option}={arguments[option]} instead of {value}"
        for option, value in json.loads(json.dumps(options)).items()
        if arguments.get(option, value) != value  # an option may be newer than the results
    ]
    return f"{name} was played with {', '.join(changed)}" if changed else ""


def row(claim: ledger.Claim, verdict: ledger.Verdict, notes: dict[str, str]) -> dict[str, str]:
    """Returns a row of the ledger, with a note where an experiment was not played as published."""
    reasons = [verdict.why, *(notes[name] for name in claim.needs if notes.get(name))]
    verdict = verdict._replace(why="; ".join(reasons))
    return {
        "id": claim.id,
        "claim": claim.claim,
        "where": claim.where,
        "test": claim.test,
        **verdict._asdict(),
    }


def as_markdown(
    parts: dict[Paper, list[dict[str, str]]], sources: dict[str, dict[str, Any]]
) -> str:
    """Returns the ledger as a page: where the numbers come from; counts and a table by paper."""
    origin = [
        {
            "experiment": name,
            "rounds": source["arguments"]["rounds"],
            "seeds": source["arguments"]["seeds"],
            "smoke": source["arguments"]["smoke"],
            "commit": f"{source['commit']}{' (changed)' * bool(source['uncommitted_changes'])}",
            "jax": source["environment"]["jax"],
            "machine": f"{source['environment']['device']}, {source['environment']['system']}",
        }
        for name, source in sources.items()
    ]
    page = [
        "# What the papers claim, and what was found",
        "Intervals are 95 % over seeds unless a row says otherwise.",
        _table(origin) if origin else "No results were found.",
    ]
    for paper, rows in parts.items():
        verdicts = [one["verdict"] for one in rows]
        counts = (ledger.HOLDS, ledger.FAILS, ledger.UNTESTED)
        page += [
            f"## {PAPERS[paper].TITLE}",
            "; ".join(f"{count}: {verdicts.count(count)}" for count in counts) + ".",
            NOTES[paper],
            _table(rows),
        ]
    return "\n\n".join(page) + "\n"


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
