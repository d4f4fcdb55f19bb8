"""Data sets that come inside installed packages."""

import numpy as np
import pytest

from jonline.data import packaged


@pytest.mark.parametrize(
    ("load", "shape", "num_classes", "counts"),
    [
        (packaged.lev, (1000, 4), 5, {1: 93, 2: 280, 3: 403, 4: 197, 5: 27}),
        (
            packaged.digits,
            (1797, 64),
            10,
            dict(enumerate([178, 182, 177, 183, 181, 182, 181, 179, 174, 180], start=1)),
        ),
        (packaged.breast_cancer, (569, 30), None, {-1: 357, 1: 212}),
    ],
)
def test_packaged_set_has_its_size_and_labels(load, shape, num_classes, counts):
    data = load()
    assert data.x.shape == shape and data.num_classes == num_classes
    labels, num = np.unique(data.y, return_counts=True)
    assert dict(zip(labels.tolist(), num.tolist(), strict=True)) == counts
    assert len(data.provenance.sha256) == 64 and data.provenance.terms


def test_pixels_of_digits_are_in_0_to_1_and_features_of_tumours_standardised():
    assert np.asarray(packaged.digits().x).max() == 1
    x = np.asarray(packaged.breast_cancer().x)
    np.testing.assert_allclose(x.std(0), 1, rtol=1e-4)  # float32 sums over 569 rows
