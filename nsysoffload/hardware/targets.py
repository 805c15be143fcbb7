"""GPUs that a program can be compiled for: what the compiler asks, and peaks for a cost model.

Peaks are dense, without 2:4 sparsity, as in the data sheets. Each sheet assumes a boost clock of
its own, which the chip holds only with power to spare: H100's 989 TFLOP/s are 132 SMs with four
units of 512 multiply-adds at 1.83 GHz, B200's 2,250 take 1.86 GHz, GB200's 2,500 take 2.01 GHz.
Measured efficiencies are shares of these peaks. ``clock_ghz`` is another figure, the highest SM
clock that the driver reports; the compiler estimates with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """A GPU to compile for and to model.

    Attributes
    ----------
    key : str
        Short name that a command line takes.
    name : str
        Product name as the driver reports it.
    compute_capability : tuple of int
        Major and minor.
    sms : int
        Streaming multiprocessors.
    memory_bytes, l2_bytes : int
        Device memory as the driver reports it in total, and level 2 cache.
    clock_ghz : float
        Highest SM clock.
    hbm_gbps : float
        Peak of device memory, decimal GB/s, which is bytes per nanosecond.
    fp8_tflops, bf16_tflops, tf32_tflops, fp32_tflops : float
        Dense peaks; ``bf16`` stands for fp16 too, ``fp32`` is without tensor cores, and ``fp8``
        equals ``bf16`` where there is no fp8 unit.
    nvlink_gbps : float
        Peak of one GPU to all others in one direction, decimal GB/s.
    nvlink_domain : int
        GPUs that reach each other over NVLink in the usual machine.
    link : str
        Host link, a key of `nsysoffload.hardware.LINKS`.
    host_memory_bytes : int
        Host memory that there is for each GPU in the usual machine: that of its CPU, shared evenly
        among the GPUs. What the system and other programs take is not off.
    source : str
        Where the figures stand.
    host_source : str
        Where the host memory stands.
    """

    key: str
    name: str
    compute_capability: tuple[int, int]
    sms: int
    memory_bytes: int
    l2_bytes: int
    clock_ghz: float
    hbm_gbps: float
    fp8_tflops: float
    bf16_tflops: float
    tf32_tflops: float
    fp32_tflops: float
    nvlink_gbps: float
    nvlink_domain: int
    link: str
    host_memory_bytes: int
    source: str
    host_source: str

    def flops_per_ns(self, dtype: str) -> float:
        """Dense peak for products of an element type.

        Parameters
        ----------
        dtype : str
            Element type as HLO prints it, such as ``bf16`` or ``f8e4m3fn``.

        Returns
        -------
        float
            Floating-point operations per nanosecond. ``f32`` runs as TF32, the default of XLA on
            these GPUs; types without a peak of their own get that of ``fp32``.

        Examples
        --------
        >>> TARGETS["h100"].flops_per_ns("bf16")
        989400.0
        """
        if dtype.startswith("f8"):
            return 1000 * self.fp8_tflops
        peaks = {"bf16": self.bf16_tflops, "f16": self.bf16_tflops, "f32": self.tf32_tflops}
        return 1000 * peaks.get(dtype, self.fp32_tflops)


_DRIVER = "memory, L2, clock and HBM rate: openxla/xla, xla/backends/gpu/target_config/specs"
_NVL72 = "peaks: NVIDIA {} NVL72 data sheet, a 72nd of the rack, sparse figures halved"
_GRACE = "NVIDIA {} NVL72 data sheet: up to 17 TB of LPDDR5X, 480 GB per Grace, which has two GPUs"
_DGX = "NVIDIA DGX {}: 2 TB of system memory, an eighth per GPU"
_HGX = "peaks: NVIDIA HGX {} data sheet, an eighth of the board, sparse figures halved"

_TARGETS = (
    Target(
        key="gh200",
        name="NVIDIA GH200 120GB",
        compute_capability=(9, 0),
        sms=132,
        memory_bytes=96_000_000_000,
        l2_bytes=52_428_800,
        clock_ghz=1.98,
        hbm_gbps=4000.0,
        fp8_tflops=1978.9,
        bf16_tflops=989.4,
        tf32_tflops=494.7,
        fp32_tflops=66.9,
        nvlink_gbps=450.0,
        nvlink_domain=4,
        link="gh200",
        host_memory_bytes=120_000_000_000,
        source="memory and HBM rate: NVIDIA GH200 Grace Hopper Superchip data sheet, 96 GB and "
        "4 TB/s; the rest as H100, the same chip; domain: nodes of four, as in JUPITER and Alps",
        host_source="NVIDIA GH200 120GB: 120 GB of LPDDR5X, by its name; others have up to 480 GB",
    ),
    Target(
        key="gb200",
        name="NVIDIA GB200",
        compute_capability=(10, 0),
        sms=152,
        memory_bytes=197_897_748_480,
        l2_bytes=135_528_448,
        clock_ghz=2.062,
        hbm_gbps=7928.064,
        fp8_tflops=5000.0,
        bf16_tflops=2500.0,
        tf32_tflops=1250.0,
        fp32_tflops=80.0,
        nvlink_gbps=900.0,
        nvlink_domain=72,
        link="gb200",
        host_memory_bytes=240_000_000_000,
        source=f"{_NVL72.format('GB200')}; {_DRIVER}",
        host_source=_GRACE.format("GB200"),
    ),
    Target(
        key="gb300",
        name="NVIDIA GB300",
        compute_capability=(10, 3),
        sms=152,
        memory_bytes=297_021_079_552,
        l2_bytes=135_528_448,
        clock_ghz=2.07,
        hbm_gbps=7928.064,
        fp8_tflops=5000.0,
        bf16_tflops=2500.0,
        tf32_tflops=1250.0,
        fp32_tflops=80.0,
        nvlink_gbps=900.0,
        nvlink_domain=72,
        link="gb300",
        host_memory_bytes=240_000_000_000,
        source=f"{_NVL72.format('GB300')}, fp32 as GB200; {_DRIVER}",
        host_source=_GRACE.format("GB300"),
    ),
    Target(
        key="h100",
        name="NVIDIA H100 80GB HBM3",
        compute_capability=(9, 0),
        sms=132,
        memory_bytes=84_942_979_072,
        l2_bytes=52_428_800,
        clock_ghz=1.98,
        hbm_gbps=3352.32,
        fp8_tflops=1978.9,
        bf16_tflops=989.4,
        tf32_tflops=494.7,
        fp32_tflops=66.9,
        nvlink_gbps=450.0,
        nvlink_domain=8,
        link="pcie5x16",
        host_memory_bytes=250_000_000_000,
        source=f"peaks: NVIDIA H100 Tensor Core GPU Architecture, SXM5; {_DRIVER}",
        host_source=_DGX.format("H100"),
    ),
    Target(
        key="h200",
        name="NVIDIA H200",
        compute_capability=(9, 0),
        sms=132,
        memory_bytes=151_397_597_184,
        l2_bytes=52_428_800,
        clock_ghz=1.98,
        hbm_gbps=4800.0,
        fp8_tflops=1978.9,
        bf16_tflops=989.4,
        tf32_tflops=494.7,
        fp32_tflops=66.9,
        nvlink_gbps=450.0,
        nvlink_domain=8,
        link="pcie5x16",
        host_memory_bytes=250_000_000_000,
        source=f"peaks: as H100, the same chip; {_DRIVER}",
        host_source=_DGX.format("H200"),
    ),
    Target(
        key="b200",
        name="NVIDIA B200",
        compute_capability=(10, 0),
        sms=148,
        memory_bytes=191_514_411_008,
        l2_bytes=132_644_864,
        clock_ghz=1.965,
        hbm_gbps=7672.32,
        fp8_tflops=4500.0,
        bf16_tflops=2250.0,
        tf32_tflops=1125.0,
        fp32_tflops=75.0,
        nvlink_gbps=900.0,
        nvlink_domain=8,
        link="pcie5x16",
        host_memory_bytes=250_000_000_000,
        source=f"{_HGX.format('B200')}; {_DRIVER}",
        host_source=f"{_DGX.format('B200')}; upgradable to 4 TB",
    ),
    Target(
        key="b300",
        name="NVIDIA B300 SXM6 AC",
        compute_capability=(10, 3),
        sms=158,
        memory_bytes=297_021_865_984,
        l2_bytes=135_528_448,
        clock_ghz=1.965,
        hbm_gbps=7936.0,
        fp8_tflops=4500.0,
        bf16_tflops=2250.0,
        tf32_tflops=1125.0,
        fp32_tflops=75.0,
        nvlink_gbps=900.0,
        nvlink_domain=8,
        link="pcie5x16",
        host_memory_bytes=250_000_000_000,
        source=f"{_HGX.format('B300')}; {_DRIVER}",
        host_source=f"{_DGX.format('B300')}; configurable to 4 TB",
    ),
    Target(
        key="a100",
        name="NVIDIA A100-SXM4-80GB",
        compute_capability=(8, 0),
        sms=108,
        memory_bytes=85_100_068_864,
        l2_bytes=41_943_040,
        clock_ghz=1.41,
        hbm_gbps=2039.04,
        fp8_tflops=312.0,
        bf16_tflops=312.0,
        tf32_tflops=156.0,
        fp32_tflops=19.5,
        nvlink_gbps=300.0,
        nvlink_domain=8,
        link="pcie4x16",
        host_memory_bytes=250_000_000_000,
        source=f"peaks: NVIDIA A100 data sheet, 80 GB SXM; {_DRIVER}",
        host_source=f"{_DGX.format('A100 640GB')}; 1 TB in that with 40 GB GPUs",
    ),
)

TARGETS: Mapping[str, Target] = MappingProxyType({target.key: target for target in _TARGETS})
"""GPUs by the short name that a command line takes."""
