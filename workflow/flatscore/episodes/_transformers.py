"""The in-process engine: continuous batching on transformers, reproducible to the last bit.

A fixed number of slots decode one token a step, whether filled or not; a finished slot is refilled
at once with the episode's next prompt, of which the whole chunks that are in the cache are kept.
Measured in bf16 and fp32, on a model of the shipped shape: a row's logits are the same bits in any
slot, with any neighbours, with 8 to 64 slots. A live error budget therefore equals the counted one.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import torch
from transformers import AutoTokenizer, GenerationConfig
from transformers.utils.chat_template_utils import _compile_jinja_template

from flatscore.episodes._engine import Client, Reply, Request
from flatscore.episodes._parse import parse
from flatscore.episodes._seats import Seat, Table
from flatscore.episodes._slots import SlotCache
from flatscore.quantize._dense import load_dense

T = TypeVar("T")
CHUNK = 32  # prompts are computed in chunks of this many tokens


@dataclass
class Slot:
    """What a slot holds: the tokens in its cache, and the reply that is being generated."""

    number: int
    seat: Seat | None = None
    tokens: list[int] = field(default_factory=list)
    computed: int = 0  # of them, from the start, as tokens of a prompt
    prompt: int = 0
    reply: list[int] = field(default_factory=list)
    uniforms: np.random.Generator | None = None


class TransformersEngine:
    """Replies from a weights folder, computed in this process.

    Parameters
    ----------
    weights
        Folder of safetensors: full precision, NF4 or GPTQ. Quantized weights are restored to
        dense bfloat16 as they are read, which is what a weight-only kernel computes with.
    slots
        Episodes in flight.
    max_context
        Longest prompt and reply, tokens.
    max_new_tokens
        Longest reply, tokens.
    temperature
        0 is greedy; otherwise one uniform number a token, drawn from the request's seed.
    reuse
        Answer a request that was answered before from memory. A reply depends on its prompt and
        seed alone, so this changes the time and nothing else; the arms share their prefixes so.
    """

    def __init__(
        self,
        weights: Path,
        *,
        slots: int,
        max_context: int,
        max_new_tokens: int,
        temperature: float,
        reuse: bool = True,
    ) -> None:
        torch.set_num_threads(1)
        self.model = load_dense(weights)
        self.tokenizer = AutoTokenizer.from_pretrained(weights)
        self.max_context, self.max_new_tokens = max_context, max_new_tokens
        self.temperature, self.reuse = temperature, reuse
        config = self.model.config
        # A prompt is padded to a multiple of CHUNK, so the last one may reach past the limit.
        self.cache = SlotCache(config, slots, max_context + CHUNK, self.model.dtype)
        self.slots = [Slot(number) for number in range(slots)]
        self.ends = _end_tokens(weights, self.tokenizer)
        self.known: dict[bytes, Reply] = {}
        self.lock = Lock()  # of the tokenizer, which episodes share
        self.special = frozenset(self.tokenizer.all_special_ids)
        # What apply_chat_template renders, less its copying of every tool schema at every turn.
        self.template = _compile_jinja_template(self.tokenizer.chat_template)
        self.generated = 0

    @torch.inference_mode()
    def run(self, jobs: Sequence[Callable[[Client], T]]) -> list[T]:
        """Run all jobs, at most as many at once as there are slots."""
        table = Table()
        seats = [Seat(n, job, table, self._known_reply) for n, job in enumerate(jobs)]
        waiting = deque(seats)
        try:
            while waiting or any(slot.seat for slot in self.slots):
                for slot in self.slots:
                    if slot.seat is None and waiting:
                        slot.seat, slot.tokens, slot.computed = waiting.popleft(), [], 0
                        table.start(slot.seat)
                self._receive(table)
                busy = sum(slot.seat is not None for slot in self.slots)
                refill = busy < len(self.slots) and waiting
                if busy and not table.at_work and not refill:
                    self._step(table)
        finally:
            for slot in self.slots:
                if slot.seat is not None and slot.seat.request is not None:
                    table.answer(slot.seat, None)
                slot.seat = None
            table.settle()
        return [seat.result for seat in seats]

    def _receive(self, table: Table) -> None:
        """Free the slots of episodes that have ended, compute the prompts of those that asked."""
        slots = {slot.seat: slot for slot in self.slots if slot.seat is not None}
        for seat in table.settle():
            if seat.error is not None:
                raise seat.error
            slot = slots[seat]
            if seat.done:
                slot.seat = None
            else:
                self._begin(table, slot, seat)

    def _begin(self, table: Table, slot: Slot, seat: Seat) -> None:
        """Compute what of the prompt is not in the cache, and the reply's first token."""
        prompt = seat.prompt
        slot.prompt, slot.reply = len(prompt), []
        seed = seat.request.seed if seat.request else 0
        slot.uniforms = np.random.default_rng(seed) if self.temperature else None
        if len(prompt) + self.max_new_tokens > self.max_context:
            reason = f"the prompt of {len(prompt)} tokens leaves no room in {self.max_context}"
            self._answer(table, slot, Reply(None, (), "", reason, len(prompt), 0))
            return
        # Numbers depend on the shape they were computed in. A token of a prompt is therefore always
        # computed in the same way: in the chunk of CHUNK tokens it falls into. What was decoded
        # is computed again, so a reply depends on its prompt alone, not on how it came about.
        kept = min(_common(slot.tokens, prompt), slot.computed, len(prompt) - 1)
        start = kept // CHUNK * CHUNK
        for first in range(start, len(prompt), CHUNK):
            chunk = prompt[first : first + CHUNK]
            mask, positions = self.cache.one_row(slot.number, first, CHUNK)
            ids = torch.tensor([chunk + [0] * (CHUNK - len(chunk))])
            logits = self._forward(ids, mask, positions, torch.tensor([len(chunk) - 1]))
        slot.computed = len(prompt)
        slot.tokens = prompt
        self._extend(table, slot, self._choose(logits[:, 0], [slot])[0])

    def _step(self, table: Table) -> None:
        """Decode one token of every slot; free slots compute on padding, which nothing reads."""
        lengths = torch.zeros(len(self.slots), dtype=torch.long)
        ids = torch.zeros(len(self.slots), 1, dtype=torch.long)
        busy = [slot for slot in self.slots if slot.seat is not None]
        for slot in busy:
            lengths[slot.number] = len(slot.tokens)
            ids[slot.number] = slot.reply[-1]
        mask, positions = self.cache.all_rows(lengths)
        logits = self._forward(ids, mask, positions, torch.tensor([0]))[:, 0]
        for slot in busy:
            slot.tokens = [*slot.tokens, slot.reply[-1]]
        chosen = self._choose(logits[[slot.number for slot in busy]], busy)
        for slot, token in zip(busy, chosen, strict=True):
            self._extend(table, slot, token)

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, keep: torch.Tensor
    ) -> torch.Tensor:
        """Logits (rows, kept, vocabulary) in float32."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            cache=self.cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: torch.Tensor = output.logits.float()
        return logits

    def _choose(self, logits: torch.Tensor, slots: Sequence[Slot]) -> list[int]:
        """The next token of each row: the likeliest, or the one at the row's uniform number."""
        if not self.temperature:
            greedy: list[int] = logits.argmax(-1).tolist()
            return greedy
        cumulative = torch.softmax(logits.double() / self.temperature, -1).cumsum(-1)
        drawn = torch.tensor([[slot.uniforms.random()] for slot in slots if slot.uniforms])
        found = torch.searchsorted(cumulative, drawn * cumulative[:, -1:])[:, 0]
        sampled: list[int] = found.clamp(max=logits.shape[-1] - 1).tolist()
        return sampled

    def _extend(self, table: Table, slot: Slot, token: int) -> None:
        """Add a token to a reply, and answer when it is complete."""
        slot.reply.append(token)
        self.generated += 1
        if token not in self.ends and len(slot.reply) < self.max_new_tokens:
            return
        complete = token in self.ends
        kept = slot.reply[:-1] if complete else slot.reply
        raw = str(self.tokenizer.decode(kept, skip_special_tokens=False))
        content, calls, unreadable = parse(raw)
        if not complete and unreadable is None:
            unreadable = f"the reply was cut off at {self.max_new_tokens} tokens"
        self._answer(
            table, slot, Reply(content, calls, raw, unreadable, slot.prompt, len(slot.reply))
        )

    def _answer(self, table: Table, slot: Slot, reply: Reply) -> None:
        seat = slot.seat
        if seat is None or seat.request is None:
            raise RuntimeError(f"slot {slot.number} has a reply that no episode waits for")
        self.known[self._key(seat, seat.request)] = replace(reply, reused=True)
        table.answer(seat, reply)

    def _known_reply(self, seat: Seat, request: Request) -> Reply | None:
        """Encode a request in its episode's thread, and look its reply up."""
        text = self.template.render(
            messages=request.messages,
            tools=request.tools,
            add_generation_prompt=True,
            **self.tokenizer.special_tokens_map,
        )
        known, prompt = "", list[int]()
        # A prompt ends in a special token, at which the tokenizer cuts whatever follows.
        if seat.text and text.startswith(seat.text) and seat.prompt[-1] in self.special:
            known, prompt = seat.text, seat.prompt
        with self.lock:
            new = self.tokenizer(text[len(known) :], add_special_tokens=False)["input_ids"]
        seat.text, seat.prompt = text, prompt + new
        return self.known.get(self._key(seat, request)) if self.reuse else None

    def _key(self, seat: Seat, request: Request) -> bytes:
        """The prompt and, where the reply is sampled, the seed."""
        seed = request.seed if self.temperature else 0
        return hashlib.sha256(np.array([seed, *seat.prompt]).tobytes()).digest()


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common prefix."""
    pairs = zip(left, right, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _end_tokens(weights: Path, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a reply, from the generation config or else the tokenizer."""
    found: Any = None
    if (weights / "generation_config.json").exists():
        found = GenerationConfig.from_pretrained(weights).eos_token_id
    if found is None:
        found = tokenizer.eos_token_id
    return frozenset(found if isinstance(found, list) else [found])
