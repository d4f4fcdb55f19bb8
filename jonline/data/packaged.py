"""Data sets that come inside an installed package, so that nothing has to be fetched."""

import gzip
import hashlib
import importlib
from importlib import resources
from typing import Any

from jonline.data.dataset import Dataset, Provenance, from_arrays
from jonline.data.parsers.unpack import missing_extra
from jonline.data.scale import divided, standardise


def lev() -> Dataset:
    """Returns 1000 ratings of lecturers by students: 4 ratings (N, 4), standardised; overall 1…5.

    Source: A. Ben-David's ordinal benchmarks, in the wheel of the package skordinal (BSD-3-Clause).
    """
    bunch = _loaded("skordinal", "lev")
    source = Provenance(
        origin="https://waikato.github.io/weka-wiki/datasets/",
        terms="none stated by the origin",
        sha256=_digest(bunch.data_module, bunch.filename),
        task="features standardised; overall rating, stored as 0..4, as labels 1..5",
    )
    x = standardise(bunch.data)
    return from_arrays(x, bunch.target + 1, bunch.n_classes, name="lev", provenance=source)


def digits() -> Dataset:
    """Returns 1797 images of handwritten digits: 8 x 8 pixels (N, 64) / 16; digits 0…9 as 1…10.

    Source: the test part of UCI's "Optical Recognition of Handwritten Digits", in scikit-learn.
    """
    bunch = _loaded("sklearn", "digits")
    source = Provenance(
        origin="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        terms="CC BY 4.0",
        sha256=_digest("sklearn.datasets.data", "digits.csv.gz"),
        task="pixels, 0..16, divided by 16; digits 0..9 as labels 1..10",
    )
    x = divided(bunch.data, 16)
    return from_arrays(x, bunch.target + 1, 10, name="digits", provenance=source)


def breast_cancer() -> Dataset:
    """Returns 569 tumours: 30 features of cell nuclei (N, 30), standardised; malignant is +1.

    Source: UCI's "Breast Cancer Wisconsin (Diagnostic)", in scikit-learn.
    """
    bunch = _loaded("sklearn", "breast_cancer")
    source = Provenance(
        origin="https://archive.ics.uci.edu/dataset/17/breast+cancer+wisconsin+diagnostic",
        terms="CC BY 4.0",
        sha256=_digest(bunch.data_module, bunch.filename),
        task="features standardised; malignant as +1, benign as -1",
    )
    malignant = bunch.target == list(bunch.target_names).index("malignant")
    x, y = standardise(bunch.data), 2 * malignant.astype(int) - 1
    return from_arrays(x, y, name="breast_cancer", provenance=source)


def _loaded(package: str, name: str) -> Any:
    """Returns what `load_<name>` of a package's data sets gives."""
    try:
        datasets = importlib.import_module(f"{package}.datasets")
    except ImportError as error:
        raise missing_extra(package, f"the data set {name!r}") from error
    return getattr(datasets, f"load_{name}")()


def _digest(package: str, filename: str) -> str:
    """Returns the SHA-256 of the uncompressed content of a file of a package."""
    content = (resources.files(package) / filename).read_bytes()
    content = gzip.decompress(content) if filename.endswith(".gz") else content
    return hashlib.sha256(content).hexdigest()
