"""All causes in words, in the order in which they claim lost time.

One nanosecond of lost time has one owner: the first cause of this list that applies. Those at the
end own none; what they cost, if anything, is excess time.
"""

from collections.abc import Mapping, Sequence

from nsysoffload.diagnosis.explanation import Explanation
from nsysoffload.errors import unknown_name

__all__ = ["EXPLANATIONS", "explained"]

_STALL = "the stall, from the start of its chain of copies to the next kernel"
_PAUSE = ("pause within a chain of copies, and before the waiting kernel", "20 µs at most")

_OWNERS = (
    Explanation(
        cause="collective_only",
        title="Only collectives run",
        meaning="GPUs exchange data and compute nothing meanwhile. Offloading does not cause this;"
        " copies that run under a collective are exposed all the same, and shown as hidden by"
        " collectives.",
        detection="A collective kernel runs and no compute kernel does. Collectives are known by"
        " name (NCCL, NVSHMEM, XLA's own) and by --collective.",
        thresholds=(),
        advice_xla="Let --xla_gpu_enable_latency_hiding_scheduler=true move the start and the end"
        " of each collective apart, and raise"
        " --xla_gpu_experimental_parallel_collective_overlap_limit so that several may be under"
        " way.",
        advice_cuda="Launch collectives on a stream of their own, and kernels that do not need"
        " their result between their start and the first kernel that does.",
        owns="what lies under collectives",
    ),
    Explanation(
        cause="pageable_memory",
        title="Host memory is pageable",
        meaning="The host side of the copy is ordinary memory. The driver moves it piece by piece"
        " through a pinned buffer of its own, and the call returns only when all is moved: the"
        " copy is slow, and the host launches nothing until it is over.",
        detection="The row says that its host side is pageable, and the API call that made it"
        " lasts about as long as the copy.",
        thresholds=(("API call of a copy that blocks", "90 % of the copy's time or more"), _PAUSE),
        advice_xla="Keep what leaves the GPU in memory kind 'pinned_host':"
        " offload_dst='pinned_host' in the checkpoint policy,"
        " sharding.with_memory_kind('pinned_host') for parameters and optimizer state. NumPy"
        " arrays are pageable: jax.device_put the next batch before the step that needs it.",
        advice_cuda="Allocate the host buffer with cudaHostAlloc, or register it with"
        " cudaHostRegister, once and outside the step; then cudaMemcpyAsync returns at once.",
        owns="the stalls that such copies end, and their own time outside compute",
    ),
    Explanation(
        cause="same_stream",
        title="Copies are on the kernels' stream",
        meaning="A stream does one thing after the other, so a copy on the stream of the kernels"
        " around it cannot run beside them, however early it is issued.",
        detection="The copy that ends the stall is on the stream of the kernels around it. That"
        " streams differ proves nothing, as XLA takes them from a pool; that they are the same"
        " does.",
        thresholds=(("copies on that stream", "half or more of the stall's transfer time"), _PAUSE),
        advice_xla="Use jax 0.12 or later, whose runtime has a stream for each direction of"
        " copies. There, such a copy is one that XLA's schedule makes synchronous: set"
        " --xla_gpu_enable_latency_hiding_scheduler=true, run the layers in jax.lax.scan and name"
        " values inside the layer, as copies of unrolled layers may be serialised or dropped.",
        advice_cuda="Copy on a second stream made with cudaStreamNonBlocking, and order it by"
        " cudaEventRecord and cudaStreamWaitEvent just where data is needed.",
        owns=_STALL,
    ),
    Explanation(
        cause="pinned_allocation",
        title="Pinned memory is allocated within the step",
        meaning="Locking pages takes milliseconds, and other streams wait meanwhile.",
        detection="A call of cudaHostAlloc, cudaMallocHost, cudaHostRegister, cuMemHostAlloc and"
        " the like, or of their frees, during the step and outside compute.",
        thresholds=(),
        advice_xla="XLA keeps pinned memory in a pool that grows while it warms up: leave those"
        " steps out with --skip-steps. If steady steps still allocate, keep host arrays from step"
        " to step (donate state of memory kind 'pinned_host' to the jitted step) instead of making"
        " new ones.",
        advice_cuda="Allocate host buffers once before the first step and use them again.",
        owns="what is lost under the call",
    ),
    Explanation(
        cause="host_callback",
        title="A host callback holds the stream up",
        meaning="The stream waits until a function on the host has returned.",
        detection="cudaLaunchHostFunc or cudaStreamAddCallback is called between the launches of"
        " the kernels around a gap in which nothing runs.",
        thresholds=(),
        advice_xla="Take jax.debug.print, jax.debug.callback, jax.pure_callback and io_callback"
        " out of the step, or run them every so many steps only (jax.lax.cond).",
        advice_cuda="Replace cudaLaunchHostFunc by an event that a thread of the host waits for,"
        " so that the stream goes on.",
        owns="the gap, where no transfer runs",
    ),
    Explanation(
        cause="host_sync",
        title="The host waits for the GPU",
        meaning="The host waits until the GPU has finished and only then launches what comes next,"
        " so the GPU runs dry. A wait during a copy is not counted here: the copy is the cause.",
        detection="A synchronising call of a stream, an event, the context or the device lies over"
        " a gap in which nothing runs, and the next kernel was launched only after the GPU had"
        " gone idle.",
        thresholds=(),
        advice_xla="Read values of a step (float(loss), np.asarray, block_until_ready) one step"
        " later, or every so many steps. A loop whose length XLA cannot tell asks the host in"
        " every iteration: use jax.lax.scan or fori_loop with a fixed length.",
        advice_cuda="Order streams by cudaStreamWaitEvent instead of waiting on the host, and"
        " launch the next work before results are read.",
        owns="the gap under the call, where no transfer runs",
    ),
    Explanation(
        cause="queued_behind_copy",
        title="Copies queue behind another copy",
        meaning="Copies of one direction share one copy engine, whatever their stream. This one"
        " was issued in time, but a burst of others was before it.",
        detection="The copy was issued, and all it had to wait for had ended, well before it"
        " started; until then its direction was busy on another stream.",
        thresholds=(
            ("wait behind other copies", "half or more of the copy's wait, and of the stall"),
            _PAUSE,
        ),
        advice_xla="Reload in the order of use and in smaller parts: offload per layer inside"
        " jax.lax.scan instead of one stacked array, and start fewer copies at once"
        " (--xla_gpu_experimental_parallel_async_compute_limit). Keep small values that are needed"
        " at once, such as metadata of the batch, on the GPU.",
        advice_cuda="Issue the urgent copy first, or split the burst so that it fits in between."
        " Stream priorities do not change the order of copies.",
        owns=_STALL,
    ),
    Explanation(
        cause="shared_copy_stream",
        title="Both directions share one copy stream",
        meaning="The link carries both directions at once, but here both are in one stream, so"
        " that one waits for the other.",
        detection="As for queued_behind_copy, but until the copy started its own stream was busy"
        " with the other direction.",
        thresholds=(
            ("wait behind other copies", "half or more of the copy's wait, and of the stall"),
            _PAUSE,
        ),
        advice_xla="Use jax 0.12 or later, whose runtime has one stream per direction.",
        advice_cuda="Give H2D and D2H a stream each.",
        owns=_STALL,
    ),
    Explanation(
        cause="small_copies",
        title="Many small copies",
        meaning="Each copy is so short that issuing it takes longer than moving it: the link is"
        " idle most of the time, and is not to blame.",
        detection="A run of copies without a kernel start between them, of small median size, with"
        " longer pauses than copies.",
        thresholds=(
            ("median size", "under 64 KiB"),
            ("pauses of the run", "longer than its copies, added up"),
        ),
        advice_xla="Move fewer, larger arrays: offload inside jax.lax.scan over stacked layers,"
        " leave small values (norms, scales, biases) out of names_which_can_be_offloaded, and keep"
        " small leaves of the optimizer state on the GPU.",
        advice_cuda="Pack the pieces into one buffer, or submit them together with"
        " cudaMemcpyBatchAsync.",
        owns="the run of copies, gaps included",
    ),
    Explanation(
        cause="staging_gaps",
        title="Gaps between staged copies",
        meaning="A large array goes through a small buffer: the GPU fills it, then the host"
        " empties it. Each copy runs at the link's speed, and the whole far below.",
        detection="A run of equal copies, each about as fast as the link, with longer gaps between"
        " them in which nothing runs on the GPU.",
        thresholds=(
            ("equal copies in the run", "4 or more of 64 KiB or more; the last may be smaller"),
            ("speed", "75 % of the best lone copy's, or of the low end of the link's range"),
            ("median gap", "longer than the median copy"),
        ),
        advice_xla="Copy to pinned memory in one piece: jax.device_put(x,"
        " sharding.with_memory_kind('pinned_host')) instead of a CPU device or np.asarray.",
        advice_cuda="Copy straight into a pinned buffer of the full size, or use two staging"
        " buffers so that one is emptied while the other is filled.",
        owns="the gaps of the run in which nothing runs on the GPU",
    ),
    Explanation(
        cause="transfer_bound",
        title="More bytes than compute can hide",
        meaning="Compute has copies beside it for all its time, and there are still copies left:"
        " no schedule can hide them. Or copies that began in time last longer than the compute"
        " beside them.",
        detection="Hideable time, which is the smaller of the stall and of the compute time that"
        " has no copy of this direction beside it, is next to nothing, and it is compute that is"
        " missing: not all of the stall could be hidden. Also, where no cause above or below claims"
        " the stall: the run of copies that ends it was under way before compute ran dry, on"
        " another stream.",
        thresholds=(("hideable", "under 5 % of the exposed time"),),
        advice_xla="Move fewer bytes: take names out of names_which_can_be_offloaded, cheapest to"
        " recompute first, and let them be rematerialised; offload narrower types (bfloat16);"
        " shard over more GPUs what is offloaded. Check the link's speed first: lone copies far"
        " below its range mean that the link, and not the amount, is at fault.",
        advice_cuda="Move fewer bytes per step: keep more on the GPU, recompute more, or store"
        " narrower types.",
        owns=_STALL,
    ),
    Explanation(
        cause="step_boundary",
        title="Copies before the first or after the last kernel",
        meaning="A copy at either end of the step has no compute of this step beside it.",
        detection="The stall lies before the step's first compute kernel or after its last.",
        thresholds=(_PAUSE,),
        advice_xla="XLA runs one execution after the other, so that no flag moves these copies"
        " into a neighbouring step. Keep on the GPU what the first and the last kernels need, or"
        " update layer by layer in jax.lax.scan, so that the state of one layer moves while"
        " another is updated.",
        advice_cuda="Prefetch for the next step while this one computes, and wait for copies at"
        " the end of a step only where the next needs them.",
        owns=_STALL,
    ),
    Explanation(
        cause="issued_too_late",
        title="Copies are issued too late",
        meaning="The copy is on a stream of its own and could run beside compute, but starts only"
        " when the kernel before it has ended, and the next kernel waits for it. With offloading"
        " this is usual at the border of two layers: D2H at the end of the forward one, H2D at the"
        " start of the backward one.",
        detection="The copy is not on the kernels' stream, and its call was made only when the GPU"
        " had run dry, or it starts behind a kernel: proven by an event that it waits for, or"
        " because a kernel ends just before.",
        thresholds=(("kernel's end before the copy's start", "20 µs at most"), _PAUSE),
        advice_xla="Run the layers in jax.lax.scan and set"
        " --xla_gpu_enable_pipelined_host_offloading=true, which moves copies into the"
        " neighbouring iteration (openxla/xla#32297), where a whole layer runs beside them,"
        " together with --xla_gpu_enable_latency_hiding_scheduler=true. More room comes from"
        " --xla_gpu_enable_while_loop_double_buffering=true. Measure both directions: one may gain"
        " what the other loses.",
        advice_cuda="Issue H2D copies one layer earlier than they are needed, and wait for D2H"
        " copies only before their source is overwritten.",
        owns=_STALL,
    ),
    Explanation(
        cause="host_gap",
        title="The host launches too late",
        meaning="The GPU has nothing to do, because the next launch comes only after it ran dry.",
        detection="Nothing runs, and the call that launches the next kernel came after the GPU had"
        " gone idle.",
        thresholds=(),
        advice_xla="Let Python run ahead: no work between steps that waits for results, input"
        " prepared in advance. Leave --xla_gpu_enable_command_buffer at its default, so that XLA"
        " launches many kernels as one CUDA graph. Profiling slows launches down as well: compare"
        " with a step that is not profiled.",
        advice_cuda="Launch further ahead, or capture the step as a CUDA graph.",
        owns="the rest of a gap in which nothing runs",
    ),
    Explanation(
        cause="unknown",
        title="Not explained",
        meaning="Time outside compute for which the trace shows no reason.",
        detection="What no other cause owns. Every program has short pauses between kernels, so"
        " that it is a note unless it is much, the steps are known and all work in them was"
        " recorded.",
        thresholds=(("much", "5 % of the step or more"),),
        advice_xla="Look at the place in the timeline. Record with --trace=cuda,nvtx and"
        " --cuda-graph-trace=node, so that calls, XLA's names and work inside graphs are seen.",
        advice_cuda="Look at the place in the timeline. Record with --trace=cuda,nvtx and"
        " --cuda-graph-trace=node, so that calls and work inside graphs are seen.",
        owns="all that is left",
    ),
)

