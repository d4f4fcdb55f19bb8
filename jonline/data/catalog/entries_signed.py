"""The part of the list of real data sets with two classes, labels -1 and 1.

Source: arXiv:1906.06166, section 4, which names its data sets Gisette, Phishing and Guide. Gisette
was made of MNIST's digits 4 and 9, and `mnist_4_9`, made of them too, stands in for it.
Phishing is UCI's table; LIBSVM's, of 68 columns, is `load("phishing", scale=unit_indicators)`.
"""

from functools import partial

import numpy as np

from jonline.data.catalog.entries_structured import STRUCTURED_ENTRIES
from jonline.data.catalog.entry import NO_TERMS, Entry
from jonline.data.catalog.fetch import File
from jonline.data.labels import encode_signs
from jonline.data.parsers.idx import read_images
from jonline.data.parsers.tables import Table, read_arff, read_libsvm, read_numbers
from jonline.data.scale import divided, unscaled

_UCI = "https://archive.ics.uci.edu/"
_PHISHING = (  # the origin's header has other white space; the copy is fixed by its commit
    "https://raw.githubusercontent.com/frbk1992/GeneticAlgorithmProject/"
    "0f1a5664923db6fe9975d37aa0048133e5e7cc24/phishing.arff"
)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"


def _signs(values: np.ndarray) -> np.ndarray:
    """Returns two values in order as labels -1 and 1."""
    return encode_signs(values).labels


def _fours_and_nines(images: bytes, labels: bytes) -> Table:
    """Returns the rows of the digits 4 and 9 in two IDX files, in their order."""
    table = read_images(images, labels)
    keep = np.isin(table.y, (4, 9))
    return Table(table.x[keep], table.y[keep])


def _guide(name: str, path: str, part: str, sha256: str, size: int) -> Entry:
    """Returns the entry of a part of svmguide1."""
    return Entry(
        name,
        File(path, f"{_LIBSVM}.html#svmguide1", sha256, f"{_LIBSVM}/{path}", size=size),
        partial(read_libsvm, num_features=4),
        _signs,
        None,
        unscaled,
        NO_TERMS + "; cite Hsu, Chang and Lin 2003",
        f"{part} part; features unscaled; classes 0 and 1 as labels -1 and 1",
    )


def _gisette(
    name: str, part: str, rows_sha256: str, labels_sha256: str, rows_size: int = 0
) -> Entry:
    """Returns the entry of a part of Gisette, its files named gisette_`part`.…."""
    files = [
        File(
            f"gisette/gisette_{part}.{kind}",
            _UCI + "dataset/170/gisette",
            sha256,
            _UCI + "static/public/170/gisette.zip",
            f"gisette_{part}.{kind}",
            size=size,
        )
        for kind, sha256, size in (("data", rows_sha256, rows_size), ("labels", labels_sha256, 0))
    ]
    return Entry(
        name,
        files[0],
        read_numbers,
        _signs,
        None,
        partial(divided, divisor=999),
        "CC BY 4.0",
        f"{part} part; features, 0..999, divided by 999",
        more=(files[1],),
    )


def _four_nine(name: str, whole: Entry) -> Entry:
    """Returns the entry of the 4s and 9s of a part of MNIST, whose entry is `whole`."""
    part = whole.task.partition(";")[0]
    return whole._replace(
        name=name,
        read=_fours_and_nines,
        label=_signs,
        num_classes=None,
        task=f"stand-in for Gisette: digits 4 and 9 of MNIST, {part}, as labels -1 and 1; pixels "
        "divided by 255",
    )


_WHOLE = {entry.name: entry for entry in STRUCTURED_ENTRIES}

SIGNED_ENTRIES = (
    Entry(
        "phishing",
        File(
            "phishing.arff",
            _UCI + "dataset/327/phishing+websites",
            "8bc126fbafd21c6a702b89b18baa8b989701f3fa993bf9af73b87529a92e6af0",
            _PHISHING,
            size=789_871,
        ),
        read_arff,
        _signs,
        None,
        unscaled,
        "CC BY 4.0",
        "the 30 features, -1, 0 and 1, unscaled; labels -1 and 1 as they are",
    ),
    _guide(
        "svmguide1",
        "svmguide1",
        "training",
        "672e1a467b3f59589a6f1f3d43f93940d88589675ededb52090140fc1dc83971",
        195_869,
    ),
    _guide(
        "svmguide1_test",
        "svmguide1.t",
        "test",
        "f9c2fd4c725172aeb4476fc1e2327d537f7fbc2f53f49dfd073f80efbe1ba8f7",
        249_612,
    ),
    _gisette(
        "gisette",
        "train",
        "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
        "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
        67_788_724,
    ),
    _gisette(
        "gisette_valid",
        "valid",
        "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254",
        "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5",
    ),
    _four_nine("mnist_4_9", _WHOLE["mnist"]),
    _four_nine("mnist_4_9_test", _WHOLE["mnist_test"]),
)
