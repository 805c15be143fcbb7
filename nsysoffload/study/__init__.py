"""A study: models at several batches under several variants, predicted, in one report."""
