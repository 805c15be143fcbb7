"""Profiles for XLA's scheduler: what each instruction of a program takes, by a trace of it.

XLA decides where an asynchronous copy starts by what it reckons operations to cost. A profile gives
it the times instead (profile-guided latency estimation, PGLE).
"""

__all__: list[str] = []
