"""Copies of traces that can be given away: what is not needed is not in them, private words go."""

__all__: list[str] = []
