"""Sizes as users write them."""

import pytest

from nsysoffload.errors import UsageError
from nsysoffload.report.amounts import parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("16GiB", 16 * 2**30),
        (" 1.5 GB ", 1_500_000_000),
        ("512", 512),
        ("1e9", 10**9),
        (".5kB", 500),
        ("1.9B", 1),
        ("2TiB", 2**41),
    ],
)
def test_a_size_is_a_number_with_or_without_a_unit(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "GiB", "0", "0.5B", "-1GB", "16 gib", "16GHz", "1,5GB", "nan", "1e999TB", "9e18kB"]
)
def test_what_is_no_size_is_an_error_that_shows_how_to_write_one(text):
    with pytest.raises(UsageError) as raised:
        parse_size(text)
    assert str(raised.value) == f"'{text}' is no size; write it like 16GiB or 1.5GB."
