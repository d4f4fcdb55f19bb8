"""Data sets: the door at which arrays are checked, parsers, label and feature transforms, the
catalog of real data sets, and synthetic streams.

Nothing outside this package imports pooch, SciPy, scikit-learn or pandas, and this package does so
only inside the functions that need them: `pip install "jonline[data]"`.
"""

from jonline.data import packaged
from jonline.data.catalog.entries import ENTRIES
from jonline.data.catalog.entry import Entry
from jonline.data.catalog.fetch import File
from jonline.data.catalog.load import lambdarank, load, load_entry, movielens, telemonitoring
from jonline.data.dataset import (
    CleanRows,
    Dataset,
    Provenance,
    VertexTable,
    drop_bad_rows,
    from_arrays,
)
from jonline.data.discretise import by_edges, by_multiples, equal_frequency
from jonline.data.labels import Encoding, decode_labels, encode_labels, encode_signs
from jonline.data.parsers.idx import read_idx, read_images
from jonline.data.parsers.tables import Table, read_arff, read_csv, read_libsvm, read_numbers
from jonline.data.rankings import query_rankings
from jonline.data.scale import (
    divided,
    min_max,
    standardise,
    unit_indicators,
    unit_rows,
    unscaled,
)
from jonline.data.synthetic.documents import multilabel_table
from jonline.data.synthetic.ordinal import Teacher, crammer_singer, linear_teacher
from jonline.data.synthetic.structured import Prototypes, Utilities, plackett_luce, van_der_hoeven

__all__ = [
    "CleanRows",
    "Dataset",
    "ENTRIES",
    "Encoding",
    "Entry",
    "File",
    "Prototypes",
    "Provenance",
    "Table",
    "Teacher",
    "Utilities",
    "VertexTable",
    "by_edges",
    "by_multiples",
    "crammer_singer",
    "decode_labels",
    "divided",
    "drop_bad_rows",
    "encode_labels",
    "encode_signs",
    "equal_frequency",
    "from_arrays",
    "lambdarank",
    "linear_teacher",
    "load",
    "load_entry",
    "min_max",
    "movielens",
    "multilabel_table",
    "packaged",
    "plackett_luce",
    "query_rankings",
    "read_arff",
    "read_csv",
    "read_idx",
    "read_images",
    "read_libsvm",
    "read_numbers",
    "standardise",
    "telemonitoring",
    "unit_indicators",
    "unit_rows",
    "unscaled",
    "van_der_hoeven",
]
