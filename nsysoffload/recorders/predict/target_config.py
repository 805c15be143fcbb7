"""A target as the compiler reads it: a text proto of XLA's ``GpuTargetConfigProto``."""

from nsysoffload.hardware import Target

__all__ = ["CUDNN", "target_config"]

# The oldest cuDNN that the pinned jax release allows beside it: what compiles with it runs with
# every later one.
CUDNN = (9, 12, 0)

# What an SM of a generation has, by the major compute capability: fp32 units, shared memory in
# bytes, NVLinks of the GPU, and whether there are kernels for this generation alone. Source:
# openxla/xla, xla/backends/gpu/target_config/specs; a block gets 1 KiB less shared memory.
_GENERATIONS = {
    8: (64, 167_936, 12, "NONE"),
    9: (128, 233_472, 18, "ACCELERATED_FEATURES"),
    10: (128, 233_472, 18, "ACCELERATED_FEATURES"),
}


def target_config(target: Target) -> str:
    """Return the text proto that describes a target to the compiler.

    The device memory in it bounds what the compiler's scheduler plans with, and nothing else: a
    program that needs more is compiled all the same.
    """
    major, minor = target.compute_capability
    fpus, shared_bytes, nvlinks, features = _GENERATIONS[major]
    cudnn = "major: {} minor: {} patch: {}".format(*CUDNN)
    return f"""
gpu_device_info {{
  name: "{target.name}"
  device_vendor: "NVIDIA Corporation"
  core_count: {target.sms}
  fpus_per_core: {fpus}
  clock_rate_ghz: {target.clock_ghz}
  device_memory_size: {target.memory_bytes}
  memory_bandwidth: {round(target.hbm_gbps * 1e9)}
  l2_cache_size: {target.l2_bytes}
  shared_memory_per_core: {shared_bytes}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {shared_bytes - 1024}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  threads_per_warp: 32
  threads_per_core_limit: 2048
  threads_per_block_limit: 1024
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  device_address_bits: 64
  ecc_enabled: true
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {features} }}
  device_interconnect_info {{ active_links: {nvlinks} }}
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  compile_time_toolkit_version: "13.0.0"
  dnn_version: "{".".join(map(str, CUDNN))}"
}}
platform_name: "CUDA"
dnn_version_info {{ {cudnn} }}
device_description_str: "{target.name}"
"""
