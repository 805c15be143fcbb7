import pytest

from nsysoffload.recorders.predict.collectives import collective_ranks, sent_bytes
from nsysoffload.recorders.predict.hlo import parse


def module_of(line, header=""):
    return parse(
        f"HloModule m, is_scheduled=true{header}\n\n"
        "ENTRY %e (p: f32[64], q: f32[32]) -> f32[64] {\n"
        "  %p = f32[64]{0} parameter(0)\n"
        "  %q = f32[32]{0} parameter(1)\n"
        f"  {line}\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("groups", "ranks"),
    [
        ("replica_groups={{0,1,2,3},{4,5,6,7}}", 4),
        ("replica_groups={{0,4}, {1,5}}", 2),
        ("replica_groups=[2,4]<=[8]", 4),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", 2),
        ("replica_groups=mesh['axis_0'=8] {'axis_0'}", 8),
        ("replica_groups=mesh['data'=2,'fsdp'=4] {'fsdp'}", 4),
        ("replica_groups=mesh['data'=2,'fsdp'=4] {'data','fsdp'}", 8),
        ("replica_groups=mesh['x'=8] {'x':(2)2}", 2),
        ("replica_groups={}", 16),
        ("channel_id=1", 16),
    ],
)
def test_groups_are_read_in_every_form(groups, ranks):
    module = module_of(
        f"ROOT %r = f32[64]{{0}} all-reduce(%p), {groups}, to_apply=%add",
        ", replica_count=2, num_partitions=8",
    )
    assert collective_ranks(module.entry.by_name["r"], module) == ranks


def test_the_devices_of_a_permutation_are_those_that_send_or_receive():
    module = module_of(
        "ROOT %r = f32[64]{0} collective-permute(%p), source_target_pairs={{0,1},{1,2},{2,0}}"
    )
    assert collective_ranks(module.entry.by_name["r"], module) == 3


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        # p has 256 bytes and q 128; there are four ranks.
        ("f32[256]{0} all-gather(%p)", 3 * 256),
        ("(f32[256]{0}, f32[128]{0}) all-gather(%p, %q)", 3 * (256 + 128)),
        ("f32[64]{0} all-reduce(%p)", 2 * 256 * 3 // 4),
        ("f32[16]{0} reduce-scatter(%p)", 256 * 3 // 4),
        ("(f32[16]{0}, f32[8]{0}) reduce-scatter(%p, %q)", (256 + 128) * 3 // 4),
        ("f32[64]{0} all-to-all(%p)", 256 * 3 // 4),
        ("f32[64]{0} ragged-all-to-all(%p, %q)", 256 * 3 // 4),
        ("f32[64]{0} collective-permute(%p)", 256),
        ("f32[64]{0} collective-broadcast(%p)", 256),
    ],
)
def test_a_device_sends_what_a_ring_needs(line, sent):
    entry = module_of(f"ROOT %r = {line}").entry
    assert sent_bytes(entry.by_name["r"], entry, 4) == sent
