"""nanoGPT's `ckpt.pt` and minGPT's `model.pt` to a model: opened by torch as plain tensors, no code run, one by one.

Both have GPT-2's tensors under GPT-2's names, with linear maps as `[out, in]`. The shapes say all but two things: the
number of heads, which stands in nanoGPT's `model_args` or in minGPT's config.json beside the file, and the GELU. minGPT
has the one with tanh. nanoGPT had it too until June 2023, and has the one with erf since. Its files do not say which:
one without `bias` in `model_args` is older than February 2023 and has tanh; any other is taken for a new one, unless
`mlp` says that it is not.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from nextok.checkpoint import TensorSpec
from nextok.errors import CheckpointError, ModelConfigError
from nextok.interop.fitting import StoredTensor, by_plain_name, check_fit
from nextok.interop.meta_pickle import read_meta_pickle
from nextok.interop.names import Place, embedding_name, head_name, is_buffer, places, plain_name
from nextok.interop.stored import Gelu, StoredModel
from nextok.interop.torch_file import TorchFile, is_plain_tensor
from nextok.interop.typed_json import TypedJson
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer

Tensors = Mapping[str, torch.Tensor]

_DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
_MAPPED_BYTES = 64 << 20  # read before the file is mapped anew: a mapping counts as memory until it is let go
_NANOGPT_ARGS = frozenset({"n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size", "dropout"})
_DROPS = ("embd_pdrop", "resid_pdrop", "attn_pdrop")
_MINGPT_ARGS = frozenset({"model_type", "n_layer", "n_head", "n_embd", "block_size", "vocab_size", *_DROPS})
# Heads by minGPT's model_type: its config.json is written before the numbers are filled in.
_MINGPT_HEADS = {"openai-gpt": 12, "gpt2": 12, "gpt2-medium": 16, "gpt2-large": 20, "gpt2-xl": 25, "gopher-44m": 16}
_MINGPT_HEADS |= {"gpt-mini": 6, "gpt-micro": 4, "gpt-nano": 3}
_BLOCK = re.compile(r"h\.([0-9]+)\.")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Checkpoint:
    """What a file holds."""

    tensors: Tensors
    """The model's, by the names in the file."""
    args: TypedJson
    """What is said of the model, under nanoGPT's and minGPT's words."""
    gelu: Gelu | None
    """The activation that the program which wrote the file has; None where it is not known."""


def read_torch_checkpoint(
    path: Path, *, n_heads: int | None = None, mlp: Gelu | None = None, meta: Path | None = None
) -> StoredModel:
    """Returns the model in a checkpoint of nanoGPT or minGPT, checked whole by name and shape.

    Only the parts of the file that are asked for are read, 64 MiB and one weight at a time; files from before torch 1.6
    cannot be read in parts and are held whole. A vocabulary padded to 50,304 is kept (`cut_padding` cuts it).

    Args:
        path: The file.
        n_heads: Attention heads, where the file does not say.
        mlp: The activation, where it is another than the program that wrote the file has today.
        meta: nanoGPT's `meta.pkl` with the characters; without it, the one beside the file is taken if there is one.

    Raises:
        CheckpointError: if the file is missing, cut short or of another kind; if it holds objects other than tensors
            and plain values; if a tensor is missing, unexpected or of another shape; if it does not say what the shapes
            cannot, and neither do `n_heads` and `mlp`.
        TokenizerError: if `meta.pkl` cannot be used.
    """
    file = TorchFile.of(path)
    checkpoint = _read(file)
    stored = by_plain_name("nanogpt", _stored(path, checkpoint.tensors))
    config = _config(path, checkpoint, stored, n_heads, mlp)
    if config.tied_head:
        stored.pop(head_name("nanogpt"), None)
    wanted = places("nanogpt", config)
    check_fit(wanted, stored, path, "the model that its shapes make")
    arrays = _arrays(file, checkpoint.tensors, wanted, stored)
    return StoredModel(config=config, arrays=arrays, tokenizer=_tokenizer(path, meta, config.vocab_size))


