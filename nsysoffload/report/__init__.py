"""The report: one model, four renderers."""

__all__: list[str] = []
