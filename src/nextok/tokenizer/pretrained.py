"""The small file beside tokenizer.json that makes `AutoTokenizer.from_pretrained(folder)` give the same ids."""

from nextok.tokenizer.tokenizer import Tokenizer


def tokenizer_config(tokenizer: Tokenizer, context: int) -> dict[str, object]:
    """Returns the content of `tokenizer_config.json` for a model that reads `context` tokens at once.

    Text that spells a control token is the one difference: transformers reads the token out of it, nextok does not.
    """
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,  # it would remove the space before ? and 's
    }
    if tokenizer.end_of_text is not None:
        name = tokenizer.token_bytes(tokenizer.end_of_text).decode("utf-8")
        # No text is unknown to it; converters (CTranslate2's for GPT-2) ask for a name all the same, as GPT-2 has one.
        config.update(bos_token=name, eos_token=name, unk_token=name)
    if tokenizer.prompt_start is not None:
        config["bos_token"] = tokenizer.token_bytes(tokenizer.prompt_start).decode("utf-8")
    return config
