"""Full-precision weights: where they come from, and that they are whole.

A manifest is written last and atomically, so weights without one are not there.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rapidfuzz import process

from flatscore.errors import InputError
from flatscore.files import digest, read_json, sha256_file, write_json
from flatscore.hub import download

EMBEDDED = Path(__file__).resolve().parents[2] / "resources" / "embedded"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


@dataclass(frozen=True)
class Manifest:
    """What a weights folder holds.

    Attributes
    ----------
    model, precision
        Names in the study.
    path
        The folder of the safetensors files.
    source
        The config's source of the full-precision weights.
    files
        Name -> ``size`` in bytes and ``sha256``.
    digest
        SHA-256 over the names and checksums.
    parameters
        Number of weights of the full-precision model.
    size_bytes, bits_per_weight
        Of the safetensors files; bits over `parameters`.
    quantizer
        Method, settings, versions and calibration; None at full precision.
    """

    model: str
    precision: str
    path: str
    source: dict[str, str]
    files: dict[str, dict[str, Any]]
    digest: str
    parameters: int
    size_bytes: int
    bits_per_weight: float
    quantizer: dict[str, Any] | None = None


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and check that its files are there in the recorded sizes.

    Raises
    ------
    InputError
        When a file is missing or has another size.
    """
    manifest = Manifest(**read_json(path))
    for name, recorded in manifest.files.items():
        file = Path(manifest.path) / name
        if not file.exists() or file.stat().st_size != recorded["size"]:
            raise InputError(
                file,
                f"is missing or not the {recorded['size']} bytes that {path} records.",
                f"Delete {path} and run again.",
            )
    return manifest


def precheck(source: Mapping[str, str], *, place: str, trust_remote_code: bool) -> None:
    """Refuse a source that cannot work, in milliseconds; a hub id is left to the download."""
    if "hub" in source:
        return
    _check_folder(_folder(source, place), place, trust_remote_code)


def content(source: Mapping[str, str]) -> str:
    """Digest of a local source's files, for rerunning what depends on them; sizes of large ones."""
    if "hub" in source:
        return source["revision"]
    files = sorted(path for path in _folder(source, "models").iterdir() if path.is_file())
    small = 64 * 2**20
    return digest(
        {
            file.name: sha256_file(file) if file.stat().st_size < small else file.stat().st_size
            for file in files
        }
    )


def fetch(
    source: Mapping[str, str], out: Path, *, model: str, trust_remote_code: bool = False
) -> Manifest:
    """Have the full-precision weights of a model, and write ``out/manifest.json``.

    Parameters
    ----------
    source
        ``embedded``, ``path``, or ``hub`` with ``revision``.
    out
        Folder of the manifest. The weights stay where they are: a manifest points at them.
    model
        The model's name in the study.
    trust_remote_code
        Whether weights that come with code of their own are accepted.

    Raises
    ------
    InputError
        Naming the file: absent, truncated, with another checksum, a pickle, or with remote code.
    """
    place = f"models.{model}"
    folder = download(source, place) if "hub" in source else _folder(source, place)
    _check_folder(folder, place, trust_remote_code)
    files = {path.name: _entry(path) for path in sorted(folder.iterdir()) if path.is_file()}
    files.pop("manifest.json", None)
    _check_recorded(folder, files)
    parameters = sum(count_parameters(path) for path in folder.glob("*.safetensors"))
    manifest = describe(folder, files, model, "bf16", dict(source), parameters, None)
    write_json(out / "manifest.json", asdict(manifest))
    return manifest


