"""Foreign formats in and out: directories of transformers, which run directories are. The only room with foreign names.

Training state, corpora and tokenizers' own files are other rooms; nothing in a file is ever executed.
"""

from nextok.interop.fields import family_of
from nextok.interop.hf_in import read_config, read_directory, stored_parameters
from nextok.interop.hf_out import Written, write_description, write_directory, write_weights_file
from nextok.interop.names import Family
from nextok.interop.torch_model import load_model

__all__ = [
    "Family",
    "Written",
    "family_of",
    "load_model",
    "read_config",
    "read_directory",
    "stored_parameters",
    "write_description",
    "write_directory",
    "write_weights_file",
]
