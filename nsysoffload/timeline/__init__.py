"""Rows in order of time: intervals, classes of work, attribution."""

__all__: list[str] = []
