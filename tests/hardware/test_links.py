import pytest

from nsysoffload.hardware import LINKS, Range, gpu_named


@pytest.mark.parametrize(
    ("product_name", "name", "link"),
    [
        ("NVIDIA GH200 120GB", "GH200", "gh200"),
        ("NVIDIA GH200 480GB", "GH200", "gh200"),
        ("NVIDIA GH200 144G HBM3e", "GH200", "gh200"),
        ("NVIDIA GB200", "GB200", "gb200"),
        ("NVIDIA GB300", "GB300", "gb300"),
        ("NVIDIA H100 80GB HBM3", "H100", "pcie5x16"),
        ("NVIDIA H100 PCIe", "H100", "pcie5x16"),
        ("NVIDIA H100 NVL", "H100", "pcie5x16"),
        ("NVIDIA H200", "H200", "pcie5x16"),
        ("NVIDIA H200 NVL", "H200", "pcie5x16"),
        ("NVIDIA B200", "B200", "pcie5x16"),
        ("NVIDIA B300 SXM6 AC", "B300", "pcie5x16"),
        ("NVIDIA L40S", "L40S", "pcie4x16"),
        ("NVIDIA L4", "L4", "pcie4x16"),
        ("NVIDIA A100-SXM4-40GB", "A100", "pcie4x16"),
        ("NVIDIA A100-PCIE-40GB", "A100", "pcie4x16"),
        ("NVIDIA A100 80GB PCIe", "A100", "pcie4x16"),
        ("NVIDIA A10", "A10", "pcie4x16"),
        ("NVIDIA A40", "A40", "pcie4x16"),
        ("Tesla V100-SXM2-16GB", "V100", "pcie3x16"),
        ("Tesla V100S-PCIE-32GB", "V100S", "pcie3x16"),
        ("Tesla T4", "T4", "pcie3x16"),
        ("NVIDIA TITAN RTX", "TITAN RTX", "pcie3x16"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell", "pcie5x16"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "RTX PRO 6000 Blackwell",
            "pcie5x16",
        ),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", "pcie4x16"),
        ("NVIDIA RTX A6000", "RTX A6000", "pcie4x16"),
        ("GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti", "pcie3x16"),
        ("NVIDIA GeForce RTX 2070 SUPER", "GeForce RTX 2070 SUPER", "pcie3x16"),
        ("NVIDIA GeForce RTX 3050", "GeForce RTX 3050", "pcie4x8"),
        ("NVIDIA GeForce RTX 3060", "GeForce RTX 3060", "pcie4x16"),
        ("NVIDIA GeForce RTX 3090 Ti", "GeForce RTX 3090 Ti", "pcie4x16"),
        ("NVIDIA GeForce RTX 4060", "GeForce RTX 4060", "pcie4x8"),
        ("NVIDIA GeForce RTX 4060 Ti", "GeForce RTX 4060 Ti", "pcie4x8"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "GeForce RTX 4070 Ti SUPER", "pcie4x16"),
        ("NVIDIA GeForce RTX 4090 D", "GeForce RTX 4090 D", "pcie4x16"),
        ("NVIDIA GeForce RTX 5050", "GeForce RTX 5050", "pcie5x8"),
        ("NVIDIA GeForce RTX 5060", "GeForce RTX 5060", "pcie5x8"),
        ("NVIDIA GeForce RTX 5060 Ti", "GeForce RTX 5060 Ti", "pcie5x8"),
        ("NVIDIA GeForce RTX 5070", "GeForce RTX 5070", "pcie5x16"),
        ("NVIDIA GeForce RTX 5080", "GeForce RTX 5080", "pcie5x16"),
    ],
)
def test_a_product_name_gives_the_gpu_and_its_host_link(product_name, name, link):
    gpu = gpu_named(product_name)
    assert gpu is not None
    assert (gpu.name, gpu.link) == (name, LINKS[link])


@pytest.mark.parametrize(
    "product_name",
    [
        pytest.param(None, id="no name"),
        pytest.param("", id="empty name"),
        pytest.param("NVIDIA GB10", id="not listed"),
        pytest.param("Intel(R) UHD Graphics", id="other vendor"),
        pytest.param("NVIDIA GeForce RTX 5070 Ti Laptop GPU", id="laptop"),
        pytest.param("NVIDIA GeForce RTX 3060 Laptop ", id="laptop, cut to 31 characters"),
        pytest.param("NVIDIA GeForce RTX 3070 Ti Lapt", id="laptop, cut in a word"),
        pytest.param("NVIDIA GeForce RTX 2080 with Max-Q Design", id="older laptop"),
        pytest.param("NVIDIA A100-SXM4-40GB MIG 1g.5gb", id="slice of a GPU"),
        pytest.param("NVIDIA A40-48Q", id="virtual GPU"),
        pytest.param("NVIDIA XH200", id="listed name inside another"),
    ],
)
def test_an_unknown_platform_has_no_link_and_so_no_verdict(product_name):
    assert gpu_named(product_name) is None


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS.keys())
def test_every_link_has_ordered_rates_and_names_its_sources(link):
    assert link.name
    assert link.source
    for measured in (link.h2d, link.d2h):
        assert 0 < measured.low_gbps <= measured.high_gbps <= link.peak_gbps
        assert measured.source


@pytest.mark.parametrize("generation", ["pcie5", "pcie4"])
def test_eight_lanes_carry_half_of_sixteen_and_say_so(generation):
    x8, x16 = LINKS[f"{generation}x8"], LINKS[f"{generation}x16"]
    assert x8.name == x16.name.replace("x16", "x8")
    assert 2 * x8.peak_gbps == x16.peak_gbps
    for half, full in ((x8.h2d, x16.h2d), (x8.d2h, x16.d2h)):
        assert half == Range(
            full.low_gbps / 2, full.high_gbps / 2, f"half of the x16 range: {full.source}"
        )


@pytest.mark.parametrize(
    ("link", "direction", "gbps", "place"),
    [
        pytest.param("gh200", "d2h", 170.0, "within", id="GH200 on a node of four, D2H"),
        pytest.param("gh200", "d2h", 295.5, "within", id="one GH200, D2H"),
        pytest.param("gh200", "h2d", 170.0, "below", id="GH200 as slow as D2H, H2D"),
        pytest.param("gb200", "d2h", 115.0, "below", id="GB200, memory on the other socket"),
        pytest.param("gb200", "d2h", 330.0, "within", id="GB200, memory on its own socket"),
        pytest.param("gb300", "h2d", 170.0, "within", id="GB300, all GPUs busy"),
        pytest.param("pcie4x8", "h2d", 13.05, "within", id="RTX 4060 Ti, 100 MB, H2D"),
        pytest.param("pcie4x8", "d2h", 13.19, "within", id="RTX 4060 Ti, 100 MB, D2H"),
        pytest.param("pcie4x16", "h2d", 12.0, "below", id="half of PCIe 4 x16"),
    ],
)
def test_rates_from_public_reports_fall_where_the_reporters_saw_them(link, direction, gbps, place):
    measured = getattr(LINKS[link], direction)
    within = measured.low_gbps <= gbps <= measured.high_gbps
    assert ("within" if within else "below" if gbps < measured.low_gbps else "above") == place


def test_links_cannot_be_changed():
    with pytest.raises(TypeError):
        LINKS["gh200"] = LINKS["pcie3x16"]
