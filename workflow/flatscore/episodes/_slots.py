"""A key-value cache in which every row starts at column 0 and has a length of its own."""

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

SPAN = 128  # the part of the cache that is read grows in such steps


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values, each (slots, key-value heads, capacity, head size)."""

    def __init__(self, slots: int, heads: int, capacity: int, size: int, dtype: torch.dtype):
        super().__init__()
        self.keys: torch.Tensor = torch.zeros(slots, heads, capacity, size, dtype=dtype)
        self.values: torch.Tensor = torch.zeros_like(self.keys)
        self.is_initialized = True
        self.row: int | None = None
        self.start = 0
        self.columns = torch.zeros(slots, dtype=torch.long)
        self.rows = torch.arange(slots)
        self.span = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the tensors are there from the start."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values at their columns; return the part that is read."""
        if self.row is None:
            self.keys[self.rows, :, self.columns] = key_states[:, :, 0]
            self.values[self.rows, :, self.columns] = value_states[:, :, 0]
            return self.keys[:, :, : self.span], self.values[:, :, : self.span]
        end = self.start + key_states.shape[2]
        self.keys[self.row, :, self.start : end] = key_states[0]
        self.values[self.row, :, self.start : end] = value_states[0]
        one = slice(self.row, self.row + 1)
        return self.keys[one, :, : self.span], self.values[one, :, : self.span]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The mask is made by :class:`SlotCache`; the sizes are those of what is read."""
        return self.span, 0

    def get_seq_length(self) -> int:
        """Columns that are read."""
        return self.span

    def get_max_length(self) -> int:
        """Columns there are."""
        return self.keys.shape[2]


class SlotCache(Cache):
    """The cache of all slots, with the mask and the positions of the next forward pass.

    A forward pass is either one token of every slot (`all_rows`) or the prompt of one slot
    (`one_row`). Both have shapes that do not depend on what other slots hold, so neither do a
    row's numbers.
    """

    def __init__(self, config: Any, slots: int, capacity: int, dtype: torch.dtype) -> None:
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.slots = [
            SlotLayer(slots, config.num_key_value_heads, capacity, size, dtype)
            for _ in range(config.num_hidden_layers)
        ]
        super().__init__(layers=list(self.slots))
        self.capacity = capacity
        self.blocked = torch.finfo(dtype).min
        self.dtype = dtype

    def all_rows(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Prepare a step of one token a slot, written behind `lengths` (slots,).

        Returns
        -------
        tuple
            Additive mask (slots, 1, 1, span) and positions (slots, 1).
        """
        span = self._span(int(lengths.max()) + 1)
        for layer in self.slots:
            layer.row, layer.columns, layer.span = None, lengths, span
        hidden = torch.arange(span)[None, :] > lengths[:, None]
        mask = torch.zeros(len(lengths), 1, 1, span, dtype=self.dtype)
        mask[:, 0, 0].masked_fill_(hidden, self.blocked)
        return mask, lengths[:, None]

    def one_row(self, row: int, start: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Prepare `tokens` tokens of one slot from column `start` on.

        Returns
        -------
        tuple
            Additive mask (1, 1, tokens, span) and positions (1, tokens).
        """
        span = self._span(start + tokens)
        for layer in self.slots:
            layer.row, layer.start, layer.span = row, start, span
        positions = torch.arange(start, start + tokens)
        hidden = torch.arange(span)[None, :] > positions[:, None]
        mask = torch.zeros(1, 1, tokens, span, dtype=self.dtype)
        mask[0, 0].masked_fill_(hidden, self.blocked)
        return mask, positions[None, :]

    def _span(self, columns: int) -> int:
        return min(self.capacity, -(-columns // SPAN) * SPAN)
