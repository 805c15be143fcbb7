"""Profiles of `jax.profiler` (XPlane files) as traces: kernels, copies, API calls, XLA's names."""
