import numpy as np
import pytest

from workloads.data import FLOOR_NATS, Source

VOCAB = 64


@pytest.fixture(scope="module")
def source():
    return Source.of(VOCAB, seed=3)


def entropy(counts):
    share = counts[counts > 0] / counts.sum()
    return -(share * np.log(share)).sum()


def test_a_batch_has_tokens_of_the_vocabulary_in_its_shape(source):
    tokens = source.batch(0, 5, 7)
    assert (tokens.shape, tokens.dtype) == ((5, 7), np.int32)
    assert tokens.min() >= 0
    assert tokens.max() < VOCAB


def test_a_step_has_the_same_tokens_wherever_a_run_begins(source):
    first, later = source.batch(4, 8, 32), Source.of(VOCAB, seed=3).batch(4, 8, 32)
    np.testing.assert_array_equal(first, later)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Source.of(VOCAB, seed=3).batch(5, 8, 32), id="another-step"),
        pytest.param(Source.of(VOCAB, seed=4).batch(4, 8, 32), id="another-seed"),
    ],
)
def test_other_steps_and_seeds_have_other_tokens(source, other):
    assert (source.batch(4, 8, 32) != other).mean() > 0.5


def test_sequences_of_a_batch_differ(source):
    tokens = source.batch(0, 8, 32)
    assert len(np.unique(tokens, axis=0)) == 8


def test_every_token_is_a_follower_of_the_one_before_as_often_as_said(source):
    # half of the time the first of four, then a quarter, an eighth, an eighth
    distinct = np.array([len(set(row)) == 4 for row in source.followers.tolist()])
    tokens = source.batch(0, 200, 100)
    before, after = tokens[:, :-1].ravel(), tokens[:, 1:].ravel()
    which = source.followers[before] == after[:, None]
    assert which.any(axis=1).all()
    share = which[distinct[before]].mean(axis=0)
    np.testing.assert_allclose(share, [0.5, 0.25, 0.125, 0.125], atol=0.03)


def test_knowing_the_token_before_tells_much_more_than_knowing_frequencies(source):
    tokens = source.batch(0, 500, 100)
    pairs = np.zeros((VOCAB, VOCAB))
    np.add.at(pairs, (tokens[:, :-1].ravel(), tokens[:, 1:].ravel()), 1)
    alone = entropy(pairs.sum(axis=0))
    given_one = sum(entropy(row) * row.sum() for row in pairs) / pairs.sum()
    assert given_one < FLOOR_NATS < alone < np.log(VOCAB)
    assert alone - given_one > 1


def test_the_floor_is_one_and_three_quarter_bits():
    # 1/2 * 1 bit + 1/4 * 2 + 1/8 * 3 + 1/8 * 3
    assert pytest.approx(1.75 * np.log(2)) == FLOOR_NATS
