"""What the engine's kernels make of this machine."""

from pathlib import Path

from nextok.jit import features, kept, processor


def multiplies_bytes() -> bool:
    """Whether the machine adds products of bytes in one instruction on 64 of them (AVX-512 VNNI)."""
    return "+avx512vnni" in features() and "+avx512bw" in features()


def multiplies_pairs() -> bool:
    """Whether the machine adds products of bfloat16 pairs in one instruction (AVX-512 BF16)."""
    return "+avx512bf16" in features()


def is_compiled() -> bool:
    """Whether the kernels have been compiled before, so that the first call takes no seconds."""
    return kept(Path(__file__).parent, "forward.forward")


def kernels() -> str:
    """Returns the kind of kernels in use, for people."""
    if multiplies_bytes():
        return "AVX-512 with VNNI: quantised weights meet int8 inputs"
    if "+avx512f" in features():
        return "AVX-512 without VNNI: quantised weights are widened to float32"
    if "+avx2" in features():
        return "AVX2: quantised weights are widened to float32"
    return f"portable vectors ({processor()}): quantised weights are widened to float32"
