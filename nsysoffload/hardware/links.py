"""GPUs and their host links: what a link could carry, and what others measured on it.

All rates are of one GPU and one direction, in decimal GB/s, which is bytes per nanosecond. A
measured range spans what lone pinned copies of many MiB reach on healthy machines, so a copy is
judged against the range and never against the peak. A GPU that is not listed has no verdict.

Sources are named in words: ``owner/repository#number`` is an issue or a pull request on GitHub.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

__all__ = ["LINKS", "Gpu", "HostLink", "Range", "gpu_named"]


@dataclass(frozen=True)
class Range:
    """Slowest and fastest rate in public reports of healthy machines, in GB/s, and the reports."""

    low_gbps: float
    high_gbps: float
    source: str


@dataclass(frozen=True)
class HostLink:
    """The way between host and GPU memory.

    ``peak_gbps`` is the nominal rate of one direction, ``source`` where it stands, and ``note``
    what a reader of the figures has to know.
    """

    name: str
    peak_gbps: float
    h2d: Range
    d2h: Range
    source: str
    note: str | None = None


@dataclass(frozen=True)
class Gpu:
    """A GPU by its name without vendor, form factor and memory size, and its host link."""

    name: str
    link: HostLink


def _half(full: Range) -> Range:
    return Range(full.low_gbps / 2, full.high_gbps / 2, f"half of the x16 range: {full.source}")


def _eight_lanes(x16: HostLink) -> HostLink:
    """Half the lanes of a PCIe link, at half of every rate."""
    return replace(
        x16,
        name=x16.name.replace("x16", "x8"),
        peak_gbps=x16.peak_gbps / 2,
        h2d=_half(x16.h2d),
        d2h=_half(x16.d2h),
        source=f"half of x16: {x16.source}",
        note=None,
    )


_GRACE_HOPPER = HostLink(
    name="NVLink-C2C",
    peak_gbps=450.0,
    h2d=Range(
        342.0,
        421.2,
        "vllm-project/vllm#6496: 342.4 on one GH200; NVIDIA/nvbandwidth#23: 346; "
        "arXiv 2407.07850: 375; NVIDIA/Megatron-LM#6491: 411.3 to 421.1 on nodes of four",
    ),
    d2h=Range(
        169.9,
        297.0,
        "NVIDIA/Megatron-LM#6491: 169.9 to 170.1 on nodes of four; vllm-project/vllm#6496: 295.5 "
        "on one GH200; arXiv 2407.07850: 297",
    ),
    source="NVIDIA Grace Hopper Superchip Architecture In-Depth: 900 GB/s, both directions added",
    note="D2H is slower than H2D: about 170 GB/s is usual on nodes of four, not a defect.",
)

# One object for GB200 and GB300: the same Grace CPU, and reports that don't tell them apart.
_GRACE_BLACKWELL = HostLink(
    name="NVLink-C2C",
    peak_gbps=450.0,
    h2d=Range(
        155.0,
        350.0,
        "155 to 211 with both GPUs of a Grace busy (168.6 to 211.5 in NVIDIA/Megatron-LM#6491); "
        "pytorch/torchtitan#3489: about 350 with threads and memory bound to the GPU's socket",
    ),
    d2h=Range(
        155.0,
        350.0,
        "155 to 211 with both GPUs of a Grace busy (181.9 to 193.5 in NVIDIA/Megatron-LM#6491); "
        "pytorch/torchtitan#3519 and #3489: 330 to 350 with memory on the GPU's socket",
    ),
    source="NVIDIA GB200 NVL72 data sheet: 900 GB/s per superchip, both directions added",
    note="Two GPUs share the link of a Grace: 225 GB/s each while both copy in one direction. "
    "About 115 GB/s is typical of host memory on the other socket.",
)

_PCIE_5_X16 = HostLink(
    name="PCIe 5 x16",
    peak_gbps=64.0,
    h2d=Range(
        51.0,
        56.5,
        "NVIDIA/nvbandwidth#53: 51, with the other direction busy; "
        "tinygrad/open-gpu-kernel-modules#29: 56.3 to 56.4 on eight RTX 5090",
    ),
    d2h=Range(
        51.0,
        57.4,
        "NVIDIA/nvbandwidth#24: 52.8 on eight H100, copied by kernels, lower end as for H2D; "
        "tinygrad/open-gpu-kernel-modules#29: 57.3 on eight RTX 5090",
    ),
    source="PCI Express 5.0: 32 GT/s per lane; NVIDIA H100 data sheet: 128 GB/s, both directions",
)

_PCIE_4_X16 = HostLink(
    name="PCIe 4 x16",
    peak_gbps=32.0,
    h2d=Range(
        23.9,
        26.4,
        "NVIDIA/nvbandwidth#15: 23.9 to 26.4 on eight RTX 4090; NVIDIA/nvbandwidth#42: 25.1 on an "
        "A100",
    ),
    d2h=Range(
        24.0,
        27.2,
        "Azure/azurehpc-health-checks, conf/nd96asr_v4.conf: at least 24 on a healthy A100; "
        "NVIDIA/nvbandwidth#15: 26.2 to 27.1 on eight RTX 4090",
    ),
    source="PCI Express 4.0: 16 GT/s per lane; NVIDIA L40S data sheet: 64 GB/s, both directions",
)

_PCIE_3_X16 = HostLink(
    name="PCIe 3 x16",
    peak_gbps=16.0,
    h2d=Range(
        12.0,
        13.1,
        "ZaidQureshi/bam#54: 12 on a V100; mpicbg-scicomp/gearshifft#82: 12.2 on a P100; "
        "usadellab/Helixer#22: 13.1 on an RTX 2080 Ti",
    ),
    d2h=Range(
        12.0,
        13.4,
        "mpicbg-scicomp/gearshifft#82: 12.9 on a P100, lower end as for H2D; Nsight Systems export "
        "in Lianhang666/gpu4: 13.4 on a T4",
    ),
    source="PCI Express 3.0: 8 GT/s per lane; NVIDIA T4 data sheet: 32 GB/s, both directions",
    note="IBM POWER9 servers attach the V100 by NVLink 2 instead, which is faster.",
)

LINKS: Mapping[str, HostLink] = MappingProxyType(
    {
        "gh200": _GRACE_HOPPER,
        "gb200": _GRACE_BLACKWELL,
        "gb300": _GRACE_BLACKWELL,
        "pcie5x16": _PCIE_5_X16,
        "pcie5x8": _eight_lanes(_PCIE_5_X16),
        "pcie4x16": _PCIE_4_X16,
        "pcie4x8": _eight_lanes(_PCIE_4_X16),
        "pcie3x16": _PCIE_3_X16,
    }
)
"""Host links by the short name that a command line takes."""

# Group 1 of a pattern is the GPU's name. A name has to match to its end: what is left over (Laptop
# GPU, Max-Q, a MIG slice, a virtual GPU's profile) may mean fewer lanes or a share of the link.
_GPUS = (
    (r"(GH200)", "gh200"),
    (r"(GB200)", "gb200"),
    (r"(GB300)", "gb300"),
    (r"(H100|H200|B200)", "pcie5x16"),
    # PCIe 6 to the switch on the HGX board, PCIe 5 from there to today's hosts.
    (r"(B300)", "pcie5x16"),
    (r"(RTX PRO 6000 Blackwell)(?: Max-Q)? (?:Workstation|Server) Edition", "pcie5x16"),
    (r"(L4|L40S?|A100|A10|A40)", "pcie4x16"),
    (r"(RTX 6000 Ada) Generation", "pcie4x16"),
    (r"(RTX A6000)", "pcie4x16"),
    (r"(V100S?|T4|TITAN RTX)", "pcie3x16"),
    # Lanes of GeForce cards: reviews of the RTX 3050, 4060 Ti, 5050 and 5060 Ti name eight.
    (r"(GeForce RTX 50(?:50|60|60 Ti))", "pcie5x8"),
    (r"(GeForce RTX 50[789]0(?: Ti)?(?: SUPER| D)?)", "pcie5x16"),
    (r"(GeForce RTX 4060(?: Ti)?)", "pcie4x8"),
    (r"(GeForce RTX 40[789]0(?: Ti)?(?: SUPER| D)?)", "pcie4x16"),
    (r"(GeForce RTX 3050)", "pcie4x8"),
    (r"(GeForce RTX 30[6789]0(?: Ti)?)", "pcie4x16"),
    (r"(GeForce RTX 20[678]0(?: Ti| SUPER)?)", "pcie3x16"),
)
_VENDOR = r"(?:NVIDIA )?(?:Tesla )?"
_FORM_AND_MEMORY = r"(?:[ -](?:SXM\d?|PCIe|NVL|FHHL|AC|HBM\d\w?|\d+ ?GB?))*"


def gpu_named(product_name: str | None) -> Gpu | None:
    """Look up the GPU of a product name.

    Parameters
    ----------
    product_name : str or None
        As the driver reports it and an export holds it, such as ``NVIDIA GH200 120GB``.

    Returns
    -------
    Gpu or None
        ``None`` where the name is missing, not listed, or leaves the width of the link open.

    Examples
    --------
    >>> gpu_named("NVIDIA H100 80GB HBM3").link.name
    'PCIe 5 x16'
    >>> gpu_named("NVIDIA GeForce RTX 5070 Ti Laptop GPU") is None
    True
    """
    for pattern, key in _GPUS:
        whole = _VENDOR + pattern + _FORM_AND_MEMORY
        if match := re.fullmatch(whole, (product_name or "").strip(), re.IGNORECASE):
            return Gpu(match[1], LINKS[key])
    return None
