"""What looks private in any text, and what does not."""

import time

import pytest

from nsysoffload.private.patterns import looks_private


def private_parts(text: str) -> list[tuple[str, str]]:
    return [(kind, text[start:end]) for start, end, kind in looks_private(text)]


@pytest.mark.parametrize(
    ("kind", "private"),
    [
        ("path", "/home/alice/run 1"[:11]),
        ("path", "/tmp/x"),
        ("path", "~/secrets"),
        ("path", r"C:\Users\alice\x.cu"),
        ("path", r"\\server\share\x"),
        ("file", "src/acme/attention.cu"),
        ("url", "https://user:pass@git.corp.example/x?y=1"),
        ("url", "s3://bucket/key"),
        ("email", "alice.b@corp.example.com"),
        ("address", "10.0.0.17"),
        ("address", "192.168.100.254"),
        ("address", "fe80::1ff:fe23:4567:890a"),
        ("address", "3c:ec:ef:12:34:56"),
        ("token", "ghp_0123456789abcdefABCDEF"),
        ("token", "github_pat_11ABCDEFG0123456789"),
        ("token", "glpat-0123456789abcdefghij"),
        ("token", "hf_abcdefghijklmnopqrst"),
        ("token", "sk-proj-0123456789abcdefgh"),
        ("token", "AKIAIOSFODNN7EXAMPLE"),
        ("token", "xoxb-123456789012-abcdef"),
        ("token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"),
        ("token", "Bearer abcdef0123456789"),
        ("token", "123e4567-e89b-12d3-a456-426614174000"),
        ("token", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"),
        ("token", "q7Rt2Lm9Xv4Bz8Kw1Np6Ys3Dc5"),
        ("secret", "TOKEN=abcdef"),
        ("secret", "password: swordfish"),
        ("secret", "access_key = abc123def"),
        ("secret", "API_KEY=0f3b9c2d7a"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "open {} now", "({})", '"{}"'])
def test_what_looks_private_is_found(kind: str, private: str, around: str):
    if kind in ("secret", "url"):
        around = around.strip("()")  # they go on to the next space or quote
    assert private_parts(around.format(private)) == [(kind, private)]


def test_of_a_variable_the_end_of_its_name_and_its_value_are_private():
    assert private_parts("HF_TOKEN=abcdef x") == [("secret", "TOKEN=abcdef")]
    assert private_parts("GPG_KEY=abcdef") == [("secret", "_KEY=abcdef")]
    assert private_parts("aws_secret_access_key=abcdef") == [("secret", "access_key=abcdef")]


@pytest.mark.parametrize(
    "text",
    [
        "train_step",
        "jit_train_step",
        "python",
        "jit(train_step)/transpose(jvp(layers))/while/body/dot_general",
        "jit(train_step)/jit(main)/LlamaForCausalLM/layers_0/Attention/bd,de->be/dot_general",
        "XlaModule:#prefix=jit(f),hlo_module=jit_f,program_id=12#",
        "Thunk:#name=jvp()/dot_general,hlo_op=fusion.3,unique_hlo_op_id=7#",
        "Thunk:#hlo_op=loop_transpose_fusion.1.2.3.4#",
        "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_nn_align8>()",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_23FillFunctorIfEEN3c105ArrayIPcLm1EEE",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4, 64>",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt_0d1d2d3de",
        "ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nt",
        "aten::to, op_id = 317177, sizes = [[8, 4096], [], []]",
        "max_tokens=4096, num_tokens = 17",
        "token=12",
        "version 0.12.0.1",
        "NVIDIA GH200 120GB",
        "and/or, 3/4, a / b",
        "cudaMemcpyAsync_v3020",
        "Reduce<KeyT = unsigned int, ValueT = float>",
    ],
)
def test_names_of_kernels_and_operations_look_like_nothing(text: str):
    assert private_parts(text) == []


@pytest.mark.parametrize("piece", ["n", "a/", "a.", "_", "token", "A1b2", "x@", "1:", "/", "a-"])
def test_a_long_text_takes_time_in_proportion(piece: str):
    began = time.process_time()
    list(looks_private(piece * (70_000 // len(piece))))
    assert time.process_time() - began < 1