def _read(file: TorchFile) -> _Checkpoint:
    content = file.load()
    tensors = _tensors(file.path, content)
    args, gelu = _args(file.path, content, tensors)
    return _Checkpoint(tensors=tensors, args=args, gelu=gelu)


def _tensors(path: Path, content: Any) -> dict[str, torch.Tensor]:
    """Returns the model's tensors: nanoGPT saves them beside its optimizer, minGPT alone."""
    state = content.get("model", content) if isinstance(content, Mapping) else content
    if not isinstance(state, Mapping) or not state:
        raise CheckpointError(f"{path} holds no weights by name.", "Give a checkpoint of nanoGPT or minGPT.")
    for name, tensor in state.items():
        if not isinstance(name, str) or not is_plain_tensor(tensor):
            raise CheckpointError(f"{path} holds {name!r} among its weights, which is no tensor with its own numbers.")
    return dict(state)


def _args(path: Path, content: Mapping[str, Any], tensors: Tensors) -> tuple[TypedJson, Gelu | None]:
    """Returns what is said of the model in the file or beside it, and the activation of who says it."""
    args = content.get("model_args")
    if isinstance(args, Mapping):
        _refuse_unknown(path, "model_args", args, _NANOGPT_ARGS)
        return TypedJson(args, path, "model_args."), "gelu" if "bias" in args else "gelu_tanh"
    beside = path.parent / "config.json"
    table = TypedJson.read(beside).values.get("model") if beside.is_file() else None
    if isinstance(table, Mapping):
        _refuse_unknown(beside, "model", table, _MINGPT_ARGS)
        heads = _MINGPT_HEADS.get(str(table.get("model_type")))
        filled = {"n_head": heads, **{name: value for name, value in table.items() if value is not None}}
        return TypedJson(filled, beside, "model."), "gelu_tanh"
    masked = any(is_buffer("nanogpt", plain_name(name)) for name in tensors)  # nanoGPT has had no masks since torch 2
    return TypedJson({}, path), "gelu_tanh" if masked else None


def _refuse_unknown(path: Path, where: str, args: Mapping[str, Any], known: frozenset[str]) -> None:
    if other := sorted(str(name) for name in args if name not in known):
        raise CheckpointError(
            f"{path} has {where}.{other[0]}, which nanoGPT and minGPT do not have; what its model computes is unknown.",
            "Checkpoints of programs made from nanoGPT are read only where they compute the same.",
        )


def _config(
    path: Path, checkpoint: _Checkpoint, stored: Mapping[str, StoredTensor], n_heads: int | None, mlp: Gelu | None
) -> ModelConfig:
    """Returns the model that the shapes make, once nothing said of it is otherwise."""
    args = checkpoint.args
    V, D = _matrix(path, stored, embedding_name("nanogpt"))
    T, _ = _matrix(path, stored, "wpe.weight")
    F, _ = _matrix(path, stored, "h.0.mlp.c_fc.weight")
    layers = {match[1] for name in stored if (match := _BLOCK.match(name))}
    bias = "ln_f.bias" in stored
    _check_said(args, {"n_layer": len(layers), "n_embd": D, "block_size": T, "vocab_size": V, "bias": bias})
    try:
        return ModelConfig(
            n_layers=len(layers),
            d_model=D,
            n_heads=_heads(path, args, n_heads),
            d_ff=F,
            context=T,
            vocab_size=V,
            mlp=_gelu(path, checkpoint.gelu, mlp),
            bias=bias,
            tied_head=_is_tied(checkpoint.tensors, stored),
            dropout=args.number("dropout", args.number(_DROPS[0], 0.0)),
        )
    except ModelConfigError as error:
        raise CheckpointError(f"{path} describes no model that can be built. {error.message}", error.hint) from error


