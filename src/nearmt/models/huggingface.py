"""One adapter for Hugging Face sequence-to-sequence models: token ids in, logits and keys out.

The weights are frozen. The model holds no state of a request; that lives in `DecoderState`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nearmt.engines.choose import scoring
from nearmt.engines.cpu.encoder import KernelEncoder
from nearmt.engines.cuda.decoder import GraphedDecoder, GraphedState
from nearmt.engines.precision import Precision
from nearmt.engines.reference.decoder import JoinedLinears, StepDecoder
from nearmt.engines.reference.decoder_state import DecoderState
from nearmt.models.constraints import Constraint, constraint_of
from nearmt.models.families import check_family
from nearmt.models.generation import check_generation, special_tokens
from nearmt.models.modules import TransformersModules
from nearmt.timing import timed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from nearmt.engines.cpu.packed_cache import PackedCache
    from nearmt.models.families import Family
    from nearmt.models.marian import StoredMarian


class Seq2SeqModel:
    """A frozen encoder-decoder."""

    def __init__(
        self,
        model: PreTrainedModel | StoredMarian,
        *,
        key_layer: str = "output",
        precision: str = "fp32",
        device: str = "cpu",
        packed: PackedCache | None = None,
        load: Callable[[], PreTrainedModel] | None = None,
    ) -> None:
        """`load` gives transformers' model where `model` is none, `packed` int8 weights of an earlier start."""
        self.device = torch.device(device)
        if self.device.type == "cuda":
            # cuDNN plans its attention anew for every shape, and every step of a search has another one.
            torch.backends.cuda.enable_cudnn_sdp(False)
        self.family: Family = check_family(model.config.model_type)
        self.key_layer, self.precision = key_layer, precision
        #: Operations on the model's logits.
        self.scoring = scoring(self.device)
        self._precision = Precision(precision, self.device, packed)
        self._read_generation_config(model)
        joined = self._joined(model)
        self._model: Any = self._frozen(model)
        self._set_parts(joined)
        given = (lambda: self._model) if load is None else (lambda: self._frozen(load()))
        self._modules = TransformersModules(given, self.family, key_layer)

    def _frozen(self, model: Any) -> Any:
        """The model in its precision on its device."""
        model.eval().requires_grad_(False)
        self._precision.apply(model)
        return model.to(self.device)

    def _joined(self, model: Any) -> JoinedLinears:
        return JoinedLinears(self.family.decoder(model).layers, self._precision).to(self.device)

    def follow_weights(self) -> None:
        """Take over weights that were trained since: some are held joined, as copies."""
        assert self.precision != "int8"  # these are not trained
        self._set_parts(self._joined(self._model))

    def _set_parts(self, joined: JoinedLinears) -> None:
        self._decoder = StepDecoder(self.family.decoder(self._model), joined, self.key_layer)
        # A CPU is not kept waiting by launches, and looks at no more slots than are in use.
        self._graphed = GraphedDecoder(self._decoder) if self.device.type == "cuda" else None
        parts_of = self.family.encoder
        #: None where transformers encodes.
        self._encoder = None if parts_of is None else KernelEncoder.of(parts_of(self._model))

    def _read_generation_config(self, model: Any) -> None:
        config, settings = model.config, model.generation_config
        assert settings is not None
        check_generation(settings)
        #: How many tokens it chooses from.
        self.vocabulary = len(self.family.output_projection(model).weight)  # type: ignore[arg-type]
        tokens = special_tokens(settings, self.vocabulary)
        self.eos_ids, self.pad_id, self.start_id = tokens.ends, tokens.padding, tokens.start
        self.forced_first, self.forced_last = tokens.forced_first, tokens.forced_last
        #: As in `generate()`.
        self.early_stopping: bool | str = settings.early_stopping or False
        self.positions = int(self.family.positions(config))
        self.hidden_size = int(config.hidden_size)
        self.constraint: Constraint | None = constraint_of(settings, tokens, self.vocabulary, self.device)

    @property
    def prompt(self) -> list[int]:
        """What the decoder is given before it may choose: the start token and, where forced, a language."""
        return [self.start_id] if self.forced_first is None else [self.start_id, self.forced_first]

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        """Encode sentences; one row each."""
        with timed("model/encode"):
            return self._encoded(sources)

    def _encoded(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        token_BS, mask_BS = self.padded(sources)
        lengths = [len(source) for source in sources]
        if self._encoder is not None:
            return DecoderState(self._encoder.run(token_BS, mask_BS, lengths), mask_BS, lengths)
        state = DecoderState if self._graphed is None else GraphedState
        return state(self._modules.encode(token_BS, mask_BS), mask_BS, lengths)

    @torch.inference_mode()
    def step(self, state: DecoderState, token_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Feed the newest tokens of every row: logits of what comes next [B, V] and the key [B, H]."""
        if self._graphed is not None and isinstance(state, GraphedState) and token_BT.shape[1] == 1:
            with timed("model/step"):
                output = self._graphed.step(state, token_BT[:, 0])
            if output is not None:
                return output
        with timed("model/layers"):
            for token_B in token_BT.unbind(dim=1):
                hidden_BH, key_BH = self._decoder.step(state, token_B)
        with timed("model/output"):
            return self._decoder.logits(hidden_BH).float(), key_BH.float()

    @torch.inference_mode()
    def force_decode(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The key at every target position, [T, H] a pair: row t is the state that predicts token t.

        Positions of the prompt (forced language tags) are fed, but yield no key.
        """
        with timed("model/force_decode"):
            if self._forces:
                key_BTH = self._forced(sources, targets)[1]
            else:
                key_BTH = self._modules.keys(self._forced_inputs(sources, targets)).float()
            first = len(self.prompt) - 1
            return [key_BTH[b, first : first + len(target)] for b, target in enumerate(targets)]

    @property
    def _forces(self) -> bool:
        """Whether kernels feed whole targets: then keys are what steps give, and do not depend on the batch."""
        return self._encoder is not None and self._decoder.can_force

    def _forced(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """What is projected as logits, and the key, at every position, the prompt's included; each [B, T, H]."""
        return self._decoder.force(self._encoded(sources), self._fed(targets))

    @torch.inference_mode()
    def teach(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[tuple[Tensor, Tensor]]:
        """Keys [T, H] as `force_decode` gives them, and the log-probabilities of all tokens there [T, V], a pair."""
        with timed("model/teach"):
            if self._forces:
                hidden_BTH, key_BTH = self._forced(sources, targets)
                logits_BTV = self._decoder.logits(hidden_BTH)
            else:
                logits_BTV, key_BTH = self._modules.logits_and_keys(self._forced_inputs(sources, targets))
            first = len(self.prompt) - 1
            spans = [slice(first, first + len(target)) for target in targets]
            return [
                (key_BTH[b, span].float(), logits_BTV[b, span].float().log_softmax(dim=-1))
                for b, span in enumerate(spans)
            ]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The model's log-probability of every target token, [T] a pair."""
        scores = []
        for (_, log_prob_TV), target in zip(self.teach(sources, targets), targets, strict=True):
            token_T1 = torch.tensor(target, device=self.device)[:, None]
            scores.append(log_prob_TV.gather(1, token_T1)[:, 0])
        return scores

    @torch.inference_mode()
    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """How much every target token but the last looks at every source token, [T - 1, S] a pair; rows sum to 1.

        It is what the lower half of the decoder looks at once the token is fed: there a word is still read
        beside its source, while upper layers look at what comes next.
        """
        weight_BTS = self._modules.attention(self._forced_inputs(sources, targets))[:, len(self.prompt) :]
        lengths = zip(targets, sources, strict=True)
        return [weight_BTS[b, : len(target) - 1, : len(source)] for b, (target, source) in enumerate(lengths)]

    def _forced_inputs(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> dict[str, Any]:
        """A forward pass over whole targets. The last target token is predicted, never fed."""
        source_BS, mask_BS = self.padded(sources)
        return {
            "input_ids": source_BS,
            "attention_mask": mask_BS,
            "decoder_input_ids": self._fed(targets),
            "use_cache": False,
        }

    def _fed(self, targets: Sequence[Sequence[int]]) -> Tensor:
        """What the decoder is fed to predict whole targets, [B, T]."""
        return self.padded([self.prompt + list(target[:-1]) for target in targets])[0]

    def padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Token ids padded on the right and their mask, [B, longest]."""
        width = max(len(row) for row in rows)
        token = torch.tensor([[*row, *[self.pad_id] * (width - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        return token.to(self.device), mask.to(self.device)
