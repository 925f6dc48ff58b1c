"""The tokenizer and chat form of the embedded agents."""

from collections.abc import Iterable, Mapping
from json import dumps
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, END, CALL, CALLED = "<|pad|>", "<|end|>", "<tool_call>", "</tool_call>"
ROLES = ("system", "user", "assistant", "tool")
SPECIAL = [PAD, END, *(f"<|{role}|>" for role in ROLES), CALL, CALLED]
VOCABULARY = 2048

# A customer record is 60 pieces instead of 250 when JSON keys, quoted values and the labels of the
# phone's screens are single pieces. Names of tools are cut at their underscores, so a name that was
# never seen can be written.
PIECES = (
    r'[{\[, ]*"[a-z_0-9]+": ?'
    r'|"[^"_]*"[,}\]]* ?'
    r"|[A-Z][\w\- ]*: "
    r"| ?\p{L}+|_\p{L}+| ?\d[\d.\-]*"
    r"|\s?[^\s\p{L}\p{N}_\"]+|\s+|_|[\"]"
)

# The tool list is shown as names only and the policy not at all: the agent knows its one domain.
CHAT_TEMPLATE = (
    "{%- if tools -%}<|system|>"
    "{%- for tool in tools -%}{{ ' ' if not loop.first else '' }}{{ tool.function.name }}"
    "{%- endfor -%}<|end|>{%- endif -%}"
    "{%- for message in messages if message.role != 'system' -%}"
    "{{ '<|' + message.role + '|>' }}{{ message.content or '' }}"
    "{%- for call in message.tool_calls or [] -%}"
    '<tool_call>{"name": {{ call.function.name | tojson }}, '
    '"arguments": {{ call.function.arguments | tojson }}}</tool_call>'
    "{%- endfor -%}<|end|>"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


def render(message: Mapping[str, Any]) -> str:
    """A message's text between its role piece and ``<|end|>``, as the chat template writes it."""
    calls = (
        f'{CALL}{{"name": {dumps(call["function"]["name"], ensure_ascii=False)}, '
        f'"arguments": {dumps(call["function"]["arguments"], ensure_ascii=False)}}}{CALLED}'
        for call in message.get("tool_calls") or []
    )
    return (message.get("content") or "") + "".join(calls)


def render_tools(names: Iterable[str]) -> str:
    """The text of the system turn."""
    return " ".join(names)


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE over the pieces of the texts of a corpus."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=SPECIAL[2:],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
