"""Data sets: the door at which arrays are checked, parsers, label and feature transforms, the
catalog of real data sets, and synthetic streams.

Nothing outside this package imports pooch, SciPy, scikit-learn or pandas, and this package does so
only inside the functions that need them: `pip install "jonline[data]"`.
"""

from jonline.data.catalog import load, load_entry, movielens, telemonitoring
from jonline.data.dataset import Dataset, Kept, Provenance, drop_bad_rows, from_arrays
from jonline.data.discretise import by_edges, by_multiples, equal_frequency
from jonline.data.entries import ENTRIES, Entry
from jonline.data.fetch import File
from jonline.data.files import Table, read_arff, read_csv, read_libsvm
from jonline.data.labels import Encoding, decode_labels, encode_labels
from jonline.data.scale import min_max, standardise, unit_rows, unscaled
from jonline.data.synthetic import Teacher, crammer_singer, linear_teacher

__all__ = [
    "ENTRIES",
    "Dataset",
    "Encoding",
    "Entry",
    "File",
    "Kept",
    "Provenance",
    "Table",
    "Teacher",
    "by_edges",
    "by_multiples",
    "crammer_singer",
    "decode_labels",
    "drop_bad_rows",
    "encode_labels",
    "equal_frequency",
    "from_arrays",
    "linear_teacher",
    "load",
    "load_entry",
    "min_max",
    "movielens",
    "read_arff",
    "read_csv",
    "read_libsvm",
    "standardise",
    "telemonitoring",
    "unit_rows",
    "unscaled",
]
