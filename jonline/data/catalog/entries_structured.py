"""The part of the list of real data sets with classes without order, or with graded documents.

Source of MNIST as a task: arXiv:2502.18709, appendix H. The example of LightGBM is no data set of a
paper; `lambdarank` in `jonline.data.catalog.load` makes rankings of it.
"""

from functools import partial

from jonline.data.catalog.entry import NO_TERMS, Entry, above_zero
from jonline.data.catalog.fetch import File
from jonline.data.parsers.idx import read_images
from jonline.data.parsers.tables import read_libsvm
from jonline.data.scale import divided, unscaled

_LIGHTGBM = "https://github.com/microsoft/LightGBM/tree/v4.6.0/examples/lambdarank"
_LIGHTGBM_RAW = "https://raw.githubusercontent.com/microsoft/LightGBM/v4.6.0/examples/lambdarank/"
_MNIST = "http://yann.lecun.com/exdb/mnist/"
_MNIST_MIRROR = "https://storage.googleapis.com/cvdf-datasets/mnist/"


def _mnist(name: str, part: str, images: tuple[str, int], labels: tuple[str, int]) -> Entry:
    """Returns the entry of a part of MNIST, files named `part`-… with checksum and bytes."""
    files = [
        File(
            f"mnist/{part}-{kind}-ubyte",
            _MNIST,
            sha256,
            f"{_MNIST_MIRROR}{part}-{kind}-ubyte.gz",
            size=size,
        )
        for kind, (sha256, size) in (("images-idx3", images), ("labels-idx1", labels))
    ]
    return Entry(
        name,
        files[0],
        read_images,
        above_zero,
        10,
        partial(divided, divisor=255),
        NO_TERMS,
        f"{part} part; pixels divided by 255, digits 0..9 as labels 1..10",
        more=(files[1],),
    )


def _lambdarank(name: str, part: str, rows: tuple[str, int], queries: tuple[str, int]) -> Entry:
    """Returns the entry of a part of LightGBM's example, files named rank.`part`…, as `_mnist`."""
    files = [
        File(
            f"lambdarank/rank.{part}{end}",
            _LIGHTGBM,
            sha256,
            f"{_LIGHTGBM_RAW}rank.{part}{end}",
            size=size,
        )
        for end, (sha256, size) in (("", rows), (".query", queries))
    ]
    return Entry(
        name,
        files[0],
        partial(read_libsvm, num_features=300),
        above_zero,
        5,
        unscaled,
        "MIT, of the repository",
        f"{part} part; features unscaled, in [0, 1]; relevance 0..4 as labels 1..5",
        more=(files[1],),
    )


STRUCTURED_ENTRIES = (
    _mnist(
        "mnist",
        "train",
        ("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 47_040_016),
        ("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 60_008),
    ),
    _mnist(
        "mnist_test",
        "t10k",
        ("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 7_840_016),
        ("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 10_008),
    ),
    _lambdarank(
        "lambdarank",
        "train",
        ("a0c7201c89120879c14a5059e091f441cbf2a29b8aaef363885ccb1a530448df", 2_479_271),
        ("40cb5fef637229311cd30fab13cb7fb633b023e86a87ff04ec55db420143d6af", 580),
    ),
    _lambdarank(
        "lambdarank_test",
        "test",
        ("3b1219ce117a0a36d2f76c02de7e7831c1d79af0d40f5195c03178bbe26c824b", 649_930),
        ("36dca82ba3bf99201bac3987b00a8fbf6fe5f563e9fa6d0da90e783710a32df4", 146),
    ),
)
