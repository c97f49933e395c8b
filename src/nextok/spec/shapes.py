"""Every parameter of a model by name and shape: what tensors must look like, before any tensor exists."""

from nextok.spec.config import ModelConfig

Shape = tuple[int, ...]


def parameter_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Returns the shape of every parameter by its native name, in the order of the forward pass.

    Linear maps are `[out, in]`. A tied head has no entry of its own.
    """
    V, D = config.vocab_size, config.d_model
    shapes: dict[str, Shape] = {"embed.tokens.weight": (V, D)}
    if config.position == "learned":
        shapes["embed.positions.weight"] = (config.context, D)
    if config.bigrams:
        shapes["embed.bigrams.weight"] = (config.bigrams, D)
    for layer in range(config.n_layers):
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in block_shapes(config).items()}
    if config.has_final_norm:
        shapes |= _norm(config, "final_norm", D)
    if not config.tied_head:
        shapes["head.weight"] = (V, D)
    return shapes


def block_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Returns the shapes of one block, by names relative to it."""
    D, K = config.d_model, config.d_head
    shapes = _norm(config, "norm1", D) | _linear(config, "attn.qkv", config.qkv_width, D)
    if config.qk_norm:
        shapes |= {"attn.q_norm.weight": (K,), "attn.k_norm.weight": (K,)}
    shapes |= _linear(config, "attn.out", D, config.n_heads * K) | _norm(config, "norm2", D)
    return shapes | _linear(config, "mlp.up", config.up_width, D) | _linear(config, "mlp.down", D, config.d_ff)


def _linear(config: ModelConfig, name: str, rows: int, columns: int) -> dict[str, Shape]:
    weight: dict[str, Shape] = {f"{name}.weight": (rows, columns)}
    return weight | {f"{name}.bias": (rows,)} if config.bias else weight


def _norm(config: ModelConfig, name: str, width: int) -> dict[str, Shape]:
    weight: dict[str, Shape] = {f"{name}.weight": (width,)}
    return weight | {f"{name}.bias": (width,)} if config.bias and config.norm == "layernorm" else weight
