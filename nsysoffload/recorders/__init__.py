"""Recorders: each makes a run folder or a trace to analyse."""

__all__: list[str] = []