_OTHERS = (
    Explanation(
        cause="starved",
        title="Copies starve under kernels",
        meaning="The copy is hidden by time, not in effect: kernels that are bound by memory leave"
        " it little of the HBM's bandwidth, so that it hardly moves until they end.",
        detection="Pinned copies that ran under kernels, against lone copies of the same direction"
        " and size class in the trace.",
        thresholds=(
            ("bandwidth", "under 80 % of that of lone copies"),
            ("lone copies", "3 or more"),
            ("of the copy's time under kernels", "half or more"),
        ),
        advice_xla="Give the copy matrix products to hide under instead of transposes and other"
        " kernels that are bound by memory (openxla/xla#46150): avoid changes of layout next to"
        " it, and let it span several kernels with --xla_gpu_enable_pipelined_host_offloading=true"
        " and --xla_gpu_enable_while_loop_double_buffering=true.",
        advice_cuda="Issue the copy so that it runs beside kernels that are bound by arithmetic,"
        " or earlier, so that it has more of them.",
        owns=None,
        excess="the copy's time beyond that at the bandwidth of lone copies",
    ),
    Explanation(
        cause="bidirectional_contention",
        title="The two directions slow each other down",
        meaning="H2D and D2H run at once and share the path to host memory, which carries less"
        " than twice one direction.",
        detection="Pinned copies that ran beside the other direction, against lone copies of the"
        " same direction and size class in the trace.",
        thresholds=(
            ("bandwidth", "under 80 % of that of lone copies"),
            ("lone copies", "3 or more"),
            ("of the copy's time beside the other direction", "half or more"),
        ),
        advice_xla="It costs step time only where copies are exposed. There, keep the directions"
        " apart: offload activations, which leave in the forward pass and return in the backward,"
        " and do not move optimizer state in both directions during either.",
        advice_cuda="Where these copies are exposed, schedule one direction while the other rests.",
        owns=None,
        excess="the copy's time beyond that at the bandwidth of lone copies",
    ),
    Explanation(
        cause="compute_contention",
        title="Kernels run longer under copies",
        meaning="Copies at full speed take bandwidth of the HBM from kernels beside them. That is"
        " a price of hiding: it makes the step longer without a gap.",
        detection="Kernels of one name and launch shape: median time of those under transfers"
        " against those without.",
        thresholds=(
            ("under transfers", "90 % of the kernel's time or more"),
            ("without", "10 % or less"),
            ("kernels of each sort", "3 or more"),
            ("longer by", "more than 2 %"),
        ),
        advice_xla="Set it against what offloading saves: the recompute time of a rematerialised"
        " run. If it is too much, offload fewer bytes (names_which_can_be_offloaded), or let"
        " copies run beside matrix products, which need the HBM less.",
        advice_cuda="Move fewer bytes, or move them beside kernels that are bound by arithmetic.",
        owns=None,
        excess="the kernels' time beyond that of lone ones",
    ),
    Explanation(
        cause="remote_numa",
        title="Host memory is on a far NUMA node",
        meaning="Large copies that nothing disturbs are far slower than the link. Most often the"
        " pinned memory lies on the other socket, because the process was not bound to the GPU's.",
        detection="Pinned copies with nothing beside them, against the range that others measured"
        " on this link. Each device by itself; no verdict where the link is not known.",
        thresholds=(
            ("size", "16 MiB or more"),
            ("fastest of them", "under 75 % of the low end of the link's range"),
        ),
        advice_xla="Run one process per GPU, bound to the GPU's node before JAX allocates: numactl"
        " --cpunodebind=N --membind=N python ...; 'nvidia-smi topo -m' shows the node N of each"
        " GPU.",
        advice_cuda="Run one process per GPU, bound to the GPU's node before memory is pinned:"
        " numactl --cpunodebind=N --membind=N; 'nvidia-smi topo -m' shows the node N of each GPU.",
        owns=None,
        excess="the copy's time beyond that at the low end of the link's range",
    ),
    Explanation(
        cause="kernel_copy",
        title="A kernel seems to carry a transfer",
        meaning="A kernel reads or writes host memory itself, so there is no copy in the trace,"
        " and its bytes are not known. It counts as compute and makes other copies look hidden.",
        detection="A kernel belongs to an asynchronous XLA operation (its name has -start in it)"
        " that slices or updates a slice. That it moves data to or from the host cannot be seen,"
        " so that it is a note.",
        thresholds=(),
        advice_xla="Offload values whose slice is contiguous: with jax.lax.scan over layers the"
        " layer is the first axis, and a slice of it is one block, which XLA copies with the copy"
        " engine. Take the kernel out of compute with --not-compute REGEX to see the rest without"
        " it.",
        advice_cuda="Use cudaMemcpyAsync for contiguous blocks, which leaves the SMs to compute."
        " Take the kernel out of compute with --not-compute REGEX to see the rest without it.",
        owns=None,
    ),
)

EXPLANATIONS: Mapping[str, Explanation] = {e.cause: e for e in (*_OWNERS, *_OTHERS)}


def explained(names: Sequence[str]) -> tuple[Explanation, ...]:
    """Return the explanations of some causes.

    Parameters
    ----------
    names : sequence of str
        Causes; ``all`` stands for every one.

    Raises
    ------
    UsageError
        If a cause is not known; it names the one that was perhaps meant, and all.
    """
    for name in names or [""]:
        if name not in (*EXPLANATIONS, "all"):
            raise unknown_name("Cause", name, (*EXPLANATIONS, "all"))
    chosen = EXPLANATIONS if "all" in names else dict.fromkeys(names)
    return tuple(EXPLANATIONS[name] for name in chosen)
