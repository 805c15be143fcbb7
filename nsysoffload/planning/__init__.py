"""Which named values of a train step to keep, to offload and to recompute, under limits."""

from nsysoffload.planning.model import Candidate, Limits, Plan
from nsysoffload.planning.plan import plan

__all__ = ["Candidate", "Limits", "Plan", "plan"]
