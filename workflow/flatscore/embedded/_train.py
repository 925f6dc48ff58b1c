"""Behaviour cloning from scratch: next-token loss on the agent's own turns."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from flatscore.embedded._tokenizer import END, render, render_tools

BATCH_TOKENS = 2560
BUCKET = 512  # conversations that are sorted by length together
WARMUP = 40
FINAL_RATE = 0.02


@dataclass(frozen=True)
class Encoded:
    """A conversation as token ids and the places whose prediction is learned; both (tokens,)."""

    ids: NDArray[np.int64]
    learned: NDArray[np.bool_]


def encode(
    tokenizer: PreTrainedTokenizerBase,
    conversations: Iterable[Sequence[dict[str, Any]]],
    tools: Sequence[str],
) -> list[Encoded]:
    """Encode conversations; the agent's turns with their end are learned, but for the opening."""
    cache: dict[str, list[int]] = {}
    special = tokenizer.get_vocab()

    def piece(role: str, text: str) -> list[int]:
        if text not in cache:
            cache[text] = tokenizer.encode(text, add_special_tokens=False)
        return [special[f"<|{role}|>"], *cache[text], special[END]]

    encoded = []
    for messages in conversations:
        ids = piece("system", render_tools(tools))
        learned = [False] * len(ids)
        for number, message in enumerate(messages):
            tokens = piece(message["role"], render(message))
            mine = message["role"] == "assistant" and number > 0
            ids += tokens
            learned += [False] + [mine] * (len(tokens) - 1)
        encoded.append(Encoded(np.array(ids), np.array(learned)))
    return encoded


def new_model(tokenizer: PreTrainedTokenizerBase, *, seed: int) -> LlamaForCausalLM:
    """A Llama of 2.1 million parameters with random weights.

    One key-value head serves the three query heads: reading the cache is what a step costs.
    """
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=576,
        num_hidden_layers=4,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)


def train(
    model: LlamaForCausalLM,
    corpus: Sequence[Encoded],
    *,
    steps: int,
    rate: float,
    seed: int,
    label: str,
) -> float:
    """Train a model in place.

    Parameters
    ----------
    model
        The model, in float32.
    corpus
        Encoded conversations; repeated in new orders as long as the steps last.
    steps
        Number of optimizer steps of about ``BATCH_TOKENS`` tokens.
    rate
        Peak learning rate of a cosine schedule.
    seed
        Order of the batches.
    label
        Name on the progress bar.

    Returns
    -------
    float
        Exponential mean of the training loss, nats a token, at the end.
    """
    decayed = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        lr=rate,
        betas=(0.9, 0.98),
        fused=True,
    )
    batches = _batches(corpus, random.Random(seed))  # noqa: S311
    mean = math.nan
    model.train()
    for step in (bar := tqdm(range(steps), desc=label, mininterval=2)):
        share = 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = (
                rate * min(1, (step + 1) / WARMUP) * (FINAL_RATE + (1 - FINAL_RATE) * share)
            )
        loss = _loss(model, next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.item() if step == 0 else 0.95 * mean + 0.05 * loss.item()
        if step % 25 == 0:
            bar.set_postfix(loss=f"{mean:.4f}")
    model.eval()
    return mean


def _batches(corpus: Sequence[Encoded], rng: random.Random) -> Iterator[list[Encoded]]:
    """Batches of conversations of like length, for ever."""
    while True:
        order = list(range(len(corpus)))
        rng.shuffle(order)
        batches: list[list[Encoded]] = []
        for start in range(0, len(order), BUCKET):
            chosen = sorted(order[start : start + BUCKET], key=lambda i: len(corpus[i].ids))
            batch: list[Encoded] = []
            for item in map(corpus.__getitem__, chosen):
                if batch and (len(batch) + 1) * len(item.ids) > BATCH_TOKENS:
                    batches.append(batch)
                    batch = []
                batch.append(item)
            batches.append(batch)
        rng.shuffle(batches)
        yield from batches


def _loss(model: LlamaForCausalLM, batch: Sequence[Encoded]) -> torch.Tensor:
    """Mean cross entropy of the learned tokens, nats."""
    longest = -(-max(len(item.ids) for item in batch) // 32) * 32
    ids = np.zeros((len(batch), longest), np.int64)
    learned = np.zeros((len(batch), longest), bool)
    for row, item in enumerate(batch):
        ids[row, : len(item.ids)] = item.ids
        learned[row, : len(item.ids)] = item.learned
    tokens, targets = torch.from_numpy(ids), torch.from_numpy(learned)[:, 1:]
    with torch.autocast("cpu", torch.bfloat16):
        # Padding stands at the right of a causal model: no mask is needed.
        hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state[:, :-1]
        logits = model.lm_head(hidden[targets])
    return torch.nn.functional.cross_entropy(logits.float(), tokens[:, 1:][targets])
