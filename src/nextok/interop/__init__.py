"""Foreign formats in and out: directories of transformers (run directories are such), GGUF, nanoGPT's checkpoints.

The only room with foreign names. Training state, corpora and tokenizers' own files are other rooms; nothing in a file
is ever executed.
"""

from nextok.interop.adapter_out import write_adapter
from nextok.interop.fields import family_of
from nextok.interop.gguf_in import gguf_parameters, read_gguf, read_gguf_config
from nextok.interop.gguf_out import WrittenGguf, write_gguf
from nextok.interop.hf_in import read_config, read_directory, stored_parameters
from nextok.interop.hf_out import Written, write_description, write_directory, write_stored, write_weights_file
from nextok.interop.meta_pickle import read_meta_pickle
from nextok.interop.names import Family
from nextok.interop.padding import cut_padding
from nextok.interop.source import kind_of, open_model, open_runnable, summarise
from nextok.interop.stored import Gelu, Hints, StoredModel

__all__ = [
    "Family",
    "Gelu",
    "Hints",
    "StoredModel",
    "Written",
    "WrittenGguf",
    "cut_padding",
    "family_of",
    "gguf_parameters",
    "kind_of",
    "open_model",
    "open_runnable",
    "read_config",
    "read_directory",
    "read_gguf",
    "read_gguf_config",
    "read_meta_pickle",
    "stored_parameters",
    "summarise",
    "write_adapter",
    "write_description",
    "write_directory",
    "write_gguf",
    "write_stored",
    "write_weights_file",
]
