"""Reading any weights folder as a plain dense model.

A weight-only quantized model computes with weights that its kernel restores from 4 bits. Restoring
them once, as they are read, gives the same function at the speed of the dense model: on a CPU
several times that of the 4-bit kernels.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from flatscore.errors import InputError


def load_dense(folder: Path) -> PreTrainedModel:
    """Load a folder of full-precision, NF4 or GPTQ weights in bfloat16, ready for inference.

    Raises
    ------
    InputError
        For a quantization this package does not write, or tensors that do not fit the config.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    method = config.get("quantization_config", {}).get("quant_method")
    model: Any
    if method is None:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    elif method == "bitsandbytes":
        quantized = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, device_map="cpu"
        )
        model = quantized.dequantize()
    elif method == "gptq":
        model = _load_gptq(folder, config)
    else:
        raise InputError(
            folder / "config.json",
            f"the weights are quantized by {method!r}, which cannot be restored here.",
            "Give full-precision weights, and let this package quantize them.",
        )
    dense: PreTrainedModel = model.to(torch.bfloat16).eval()
    return dense


def _load_gptq(folder: Path, config: dict[str, Any]) -> PreTrainedModel:
    """Restore GPTQ's packed integers without the kernels, whose import takes many seconds."""
    packed: dict[str, torch.Tensor] = {}
    for shard in sorted(folder.glob("*.safetensors")):
        packed |= load_file(shard)
    settings = config.pop("quantization_config")
    # The first format of GPTQ files stores each zero point less one.
    offset = 0 if settings.get("checkpoint_format") == "gptq_v2" else 1
    state = {}
    for name, tensor in packed.items():
        layer, _, part = name.rpartition(".")
        if part == "qweight":
            state[f"{layer}.weight"] = unpack_gptq(
                tensor,
                packed[f"{layer}.qzeros"],
                packed[f"{layer}.scales"],
                packed[f"{layer}.g_idx"],
                offset=offset,
            )
        elif part not in ("qzeros", "scales", "g_idx"):
            state[name] = tensor
    model_type = config.pop("model_type")
    dense = AutoConfig.for_model(model_type, **config)
    model: Any = AutoModelForCausalLM.from_config(dense, dtype=torch.bfloat16)
    missing, unexpected = model.load_state_dict(state, strict=False)
    # auto-gptq gives every layer a bias of zeros.
    unexpected = [n for n in unexpected if not n.endswith(".bias") or state[n].any()]
    tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
    if unexpected or set(missing) - tied:
        wrong = sorted({*unexpected, *(set(missing) - tied)})
        raise InputError(
            folder,
            f"tensors are missing or do not belong to the model: {', '.join(wrong[:5])}.",
            "Quantize the weights again.",
        )
    model.tie_weights()
    loaded: PreTrainedModel = model
    return loaded


def unpack_gptq(
    qweight: torch.Tensor,
    qzeros: torch.Tensor,
    scales: torch.Tensor,
    g_idx: torch.Tensor,
    *,
    offset: int,
) -> torch.Tensor:
    """Dense weight (out, in) from GPTQ's 4-bit tensors.

    Parameters
    ----------
    qweight
        (in / 8, out) int32, eight 4-bit values of consecutive inputs each.
    qzeros
        (groups, out / 8) int32, eight zero points of consecutive outputs each.
    scales
        (groups, out).
    g_idx
        (in,) group of each input.
    offset
        Added to each stored zero point.
    """
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    values = (qweight[:, None, :] >> shifts[None, :, None]) & 15
    values = values.reshape(-1, qweight.shape[1])
    zeros = (qzeros[:, :, None] >> shifts) & 15
    zeros = zeros.reshape(qzeros.shape[0], -1) + offset
    groups = g_idx.long()
    dense = scales.float()[groups] * (values - zeros[groups]).float()
    return dense.t().contiguous().to(torch.bfloat16)
