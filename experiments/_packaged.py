"""A data set that comes inside an installed package, so that nothing has to be fetched."""

import hashlib
from importlib import resources

from jonline import data


def lev() -> data.Dataset:
    """Returns 1000 ratings of lecturers by students: 4 ratings (N, 4), standardised; overall 1…5.

    Source: A. Ben-David's ordinal benchmarks, in the wheel of the package skordinal (BSD-3-Clause).
    """
    import skordinal.datasets

    bunch = skordinal.datasets.load_lev()
    content = (resources.files(bunch.data_module) / bunch.filename).read_bytes()
    source = data.Provenance(
        origin="https://waikato.github.io/weka-wiki/datasets/",
        terms="none stated by the origin",
        sha256=hashlib.sha256(content).hexdigest(),
        task="features standardised; overall rating, stored as 0..4, as labels 1..5",
    )
    x = data.standardise(bunch.data)
    return data.from_arrays(x, bunch.target + 1, bunch.n_classes, name="lev", provenance=source)
