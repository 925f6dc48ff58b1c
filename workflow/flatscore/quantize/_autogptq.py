"""Quantize with auto-gptq. Run by the python of its own environment, which has nothing of ours:

    .venvs/autogptq/bin/python _autogptq.py WEIGHTS OUT SETTINGS.json

auto-gptq insists on CUDA. Without a GPU it quantizes on the CPU once it is told there is one while
it reads the weights, and that the device it means is the CPU.
"""

import json
import sys
from pathlib import Path


def main(weights: str, out: str, settings_file: str) -> None:
    """Quantize `weights` into `out`."""
    import torch
    from auto_gptq import AutoGPTQForCausalLM, BaseQuantizeConfig
    from auto_gptq.modeling import _base
    from transformers import PreTrainedTokenizerFast

    settings = json.loads(Path(settings_file).read_text(encoding="utf-8"))
    # Tokenizers saved by transformers 5 name a class that transformers 4 does not have.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(Path(weights) / "tokenizer.json"))
    config = BaseQuantizeConfig(
        bits=4, group_size=settings["group_size"], desc_act=settings["desc_act"]
    )
    has_gpu = torch.cuda.is_available()
    if not has_gpu:
        torch.cuda.is_available = lambda: True
    try:
        model = AutoGPTQForCausalLM.from_pretrained(weights, config, torch_dtype=torch.float32)
    finally:
        if not has_gpu:
            torch.cuda.is_available = lambda: False
            _base.CUDA_0 = torch.device("cpu")
            torch.cuda.synchronize = lambda *_: None
    examples = []
    for text in settings["texts"]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][:2048]
        tensor = torch.tensor([ids])
        examples.append({"input_ids": tensor, "attention_mask": torch.ones_like(tensor)})
    torch.manual_seed(0)
    model.quantize(examples, batch_size=1)
    model.save_quantized(out, use_safetensors=True)
    for file in Path(out).glob("gptq_model-*.safetensors"):
        file.rename(Path(out) / "model.safetensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
