"""The list of real data sets: where each comes from, how it is read, how it becomes a task.

Source: "DFORD", arXiv:2512.19550, section 7.1. EachMovie was withdrawn by its owner; `movielens` is
the stand-in. The paper names Telemonitoring twice, with 10 equi-frequent classes and with multiples
of 5; the default is the second, which is said of it alone, and gives 10 classes too.
Differs: the paper lists MSLR among the sets with 10 equi-frequent classes, which its five grades of
relevance cannot give; here the grades 0…4 are the labels 1…5.
"""

from functools import partial

import numpy as np

from jonline.data.catalog.entries_signed import SIGNED_ENTRIES
from jonline.data.catalog.entries_structured import STRUCTURED_ENTRIES
from jonline.data.catalog.entry import NO_TERMS, Entry, above_zero
from jonline.data.catalog.fetch import File
from jonline.data.discretise import by_edges, by_multiples, equal_frequency
from jonline.data.parsers.ratings import one_user
from jonline.data.parsers.tables import read_arff, read_csv, read_libsvm
from jonline.data.scale import standardise, unscaled

_CC_BY = "CC BY 4.0"
_TORGO = "https://www.dcc.fc.up.pt/~ltorgo/Regression/"
_UCI = "https://archive.ics.uci.edu/"
_ARFF = (  # Torgo's page has these tables in another format; the copy is fixed by its commit
    "https://raw.githubusercontent.com/renatopp/arff-datasets/"
    "c59f172882592bb58982cc54d2d3c8a2b57e9b73/regression/"
)
_MSLR = "https://www.microsoft.com/en-us/research/project/mslr/"
_GROUPLENS = "research use with citation of Harper and Konstan 2015, no commercial use"


def _half_stars(rating: np.ndarray) -> np.ndarray:
    """Returns ratings ½, 1, …, 5 as labels 1…10."""
    return 2 * rating


_TEN = partial(equal_frequency, num_classes=10)
_TEN_TASK = "features standardised; target in 10 equi-frequent classes"
_MSLR_TASK = "features standardised; relevance 0..4 as labels 1..5"
_TELEMONITORING = partial(read_csv, target="total_UPDRS", drop=("subject#", "motor_UPDRS"))
_RATING_TASK = "an example is a film, its features the ratings of the most active other users"

_ENTRIES = (
    Entry(
        "abalone",
        File(
            "abalone.data",
            _UCI + "dataset/1/abalone",
            "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
            _UCI + "static/public/1/abalone.zip",
            "abalone.data",
            size=191_873,
        ),
        partial(read_csv, header=False, categorical=(0,)),
        partial(by_edges, edges=(7, 9, 12)),
        4,
        unscaled,
        _CC_BY,
        "sex one-hot (F, I, M), features unscaled; rings [1,7], (7,9], (9,12], >12 as labels 1..4",
    ),
    Entry(
        "telemonitoring",
        File(
            "parkinsons_updrs.data",
            _UCI + "dataset/189/parkinsons+telemonitoring",
            "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
            _UCI + "static/public/189/parkinsons+telemonitoring.zip",
            "parkinsons_updrs.data",
            size=911_261,
        ),
        _TELEMONITORING,
        partial(by_multiples, step=5),
        10,
        standardise,
        _CC_BY,
        "features standardised, without subject# and motor_UPDRS; total_UPDRS down to a "
        "multiple of 5: 5..50 as labels 1..10",
    ),
    Entry(
        "movielens",
        File(
            "ml-latest-small/ratings.csv",
            "https://grouplens.org/datasets/movielens/latest/",
            "aa289ca83157595d0df6aea1be6a4ded676ddc4385472e8313a8ed9805352646",
            "https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",
            "ml-latest-small/ratings.csv",
            size=2_483_723,
        ),
        partial(one_user, lowest=0.5, highest=5.0),
        _half_stars,
        10,
        unscaled,
        _GROUPLENS,
        f"stand-in for EachMovie: {_RATING_TASK}; half stars 0.5..5 as labels 1..10",
    ),
    Entry(
        "movielens100k",
        File(
            "ml-100k/u.data",
            "https://grouplens.org/datasets/movielens/100k/",
            "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
            "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            "ml-100k/u.data",
            "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            size=1_979_173,
        ),
        partial(one_user, lowest=1.0, highest=5.0, delimiter="\t", header=False),
        np.asarray,
        5,
        unscaled,
        _GROUPLENS + ", no redistribution",
        f"stand-in for EachMovie: {_RATING_TASK}; stars 1..5 as labels 1..5",
    ),
    Entry(
        "mslr",
        File(
            "MSLR-WEB10K.zip",
            _MSLR,
            member="Fold1/train.txt",
            archive_sha256="2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba",
        ),
        partial(read_libsvm, num_features=136),
        above_zero,
        5,
        standardise,
        "an agreement with the origin, which each user enters there",
        f"training part of fold 1; {_MSLR_TASK}",
        stand_in="mslr_sample",
    ),
    Entry(
        "mslr_sample",
        File(
            "mslr/msn1.fold1.train.5k.txt",
            _MSLR,
            "6d1721de961a35fbaef7085dc5b41e2940f0ddb04bab5f7a8566cf7db4158fa6",
            size=5_777_049,
        ),
        partial(read_libsvm, num_features=136),
        above_zero,
        5,
        standardise,
        "an agreement with the origin, which each user enters there",
        f"first 5000 rows of the training part of a fold 1; {_MSLR_TASK}",
    ),
    Entry(
        "california",
        File(
            "cal_housing.data",
            _TORGO + "cal_housing.html",
            "d3d8a1a722ae78f91134862727d27a70b1415e7d512a89140406248687f4b902",
            _TORGO + "cal_housing.tgz",
            "CaliforniaHousing/cal_housing.data",
            "aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681",
            size=2_092_122,
        ),
        partial(read_csv, header=False),
        _TEN,
        10,
        standardise,
        NO_TERMS + "; cite Pace and Barry 1997",
        _TEN_TASK,
    ),
    Entry(
        "computer_activity",
        File(
            "cpu_act.arff",
            _TORGO + "comp.html",
            "75ce7eec03338bf42198051136972307d902268a10e0289f8f745aff58c9964c",
            _ARFF + "cpu.act.arff",
            size=1_058_076,
        ),
        read_arff,
        _TEN,
        10,
        standardise,
        NO_TERMS,
        _TEN_TASK,
    ),
    Entry(
        "bank",
        File(
            "bank8FM.arff",
            _TORGO + "bank.html",
            "bf12b96cb263c330e4c760c0397e05cdb35c954ccd4291ac46ba9148d1998a39",
            _ARFF + "bank8FM.arff",
            size=682_243,
        ),
        read_arff,
        _TEN,
        10,
        standardise,
        NO_TERMS,
        _TEN_TASK,
    ),
    Entry(
        "bank32nh",
        File(
            "bank32nh.arff",
            _TORGO + "bank.html",
            "2ea180781c93904693a6386ebc431844c3e409f90678bc87318d9b24bf0ee803",
            _ARFF + "bank32nh.arff",
            size=2_497_690,
        ),
        read_arff,
        _TEN,
        10,
        standardise,
        NO_TERMS,
        _TEN_TASK + " (label 2 is empty: a fifth of the targets is 0)",
    ),
)

ENTRIES: dict[str, Entry] = {
    entry.name: entry for entry in (*_ENTRIES, *STRUCTURED_ENTRIES, *SIGNED_ENTRIES)
}
