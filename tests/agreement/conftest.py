"""The oracle that takes seconds to import, imported once and only where it is asked for."""

import warnings
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def transformers() -> ModuleType:
    """Returns the library, with all that the tests use of it loaded."""
    with warnings.catch_warnings():  # of the library's own imports
        warnings.simplefilter("ignore")
        import transformers
        from transformers import (
            AutoModelForCausalLM,
            AutoTokenizer,
            GPT2LMHeadModel,
            LlamaForCausalLM,
            Qwen3ForCausalLM,
        )

        assert all((AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel, LlamaForCausalLM, Qwen3ForCausalLM))
    transformers.utils.logging.disable_progress_bar()
    return transformers
