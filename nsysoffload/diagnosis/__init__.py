"""Causes: why transfers do not overlap, what that costs, and what to change."""
