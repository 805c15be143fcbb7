import pytest
from jax.sharding import PartitionSpec

from nsysoffload.errors import UsageError
from workloads.sharding import MOST_DEVICES, batch_shards, make_mesh, named_sharding, parse_mesh


def test_a_mesh_is_read_in_its_own_order():
    assert list(parse_mesh("tensor=2, fsdp=8").items()) == [("tensor", 2), ("fsdp", 8)]
    assert parse_mesh("") == {}


@pytest.mark.parametrize("part", ["fsdp", "fsdp=", "fsdp=0", "fsdp=x", "model=2", "=2"])
def test_what_is_no_mesh_is_refused_with_an_example(part):
    with pytest.raises(UsageError, match=rf"^'{part}' is no part of a mesh; write AXIS=N"):
        parse_mesh(f"data=2,{part}")


def test_an_axis_comes_once():
    with pytest.raises(UsageError, match="'fsdp=4' is no part"):
        parse_mesh("fsdp=2,fsdp=4")


def test_a_mesh_of_more_devices_than_any_machine_has_is_refused():
    assert parse_mesh(f"fsdp={MOST_DEVICES // 2},tensor=2")
    with pytest.raises(UsageError, match=r"more than 131,072 devices; make it smaller\.$"):
        parse_mesh(f"fsdp={MOST_DEVICES},tensor=2")


def test_devices_without_a_mesh_all_lie_along_fsdp(devices):
    assert dict(make_mesh(devices, {}).shape) == {"fsdp": 8}


def test_a_mesh_needs_as_many_devices_as_there_are(devices):
    with pytest.raises(UsageError, match=r"Mesh fsdp=4,tensor=4 needs 16 devices and there are 8"):
        make_mesh(devices, {"fsdp": 4, "tensor": 4})


def test_axes_lie_on_the_mesh_by_their_names(devices):
    mesh = make_mesh(devices, parse_mesh("fsdp=2,expert=2,tensor=2"))

    def spec(*axes):
        return named_sharding(mesh, axes, [8] * len(axes)).spec

    assert spec("layers", "embed", "ffw") == PartitionSpec(None, ("fsdp", "expert"), ("tensor",))
    # Experts take the expert axis, so it is not left for their embed axis.
    assert spec("experts", "embed", "ffw") == PartitionSpec(("expert",), ("fsdp",), ("tensor",))
    assert spec("batch", None, "heads") == PartitionSpec(("fsdp", "expert"), None, ("tensor",))
    assert batch_shards(mesh) == 4


def test_an_axis_that_cannot_be_split_evenly_is_refused(devices):
    mesh = make_mesh(devices, parse_mesh("tensor=8"))
    with pytest.raises(
        UsageError, match=r"The kv_heads axis of length 2 .* 8 devices \(tensor=8\)"
    ):
        named_sharding(mesh, ("kv_heads",), (2,))
