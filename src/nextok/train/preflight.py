"""What can be known before the first step: refusals where a run cannot work, warnings where it should not."""

from nextok import machine, units
from nextok.corpus import PreparedCorpus, check_length
from nextok.errors import CorpusError
from nextok.spec import ModelConfig, count
from nextok.tokenizer import check_fits
from nextok.train.config import TrainConfig

_FREE_EPOCHS = 4  # repeated data is worth nearly as much as new up to here (Muennighoff et al. 2023)
_SAFE_SHARE = 0.9  # of the memory that is free


def check_run(corpus: PreparedCorpus, model: ModelConfig) -> None:
    """Refuses a corpus too short for the context, or a tokenizer larger than the model's vocabulary.

    Raises:
        CorpusError: with the tokens found, the tokens needed, and a context that would do.
        TokenizerError: with both sizes.
    """
    check_length(len(corpus.train), model.context, "train")
    if corpus.validation is not None:
        check_length(len(corpus.validation), model.context, "validation")
    check_fits(corpus.tokenizer, model.vocab_size)
    for split in (corpus.train, corpus.validation):
        if split is not None and not split.has_target:
            raise CorpusError(f"No token of the {split.name} split can be learned or scored.", "Give more pairs.")


def warnings_before(
    corpus: PreparedCorpus, model: ModelConfig, config: TrainConfig, steps: int, *, frozen: int = 0
) -> list[str]:
    """Returns what the user should know before waiting for the result.

    Args:
        corpus: What is read.
        model: What reads it.
        config: How.
        steps: How long.
        frozen: Weights that do not learn, and need neither gradients nor moments.
    """
    found = [_few_windows(corpus, model, config), _many_epochs(corpus, model, config, steps)]
    found.append(_memory(model, config, frozen))
    if corpus.train.targets is not None and corpus.tokenizer.end_of_text is None:
        found.append("The tokenizer has no end of text, so the model does not learn where a completion ends.")
    if config.warmup_steps > steps / 3:
        found.append(
            f"The learning rate rises for {config.warmup_steps} of the {steps} steps: use --warmup-steps {steps // 10}."
        )
    if model.mask == "none" and config.sample_tokens:
        found.append("Without the causal mask the model sees the future, so it cannot write samples.")
    if corpus.validation is None:
        found.append(
            "There is no validation split: the last weights count as the best (--val-fraction sets its share)."
        )
    return [text for text in found if text]


def _few_windows(corpus: PreparedCorpus, model: ModelConfig, config: TrainConfig) -> str:
    windows = (len(corpus.train) - 1) // model.context
    if windows >= config.batch_size:
        return ""
    return (
        f"The corpus is small for this context: {len(corpus.train):,} training tokens make {windows} windows of "
        f"{model.context}, fewer than the {config.batch_size} of one batch. Use more text or a smaller --context."
    )


def _many_epochs(corpus: PreparedCorpus, model: ModelConfig, config: TrainConfig, steps: int) -> str:
    epochs = steps * config.batch_size * model.context / len(corpus.train)
    if epochs <= _FREE_EPOCHS or model.dropout > 0:
        return ""
    return (
        f"The run reads its {len(corpus.train):,} tokens {epochs:.1f} times without dropout: beyond {_FREE_EPOCHS} "
        "times the model learns them by heart. Use more text, fewer --steps, or --dropout 0.1; the best weights stay."
    )


def _memory(model: ModelConfig, config: TrainConfig, frozen: int) -> str:
    batch_tokens = (config.micro_batch_size or config.batch_size) * model.context
    counts, available = count(model), machine.available_memory_bytes()
    beside_weights = (counts.training_state_bytes - counts.weight_bytes) // counts.parameters  # of each that learns
    needed = counts.training_memory_bytes(batch_tokens) - frozen * beside_weights
    if config.device not in ("cpu", "auto") or available is None or needed <= _SAFE_SHARE * available:
        return ""
    return (
        f"Training needs about {units.format_bytes(needed)}, and {units.format_bytes(available)} are free. "
        "Use a smaller --micro-batch-size (same result, less memory) or a smaller model."
    )
