"""A small compiled module, as a program prints itself and as XLA dumps it."""

FINGERPRINT = "0123456789abcdef0123456789abcdef"

_HEAD = f"""\
HloModule jit_step, is_scheduled=true, num_partitions=2, \
frontend_attributes={{fingerprint_before_lhs="{FINGERPRINT}"}}
"""

_SLICES = "".join(
    f"""
%wrapped_dynamic-slice_computation{dot} (p.0: bf16[4,8], p.1: s32[], p.2: s32[]) -> bf16[1,8] {{
  %p.0{dot} = bf16[4,8]{{1,0:S(5)}} parameter(0)
  %p.1{dot} = s32[] parameter(1)
  %p.2{dot} = s32[] parameter(2)
  ROOT %dynamic-slice{dot} = bf16[1,8]{{1,0}} dynamic-slice(%p.0{dot}, %p.1{dot}, %p.2{dot}), \
dynamic_slice_sizes={{1,8}}
}}
"""
    for dot in ("", ".1")
)

_ADD = """
%fused_add (a: bf16[1,8]) -> bf16[1,8] {
  %a = bf16[1,8]{1,0} parameter(0)
  ROOT %add.9 = bf16[1,8]{1,0} add(%a, %a)
}

%condition (c: (s32[], bf16[4,8], bf16[1,8])) -> pred[] {
  %c = (s32[], bf16[4,8]{1,0:S(5)}, bf16[1,8]{1,0}) parameter(0)
  ROOT %less = pred[] constant(true)
}
"""

_BODY = """
%body (p: (s32[], bf16[4,8], bf16[1,8])) -> (s32[], bf16[4,8], bf16[1,8]) {
  %p = (s32[], bf16[4,8]{1,0:S(5)}, bf16[1,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %host = bf16[4,8]{1,0:S(5)} get-tuple-element(%p), index=1
  %x = bf16[1,8]{1,0} get-tuple-element(%p), index=2
  %dynamic-slice-start = ((bf16[4,8]{1,0:S(5)}, s32[], s32[]), bf16[1,8]{1,0}, u32[]) \
@0@
  %dynamic-slice-start.7 = ((bf16[4,8]{1,0:S(5)}, s32[], s32[]), bf16[1,8]{1,0}, u32[]) \
@1@
  %loop_add_fusion = bf16[1,8]{1,0} fusion(%x), kind=kLoop, calls=%fused_add
  %dynamic-slice-done = bf16[1,8]{1,0} @done@(%dynamic-slice-start)
  %all-gather.81 = bf16[2,8]{1,0} all-gather(%loop_add_fusion), channel_id=1, \
replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true, \
metadata={scheduling_name="all-gather-start.3"}
  %dynamic-slice-done.7 = bf16[1,8]{1,0} @done@(%dynamic-slice-start.7)
  ROOT %t = (s32[], bf16[4,8]{1,0:S(5)}, bf16[1,8]{1,0}) tuple(%i, %host, %dynamic-slice-done)
}

ENTRY %main (z: (s32[], bf16[4,8], bf16[1,8])) -> (s32[], bf16[4,8], bf16[1,8]) {
  %z = (s32[], bf16[4,8]{1,0:S(5)}, bf16[1,8]{1,0}) parameter(0)
  %y = bf16[1,8]{1,0} get-tuple-element(%z), index=2
  %loop_add_fusion.1 = bf16[1,8]{1,0} fusion(%y), kind=kLoop, calls=%fused_add
  ROOT %while.5 = (s32[], bf16[4,8]{1,0:S(5)}, bf16[1,8]{1,0}) while(%z), condition=%condition, \
body=%body, backend_config={"known_trip_count":{"n":"4"}}
}
"""

_SUGAR = "fusion-start(%host, %i, %i), kind=kLoop, calls=%wrapped_dynamic-slice_computation{}"
_PLAIN = "async-start(%host, %i, %i), calls=%async_computation{}"

_ASYNC = "".join(
    f"""
%async_computation{dot} (q.0: bf16[4,8], q.1: s32[], q.2: s32[]) -> bf16[1,8] {{
  %q.0{dot} = bf16[4,8]{{1,0:S(5)}} parameter(0)
  %q.1{dot} = s32[] parameter(1)
  %q.2{dot} = s32[] parameter(2)
  ROOT %wrapped_dynamic-slice{dot} = bf16[1,8]{{1,0}} fusion(%q.0{dot}, %q.1{dot}, %q.2{dot}), \
kind=kLoop, calls=%wrapped_dynamic-slice_computation{dot}
}}
"""
    for dot in ("", ".1")
)


def _body(start: str, done: str) -> str:
    body = _BODY.replace("@done@", done)
    return body.replace("@0@", start.format("")).replace("@1@", start.format(".1"))


PRINTED = _HEAD + _SLICES + _ADD + _body(_SUGAR, "fusion-done")
"""As ``compiled.as_text()`` gives it.

In a loop of four: two copies from the host, a fusion and a collective, which was asynchronous when
it was scheduled; before the loop a fusion.
"""

DUMPED = _HEAD + _SLICES + _ASYNC + _ADD + _body(_PLAIN, "async-done")
"""The same as XLA dumps it."""
