"""One call for every quantizer."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from safetensors import safe_open

from flatscore import weights
from flatscore.errors import InputError
from flatscore.files import digest, read_json, write_json
from flatscore.quantize import environment

COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)


def quantize(
    source: weights.Manifest,
    out: Path,
    *,
    precision: str,
    settings: Mapping[str, Any],
    seed: int,
) -> weights.Manifest:
    """Quantize weights into `out`, and write ``out/manifest.json`` last.

    Parameters
    ----------
    source
        Manifest of the full-precision weights.
    out
        Folder to fill. Whatever lies there is replaced.
    precision
        ``bnb-nf4``, ``gptq-int4`` or ``autogptq-int4``.
    settings
        The quantizer's section of the config.
    seed
        Of the calibration conversations.

    Raises
    ------
    InputError
        When a layer does not divide into groups, or the quantizer's environment is missing.
    """
    folder = Path(source.path)
    _check_layers(folder, settings.get("group_size"))
    calibration = None
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as name:
        made = Path(name)
        if precision == "bnb-nf4":
            _bnb(folder, made, settings)
            package = "bitsandbytes"
        else:
            from flatscore.quantize import _calibration

            texts = _calibration.texts(str(folder), settings["conversations"], seed=seed)
            calibration = {"conversations": len(texts), "seed": seed, "digest": digest(texts)}
            run = _gptq if precision == "gptq-int4" else _autogptq
            run(folder, made, settings, texts)
            package = "gptqmodel" if precision == "gptq-int4" else "auto-gptq"
        for copied in COPIED:
            if (folder / copied).exists():
                shutil.copyfile(folder / copied, made / copied)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        for file in made.iterdir():
            file.replace(out / file.name)
    quantizer = {
        "method": precision,
        "package": f"{package} {_version(package, precision)}",
        "settings": dict(settings),
        "calibration": calibration,
        "kept_in_full": "embeddings, norms and the output layer",
    }
    manifest = weights.describe(
        out,
        weights.entries(out),
        source.model,
        precision,
        source.source,
        source.parameters,
        quantizer,
    )
    write_json(out / "manifest.json", asdict(manifest))
    return manifest


def _check_layers(folder: Path, group_size: int | None) -> None:
    """Refuse layers whose inputs do not divide into groups, and experts fused into one tensor."""
    config = read_json(folder / "config.json")
    skip = ("embed", "lm_head", "norm")
    for shard in sorted(folder.glob("*.safetensors")):
        with safe_open(shard, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - not a mapping
                shape = tensors.get_slice(name).get_shape()
                if len(shape) == 3:
                    raise InputError(
                        f"{folder}: {name}",
                        f"holds several experts in one tensor {shape}, which the quantizers of "
                        "this package do not cut apart.",
                        "Save the model with one matrix an expert.",
                    )
                if group_size is None or len(shape) != 2 or any(part in name for part in skip):
                    continue
                if shape[1] % group_size:
                    raise InputError(
                        f"{folder}: {name}",
                        f"has {shape[1]} inputs, which groups of {group_size} do not divide.",
                        "Choose a group_size that divides them.",
                    )
    if config.get("pad_token_id") is None and config.get("eos_token_id") is None:
        raise InputError(
            folder / "config.json",
            "names neither a padding token nor an end token.",
            "Set pad_token_id.",
        )


def _bnb(folder: Path, out: Path, settings: Mapping[str, Any]) -> None:
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_use_double_quant=settings["double_quant"],
    )
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, device_map=_device(), quantization_config=config
    )
    model.save_pretrained(out)  # before any forward pass, which repacks the weights on a CPU


def _gptq(folder: Path, out: Path, settings: Mapping[str, Any], texts: list[str]) -> None:
    # On a machine of two cores it asks for workers that it does not allow itself.
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
    from gptqmodel import GPTQModel, QuantizeConfig
    from transformers import AutoTokenizer

    from flatscore.quantize import _calibration

    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = [_calibration.encode(tokenizer, text) for text in texts]
    config = QuantizeConfig(
        bits=4,
        group_size=settings["group_size"],
        desc_act=settings["desc_act"],
        offload_to_disk=False,  # it would write a random path into the config of the weights
    )
    examples = [{"input_ids": ids, "attention_mask": [1] * len(ids)} for ids in encoded]
    source, target = str(folder.resolve()), str(out.resolve())
    # It writes a folder of logs wherever it runs.
    with tempfile.TemporaryDirectory() as elsewhere, contextlib.chdir(elsewhere):
        model = GPTQModel.load(source, config, device=_device())
        model.quantize(examples, batch_size=1)
        model.save(target)
    (out / "quant_log.csv").unlink(missing_ok=True)  # holds times


def _autogptq(folder: Path, out: Path, settings: Mapping[str, Any], texts: list[str]) -> None:
    python = Path(".venvs") / str(environment("autogptq-int4")) / "bin" / "python"
    if not python.exists():
        raise InputError(
            "precisions",
            f"autogptq-int4 needs an environment of its own, and there is no {python}.",
            f"Build it: snakemake --cores 1 {python}",
        )
    script = Path(__file__).with_name("_autogptq.py")
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump({"texts": texts, **settings}, file)
        file.flush()
        command = [str(python), str(script), str(folder), str(out), file.name]
        ended = subprocess.run(command, stderr=subprocess.STDOUT, stdout=sys.stderr, check=False)  # noqa: S603
    if ended.returncode != 0:
        raise RuntimeError(f"auto-gptq ended with status {ended.returncode}; its output is above")


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _version(package: str, precision: str) -> str:
    if precision == "autogptq-int4":
        return "0.7.1"  # pinned in envs/autogptq.txt
    return metadata.version(package)
