"""Weights that are whole, and a clear word about those that are not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flatscore import weights
from flatscore.errors import InputError

SHIPPED = weights.EMBEDDED / "open"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "weights"))


def test_the_manifest_counts_weights_and_bits(tmp_path: Path) -> None:
    manifest = weights.fetch({"embedded": "open"}, tmp_path, model="open")
    assert manifest.parameters == 2_054_400
    assert manifest.bits_per_weight == pytest.approx(16, abs=0.1)
    assert weights.read_manifest(tmp_path / "manifest.json") == manifest
    assert weights.fetch({"path": str(SHIPPED)}, tmp_path, model="x").digest == manifest.digest


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def garble(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x10" + b"\0" * 7 + b"not a header at all")


def flip(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def configured(**extra: Any) -> Any:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | extra))
        (folder / "manifest.json").unlink()

    return change


def sharded(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (cut, "model.safetensors: is truncated"),
        (garble, "is no safetensors file, or truncated"),
        (flip, "does not have the checksum"),
        (pickled, "only pickles (pytorch_model.bin)"),
        (sharded, "model-00002.safetensors: is missing"),
        (lambda f: (f / "config.json").unlink(), "has no config.json"),
        (lambda f: (f / "tokenizer.json").unlink(), "has no tokenizer"),
        (configured(auto_map={"AutoModel": "x.Y"}), "auto_map"),
        (configured(quantization_config={"quant_method": "awq"}), "already quantized by awq"),
    ],
)
def test_what_is_not_whole_is_refused(folder: Path, change: Any, told: str) -> None:
    change(folder)
    with pytest.raises(InputError) as caught:
        weights.fetch({"path": str(folder)}, folder.parent / "out", model="m")
    assert told in str(caught.value)
    assert not (folder.parent / "out/manifest.json").exists()


def test_remote_code_is_taken_where_the_config_allows_it(folder: Path, tmp_path: Path) -> None:
    configured(auto_map={"AutoModel": "x.Y"})(folder)
    weights.fetch({"path": str(folder)}, tmp_path / "out", model="m", trust_remote_code=True)


def test_an_unknown_agent_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no agent 'opn' is shipped, the nearest is open"):
        weights.precheck({"embedded": "opn"}, place="models.x", trust_remote_code=False)


def test_weights_that_went_away_are_noticed(folder: Path, tmp_path: Path) -> None:
    weights.fetch({"path": str(folder)}, tmp_path / "out", model="m")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="is missing or not the"):
        weights.read_manifest(tmp_path / "out/manifest.json")


def test_content_follows_the_bytes_and_not_the_clock(folder: Path) -> None:
    source = {"path": str(folder)}
    before = weights.content(source)
    (folder / "config.json").touch()
    assert weights.content(source) == before
    flip(folder)
    assert weights.content(source) != before


def test_a_hub_id_without_a_network_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="could not be downloaded"):
        weights.fetch({"hub": "a/b", "revision": "0" * 40}, tmp_path / "out", model="m")
