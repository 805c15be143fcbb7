"""Speed and memory of nsysoffload, as ratios within one run; ``python -m benchmarks``."""

__all__: list[str] = []
