"""Real quantizers on a shipped agent: what they write, and that the check catches what is wrong."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from flatscore import quantize, weights
from flatscore.errors import InputError
from flatscore.files import read_json, write_json

NF4 = {"double_quant": True}
GPTQ = {"group_size": 64, "desc_act": False, "conversations": 4}
BOUNDS: Any = {"min_agreement": 0.9, "max_perplexity_ratio": 1.1, "seed": 1}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> weights.Manifest:
    return weights.fetch({"embedded": "open"}, tmp_path_factory.mktemp("bf16"), model="open")


@pytest.fixture(scope="module")
def quantized(
    original: weights.Manifest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("quantized")
    write_json(folder / "original.json", original.__dict__)
    for precision, settings in (("bnb-nf4", NF4), ("gptq-int4", GPTQ)):
        quantize.quantize(
            original, folder / precision, precision=precision, settings=settings, seed=1
        )
    return {
        "original": folder / "original.json",
        **{p: folder / p for p in ("bnb-nf4", "gptq-int4")},
    }


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bnb-nf4", "gptq-int4"])
def test_what_is_written_passes_its_check(quantized: dict[str, Path], precision: str) -> None:
    folder = quantized[precision]
    out = folder / "check.json"
    found = quantize.check(quantized["original"], folder / "manifest.json", out, **BOUNDS)
    assert read_json(out) == found
    assert found["next_token_agreement"] > 0.95
    assert 4 < found["bits_per_weight"] < 7  # the embeddings stay in 16 bits
    assert found["size_bytes"] < 0.5 * 4_112_880


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bnb-nf4", "gptq-int4"])
def test_restored_weights_give_what_the_kernel_computes(
    quantized: dict[str, Path], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPTQMODEL_CPU_WORKERS", "2")
    from transformers import AutoModelForCausalLM

    folder = quantized[precision]
    ids = torch.arange(20, 60)[None]
    with torch.inference_mode():
        dense = quantize.load_dense(folder)(input_ids=ids).logits.float()
        kernel = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, device_map="cpu"
        )(input_ids=ids).logits.float()
    assert (dense - kernel).abs().mean() < 0.02 * dense.abs().mean()
    assert (dense.argmax(-1) == kernel.argmax(-1)).float().mean() > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "settings"), [("bnb-nf4", NF4), ("gptq-int4", GPTQ)])
def test_quantizing_twice_gives_the_same_files(
    quantized: dict[str, Path],
    original: weights.Manifest,
    tmp_path: Path,
    precision: str,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    again = quantize.quantize(
        original, tmp_path / "again", precision=precision, settings=settings, seed=1
    )
    assert again.digest == weights.read_manifest(quantized[precision] / "manifest.json").digest
    assert [path.name for path in tmp_path.iterdir()] == ["again"]  # and no file beside them


def damaged(source: Path, folder: Path, change: Any) -> Path:
    """A copy of quantized weights with one tensor changed and a manifest that agrees with it."""
    shutil.copytree(source, folder)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})
    manifest = weights.read_manifest(source / "manifest.json")
    write_json(
        folder / "manifest.json",
        replace(manifest, path=str(folder), files=weights.entries(folder)).__dict__,
    )
    return folder / "manifest.json"


def zero(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.up_proj.scales"].zero_()


def swap(tensors: dict[str, torch.Tensor]) -> None:
    left, right = (f"model.layers.{n}.mlp.up_proj.scales" for n in (0, 3))
    tensors[left], tensors[right] = tensors[right] * 3, tensors[left]


def lose(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.layers.2.self_attn.q_proj.qweight"]


@pytest.mark.parametrize(
    ("change", "told"),
    [(zero, "layers.1.mlp.up_proj"), (swap, "mlp.up_proj"), (lose, "cannot be read back")],
)
def test_the_check_fails_loudly(
    quantized: dict[str, Path], tmp_path: Path, change: Any, told: str
) -> None:
    manifest = damaged(quantized["gptq-int4"], tmp_path / "broken", change)
    out = tmp_path / "check.json"
    with pytest.raises(InputError) as caught:
        quantize.check(quantized["original"], manifest, out, **BOUNDS)
    assert told in str(caught.value)
    assert "quantize again" in str(caught.value)
    assert not out.exists()


def test_groups_that_do_not_divide_name_the_layer(
    original: weights.Manifest, tmp_path: Path
) -> None:
    settings = {**GPTQ, "group_size": 128}
    with pytest.raises(InputError, match=r"down_proj.*has 576 inputs, which groups of 128"):
        quantize.quantize(
            original, tmp_path / "x", precision="gptq-int4", settings=settings, seed=1
        )
    assert not (tmp_path / "x").exists()


def test_auto_gptq_without_its_environment_says_how_to_build_it(
    original: weights.Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"snakemake --cores 1 \.venvs/autogptq/bin/python"):
        quantize.quantize(
            original, tmp_path / "x", precision="autogptq-int4", settings=GPTQ, seed=1
        )


def test_an_unknown_quantizer_is_refused() -> None:
    with pytest.raises(InputError, match="'awq-int4' has no quantizer"):
        quantize.environment("awq-int4")
