"""Synthetic tokens with something to learn: a Markov chain over a Zipf vocabulary.

A token has four possible followers, drawn once from the vocabulary with frequent tokens preferred.
Training first finds out which tokens are frequent, then which follow which, so the loss falls from
``log(vocab)`` towards `FLOOR_NATS`. A step's tokens depend on nothing but the seed, the step and
the shape: runs under different policies see the same ones, and a run can begin at any step.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FLOOR_NATS", "Source"]

_FOLLOWERS = np.array([0.5, 0.25, 0.125, 0.125])  # how often each is taken

FLOOR_NATS = float(-(_FOLLOWERS * np.log(_FOLLOWERS)).sum())
"""Entropy of the choice among four followers: no model that is not told it gets far below."""


@dataclass(frozen=True)
class Source:
    """An endless text.

    Attributes
    ----------
    followers : int32 array, shape (vocab, 4)
        What may follow each token, the likeliest first.
    seed : int
        Of the followers and of all batches.
    """

    followers: NDArray[np.int32]
    seed: int

    @classmethod
    def of(cls, vocab: int, seed: int) -> "Source":
        """Text over so many different tokens."""
        rng = np.random.default_rng(seed)
        frequency = 1 / np.arange(1, vocab + 1)  # Zipf's law
        shape = (vocab, len(_FOLLOWERS))
        chosen = rng.choice(vocab, size=shape, p=frequency / frequency.sum())
        return cls(chosen.astype(np.int32), seed)

    def batch(self, step: int, batch: int, seq: int) -> NDArray[np.int32]:
        """Tokens of a step, shape ``(batch, seq)``."""
        rng = np.random.default_rng([self.seed, step])
        choice = rng.choice(len(_FOLLOWERS), size=(seq, batch), p=_FOLLOWERS)
        tokens = np.empty((seq, batch), np.int32)
        token = rng.integers(len(self.followers), size=batch)
        for position in range(seq):
            tokens[position] = token
            token = self.followers[token, choice[position]]
        return np.ascontiguousarray(tokens.T)
