"""What the model writes while it learns: one short text from a fixed prompt, drawn from a stream of its own."""

import numpy as np

from nextok import rng
from nextok.decode import SamplingConfig, generate
from nextok.model import GPT, TorchDecoder
from nextok.tokenizer import Tokenizer
from nextok.train.config import TrainConfig


def write_sample(model: GPT, tokenizer: Tokenizer, step: int, config: TrainConfig) -> str:
    """Returns text the model continues the sample prompt with; weights and streams of training stay as they were."""
    prompt_T = tokenizer.encode(config.sample_prompt, unknown="drop")[-(model.config.context // 2 or 1) :]
    if len(prompt_T) == 0 and tokenizer.end_of_text is None:
        prompt_T = np.zeros(1, dtype=np.int64)  # a vocabulary without these characters still has a first entry
    sampling = SamplingConfig(
        max_new_tokens=config.sample_tokens, seed=rng.key(config.seed, "sample", step) >> 1, overflow="half"
    )
    try:
        return generate(TorchDecoder(model), tokenizer, [prompt_T], sampling)[0][0].text
    finally:
        model.train()
