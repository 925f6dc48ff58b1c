"""Compare two weights folders, in a process of its own: prints one line of JSON."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from flatscore.quantize import _calibration
from flatscore.quantize._dense import load_dense


@torch.inference_mode()
def compare(original: Path, quantized: Path, seed: int) -> dict[str, Any]:
    """Differences of logits, next tokens and perplexity on the agent's own tokens, and of weights.

    Returns
    -------
    dict
        ``max_logit_difference``, ``mean_logit_difference``; ``next_token_agreement`` a share;
        ``perplexity``, ``perplexity_ratio``; ``worst_layer`` and its ``worst_layer_error``, the
        norm of the difference over the norm of the original; ``tokens`` compared.
    """
    torch.set_num_threads(1)
    left, right = load_dense(original), load_dense(quantized)
    largest = total = 0.0
    agreed = tokens = 0
    losses = [0.0, 0.0]
    for conversation, own in _calibration.checked(str(quantized), seed=seed + 1):
        ids = torch.tensor([conversation])
        mine = torch.tensor(own[1:])
        logits = [model(input_ids=ids).logits[0, :-1][mine].float() for model in (left, right)]
        difference = (logits[0] - logits[1]).abs()
        largest = max(largest, difference.max().item())
        total += difference.mean(-1).sum().item()
        agreed += int((logits[0].argmax(-1) == logits[1].argmax(-1)).sum())
        tokens += int(mine.sum())
        for side in (0, 1):
            targets = ids[0, 1:][mine]
            loss = torch.nn.functional.cross_entropy(logits[side], targets, reduction="sum")
            losses[side] += loss.item()
    worst, error = _worst_layer(left, right)
    return {
        "tokens": tokens,
        "max_logit_difference": largest,
        "mean_logit_difference": total / tokens,
        "next_token_agreement": agreed / tokens,
        "perplexity": [math.exp(loss / tokens) for loss in losses],
        "perplexity_ratio": math.exp((losses[1] - losses[0]) / tokens),
        "worst_layer": worst,
        "worst_layer_error": error,
    }


def _worst_layer(left: PreTrainedModel, right: PreTrainedModel) -> tuple[str, float]:
    """The weight that differs most, and by which share of its norm; NaN counts as infinite."""
    others = dict(right.named_parameters())
    worst, error = "", -1.0
    for name, weight in left.named_parameters():
        other = others[name].float()
        share = ((weight.float() - other).norm() / weight.float().norm().clamp(min=1e-12)).item()
        if not share <= error:
            worst, error = name, share if math.isfinite(share) else 1e9
    return worst, error


if __name__ == "__main__":
    found = compare(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write("\n" + json.dumps(found, allow_nan=False) + "\n")
