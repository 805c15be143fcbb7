"""Measurements of overlap, bandwidth and what stands in its way."""

__all__: list[str] = []
