"""GPUs and links: peaks and measured ranges, each with its source."""

from nsysoffload.hardware.links import LINKS, Gpu, HostLink, Range, gpu_named
from nsysoffload.hardware.targets import TARGETS, Target

__all__ = ["LINKS", "TARGETS", "Gpu", "HostLink", "Range", "Target", "gpu_named"]