def describe(
    folder: Path,
    files: dict[str, dict[str, Any]],
    model: str,
    precision: str,
    source: dict[str, str],
    parameters: int,
    quantizer: dict[str, Any] | None,
) -> Manifest:
    """The manifest of a folder whose files are known."""
    size = sum(f["size"] for name, f in files.items() if name.endswith(".safetensors"))
    return Manifest(
        model=model,
        precision=precision,
        path=str(folder),
        source=source,
        files=files,
        digest=digest({name: file["sha256"] for name, file in files.items()}),
        parameters=parameters,
        size_bytes=size,
        bits_per_weight=round(8 * size / parameters, 3),
        quantizer=quantizer,
    )


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and checksum of the files of a folder, manifest and check left out."""
    ours = {"manifest.json", "check.json"}
    return {
        p.name: _entry(p) for p in sorted(folder.iterdir()) if p.is_file() and p.name not in ours
    }


def count_parameters(file: Path) -> int:
    """Number of weights in a safetensors file, from its header.

    Raises
    ------
    InputError
        When the file is shorter than its header says, or has no header.
    """
    total, end = 0, 0
    for tensor in _header(file).values():
        count = 1
        for extent in tensor["shape"]:
            count *= extent
        total += count
        end = max(end, tensor["data_offsets"][1])
    with file.open("rb") as handle:
        header = struct.unpack("<Q", handle.read(8))[0]
    if file.stat().st_size != 8 + header + end:
        raise InputError(
            file,
            f"is truncated: {file.stat().st_size} bytes where its header says {8 + header + end}.",
            "Copy or download it again.",
        )
    return total


def _header(file: Path) -> dict[str, Any]:
    with file.open("rb") as handle:
        length = struct.unpack("<Q", handle.read(8).ljust(8, b"\0"))[0]
        try:
            if not 0 < length < file.stat().st_size:
                raise ValueError
            header: dict[str, Any] = json.loads(handle.read(length))
        except ValueError:
            raise InputError(
                file, "is no safetensors file, or truncated.", "Copy or download it again."
            ) from None
    header.pop("__metadata__", None)
    return header


def _entry(path: Path) -> dict[str, Any]:
    return {"size": path.stat().st_size, "sha256": sha256_file(path)}


def _folder(source: Mapping[str, str], place: str) -> Path:
    """The local folder of a source."""
    if "path" in source:
        return Path(source["path"])
    name = source["embedded"]
    known = sorted(path.parent.name for path in EMBEDDED.glob("*/manifest.json"))
    if name not in known:
        nearest = process.extractOne(name, known)
        raise InputError(
            f"{place}.embedded",
            f"no agent {name!r} is shipped"
            + (f", the nearest is {nearest[0]}." if nearest else "."),
            f"Shipped are {', '.join(known)}.",
        )
    return EMBEDDED / name


def _check_folder(folder: Path, place: str, trust_remote_code: bool) -> None:
    if not folder.is_dir():
        raise InputError(place, f"there is no folder {folder}.", "Correct the path.")
    shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        pickles = [path.name for path in sorted(folder.iterdir()) if path.suffix in PICKLES]
        found = f"only pickles ({', '.join(pickles)})" if pickles else "no *.safetensors"
        raise InputError(
            folder,
            f"holds {found}.",
            "Convert the weights with save_pretrained(safe_serialization=True); pickles can run "
            "code when they are read and are not accepted.",
        )
    for shard in shards:
        count_parameters(shard)
    index = folder / "model.safetensors.index.json"
    if index.exists():
        for name in sorted(set(read_json(index)["weight_map"].values())):
            if not (folder / name).exists():
                raise InputError(
                    folder / name,
                    f"is missing, and {index.name} names it.",
                    "Copy or download it again.",
                )
    if not (folder / "config.json").exists():
        raise InputError(folder, "has no config.json.", "Copy it from where the weights are from.")
    if not any((folder / name).exists() for name in TOKENIZERS):
        raise InputError(
            folder, "has no tokenizer.", "Copy the tokenizer files from where the weights are from."
        )
    config = read_json(folder / "config.json")
    if "quantization_config" in config:
        method = config["quantization_config"].get("quant_method", "an unnamed method")
        raise InputError(
            folder / "config.json",
            f"the weights are already quantized by {method}.",
            "Give the full-precision weights: they are the baseline, and are quantized here.",
        )
    if "auto_map" in config and not trust_remote_code:
        raise InputError(
            folder / "config.json",
            "asks for code that comes with the weights (auto_map).",
            "Read that code, then set trust_remote_code for this model.",
        )


def _check_recorded(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Compare with the manifest that the folder itself brings, where it brings one."""
    if not (folder / "manifest.json").exists():
        return
    for name, recorded in read_json(folder / "manifest.json")["files"].items():
        if name not in files or files[name]["sha256"] != recorded["sha256"]:
            raise InputError(
                folder / name,
                "is missing or does not have the checksum in the manifest beside it.",
                "Restore the file (git checkout, or copy the folder again).",
            )
