"""The reload check: are the saved weights the model that was quantized?

The saved folder is read in a fresh process and compared with the original on conversations that
are drawn apart from the calibration's. A save that lost a tensor, or a quantizer that went wrong in
one layer, must stop the run here and not show as a damaged agent.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from flatscore.errors import InputError
from flatscore.files import read_json, write_json
from flatscore.weights import read_manifest

# Four bits in groups of 64 cost a layer 0.1 to 0.24 of its norm (measured); a lost layer costs 1.
LAYER_ERROR = 0.5


def check(
    original: Path,
    quantized: Path,
    out: Path,
    *,
    min_agreement: float,
    max_perplexity_ratio: float,
    seed: int,
) -> dict[str, Any]:
    """Compare quantized weights with their original, and write what was found.

    Parameters
    ----------
    original, quantized
        The two manifests.
    out
        The JSON file to write; it appears only when the check is passed.
    min_agreement
        Smallest share of positions at which both models choose the same next token.
    max_perplexity_ratio
        Largest perplexity over the original's.
    seed
        Of the conversations.

    Raises
    ------
    InputError
        Naming the bound that was missed and the layer whose weights differ most.
    """
    command = [sys.executable, "-m", "flatscore.quantize._compare"]
    folders = [read_manifest(path).path for path in (original, quantized)]
    environment_path = str(Path(__file__).resolve().parents[2])
    ended = subprocess.run(  # noqa: S603
        [*command, *folders, str(seed)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": environment_path},
    )
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["no output"])[-1]
        raise InputError(
            folders[1],
            f"cannot be read back: {last}",
            f"Delete {quantized} and quantize again.",
        )
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    manifest = read_json(quantized)
    found |= {key: manifest[key] for key in ("size_bytes", "bits_per_weight", "parameters")}
    faults = []
    if not found["next_token_agreement"] >= min_agreement:
        faults.append(
            f"only {found['next_token_agreement']:.3f} of the next tokens agree, "
            f"{min_agreement} are asked for"
        )
    if not found["perplexity_ratio"] <= max_perplexity_ratio:
        faults.append(
            f"the perplexity is {found['perplexity_ratio']:.3f} times the original's, "
            f"{max_perplexity_ratio} is allowed"
        )
    if not found["worst_layer_error"] <= LAYER_ERROR:
        faults.append(f"a layer lost {found['worst_layer_error']:.3f} of its norm")
    if faults:
        raise InputError(
            folders[1],
            f"{'; '.join(faults)}; the weights differ most in {found['worst_layer']} "
            f"({found['worst_layer_error']:.3f} of its norm).",
            f"Delete {quantized} and quantize again; if it stays, change the quantizer's settings.",
        )
    write_json(out, found)
    return found