def _check_said(args: TypedJson, found: Mapping[str, int | bool]) -> None:
    for name, value in found.items():
        said = args.values.get(name)
        if said is not None and (type(said) is not type(value) or said != value):
            raise CheckpointError(f"{args.path} says {args.prefix}{name} = {said!r}, but the tensors make it {value}.")


def _matrix(path: Path, stored: Mapping[str, StoredTensor], name: str) -> tuple[int, int]:
    if name not in stored or len(stored[name].spec.shape) != 2:
        raise CheckpointError(f"{path} has no matrix {name}.", "Give a checkpoint of nanoGPT or of minGPT after 2022.")
    rows, columns = stored[name].spec.shape
    return rows, columns


def _heads(path: Path, args: TypedJson, n_heads: int | None) -> int:
    said = args.whole("n_head", n_heads or 0)
    if n_heads is not None and said != n_heads:
        raise CheckpointError(f"{args.path} says {args.prefix}n_head = {said}, not the {n_heads} heads asked for.")
    if said < 1:
        raise CheckpointError(
            f"{path} does not say how many attention heads the model has, and shapes cannot tell.",
            "Give n_heads, or put the config.json that minGPT wrote beside the file.",
        )
    return said


def _gelu(path: Path, known: Gelu | None, mlp: Gelu | None) -> Gelu:
    if (chosen := mlp or known) is None:
        raise CheckpointError(
            f"{path} does not say which program wrote it, so its GELU is not known.",
            "Give mlp: gelu for nanoGPT since June 2023, gelu_tanh for minGPT and before.",
        )
    return chosen


def _is_tied(tensors: Tensors, stored: Mapping[str, StoredTensor]) -> bool:
    """Whether the head is the embedding: absent, the same memory (nanoGPT), or the same numbers."""
    if head_name("nanogpt") not in stored:
        return True
    head = tensors[stored[head_name("nanogpt")].name]
    embedding = tensors[stored[embedding_name("nanogpt")].name]
    same = head.data_ptr() == embedding.data_ptr() and head.stride() == embedding.stride()
    return head.shape == embedding.shape and head.dtype == embedding.dtype and (same or torch.equal(head, embedding))


def _stored(path: Path, tensors: Tensors) -> list[StoredTensor]:
    return [
        StoredTensor(
            name=name, file=path, spec=TensorSpec(tuple(tensor.shape), _DTYPES.get(tensor.dtype, str(tensor.dtype)))
        )
        for name, tensor in tensors.items()
    ]


def _arrays(
    file: TorchFile, tensors: Tensors, wanted: Mapping[str, Place], stored: Mapping[str, StoredTensor]
) -> Iterator[tuple[str, NDArray[Any]]]:
    before, bytes_read = _stored(file.path, tensors), 0
    for name, place in wanted.items():
        if file.mapped and bytes_read > _MAPPED_BYTES:
            tensors, bytes_read = {}, 0  # the old mapping is let go before there is a new one
            tensors = _tensors(file.path, file.load())
            if _stored(file.path, tensors) != before:
                raise CheckpointError(f"{file.path} was changed while it was read.", "Start again.")
        [part] = place.names
        tensor = tensors[stored[part].name]
        bytes_read += tensor.nbytes
        yield name, tensor.detach().resolve_neg().float().numpy()
        del tensor


def _tokenizer(path: Path, meta: Path | None, vocab_size: int) -> Tokenizer | None:
    """Returns the characters of `meta.pkl`; None where nothing says that there should be one."""
    beside = path.parent / "meta.pkl"
    if meta is None and not beside.is_file():
        return None
    tokenizer = read_meta_pickle(meta or beside)
    if tokenizer.vocab_size != vocab_size:
        raise CheckpointError(
            f"{meta or beside} has {tokenizer.vocab_size} characters, but the model in {path} has {vocab_size} ids.",
            "Give the meta.pkl of the corpus that the model was trained on, or move this one away.",
        )
    return tokenizer
