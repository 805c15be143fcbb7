"""Traces: Nsight Systems exports as typed tables."""

__all__: list[str] = []
