"""A check on a machine with a GPU: record both policies, and hold the prediction against them.

``python -m benchmarks.gpu_check -o FOLDER`` needs no network and ends within ten minutes.
"""

__all__: list[str] = []
