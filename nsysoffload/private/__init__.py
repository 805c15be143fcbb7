"""Private words in the texts of a trace, and what is shown for them."""

__all__: list[str] = []
