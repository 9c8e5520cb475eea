"""Read a configuration of transformers without overlooking anything.

A field that nobody reads may change the model, so it is an error: each
family says which it uses, which it takes at one value only, and which
cannot change what a model computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Config"]

# What every configuration carries, and no forward pass of ours depends on.
_ABOUT = frozenset(
    (
        "_name_or_path",
        "architectures",
        "auto_map",
        "bos_token_id",
        "cache_implementation",
        "chunk_size_feed_forward",
        "dtype",
        "eos_token_id",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "initializer_range",
        "label2id",
        "model_type",
        "output_attentions",
        "output_hidden_states",
        "pad_token_id",
        "problem_type",
        "return_dict",
        "task_specific_params",
        "tokenizer_class",
        "torch_dtype",
        "transformers_version",
        "unk_token_id",
        "use_cache",
    )
)
_MISSING = object()


class Config:
    """One configuration, and which of its fields have been looked at.

    Args:
        config: a ``PreTrainedConfig``, or the mapping in a ``config.json``.
    """

    def __init__(self, config: Any):
        if isinstance(config, Mapping):
            fields = dict(config)
        elif hasattr(config, "to_dict"):
            fields = {"model_type": config.model_type, **config.to_dict()}
        else:
            raise TypeError(
                f"config is a {type(config).__name__}: it needs to be a "
                "transformers configuration, or the mapping in config.json"
            )
        if "model_type" not in fields:
            raise ValueError("config has no model_type: it needs one")
        self.family: str = fields["model_type"]
        self._fields = {k: v for k, v in fields.items() if k not in _ABOUT}
        self._read: set[str] = set()

    def __call__(self, name: str, default: Any = _MISSING) -> Any:
        """The value of a field that changes the model."""
        self._read.add(name)
        value = self._fields.get(name, default)
        if value is _MISSING:
            raise ValueError(
                f"config has no {name}: a {self.family} model needs it"
            )
        return value

    def only(self, **supported: Any) -> None:
        """Refuse a field that is there with another value."""
        for name, value in supported.items():
            got = self(name, value)
            if got != value:
                self.refuse(name, value)

    def ignore(self, *names: str) -> None:
        """Fields that cannot change what the model computes in ``eval``."""
        self._read.update(names)

    def refuse(self, name: str, need: Any) -> None:
        raise NotImplementedError(
            f"config.{name} is {self._fields[name]!r}: attn's {self.family} "
            f"needs {need!r}"
        )

    def finish(self) -> None:
        """Refuse what nobody has looked at.

        Raises:
            NotImplementedError: a field is set that is not known here.
        """
        unknown = sorted(
            name
            for name, value in self._fields.items()
            if name not in self._read and value not in (None, False)
        )
        if unknown:
            given = ", ".join(f"{k}={self._fields[k]!r}" for k in unknown)
            raise NotImplementedError(
                f"config has {given}: attn does not know what that does to "
                f"a {self.family} model"
            )
