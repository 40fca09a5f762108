"""One adapter for Hugging Face sequence-to-sequence models: token ids in, logits and keys out.

The weights are frozen. The model holds no state of a request; that lives in `DecoderState`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nearmt.engines.choose import scoring
from nearmt.engines.decoders import open_network
from nearmt.engines.precision import Precision
from nearmt.engines.reference.decoder_state import DecoderState
from nearmt.engines.reference.step_decoder import JoinedLinears
from nearmt.models.constraints import Constraint, constraint_of
from nearmt.models.families import Family, check_family
from nearmt.models.forced import ForcedPairs
from nearmt.models.generation import check_generation, special_tokens
from nearmt.models.modules import TransformersModules
from nearmt.models.ragged import Ragged
from nearmt.models.words import aligned_codes
from nearmt.timing import timed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from nearmt.engines.cpu.packed_cache import PackedCache
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
        self.family: Family = check_family(model.config.model_type)
        self.key_layer, self.precision = key_layer, precision
        #: Operations on the model's logits.
        self.scoring = scoring(self.device)
        self._precision = Precision(precision, self.device, packed)
        self._read_generation_config(model)
        joined = self._joined(model)  # before the parts are converted
        self._model: Any = self._frozen(model)
        given = (lambda: self._model) if load is None else (lambda: self._frozen(load()))
        self._modules = TransformersModules(given, self.family, key_layer)
        self._open_network(joined)

    def _frozen(self, model: Any) -> Any:
        """The model in its precision on its device."""
        model.eval().requires_grad_(False)
        self._precision.apply(model)
        return model.to(self.device)

    def _joined(self, model: Any) -> JoinedLinears:
        return JoinedLinears(self.family.decoder(model).layers, self._precision).to(self.device)

    def _open_network(self, joined: JoinedLinears) -> None:
        encoder = None if self.family.encoder is None else self.family.encoder(self._model)
        decoder = self.family.decoder(self._model)
        self.network = open_network(encoder, decoder, joined, self.key_layer, self.device, self._modules)

    def follow_weights(self) -> None:
        """Take over weights that were trained since: some are held joined, as copies."""
        assert self.precision != "int8"  # these are not trained
        self._open_network(self._joined(self._model))

    def _read_generation_config(self, model: Any) -> None:
        config, settings = model.config, model.generation_config
        assert settings is not None
        check_generation(settings)
        #: Number of tokens that it chooses from.
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
        """What the decoder is fed before it may choose: the start token and, where forced, a language."""
        return [self.start_id] if self.forced_first is None else [self.start_id, self.forced_first]

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        """Encode sentences; one row each."""
        with timed("model/encode"):
            return self._encoded(sources)

    def _encoded(self, sources: Sequence[Sequence[int]]) -> DecoderState:
        return self.network.encode(*self.padded(sources), [len(source) for source in sources])

    @torch.inference_mode()
    def step(self, state: DecoderState, token_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Feed the newest tokens of every row: logits of the next token [B, V] and the key [B, H]."""
        return self.network.step(state, token_BT)

    @torch.inference_mode()
    def force_decode(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Tensor]:
        """The key at every target position, [T, H] a pair: row t is the state that predicts token t.

        Positions of the prompt (forced language tags) are fed, but yield no key. With kernels, keys are those of steps
        to the last bit, in any batch.
        """
        with timed("model/force_decode"):
            key_BTH = self.network.force(self._encoded(sources), self._fed(targets))
            return [key_BTH[b, span] for b, span in enumerate(self._predicting(targets))]

    @torch.inference_mode()
    def teach(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[tuple[Tensor, Tensor]]:
        """Keys [T, H] as `force_decode` gives them, and the log-probabilities of all tokens there [T, V], a pair."""
        with timed("model/teach"):
            logits_BTV, key_BTH = self.network.force_with_logits(self._encoded(sources), self._fed(targets))
            return [
                (key_BTH[b, span].float(), logits_BTV[b, span].float().log_softmax(dim=-1))
                for b, span in enumerate(self._predicting(targets))
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
        """Attention of every target token but the last to every source token, [T - 1, S] a pair; rows sum to 1.

        It is the attention of the lower half of the decoder once the token is fed: lower layers attend to the source
        of the token itself, upper layers to what comes next.
        """
        with timed("model/force_decode"):
            _, weight_BTS = self.network.force_aligned(self._encoded(sources), self._fed(targets))
            weight_BTS, lengths = weight_BTS[:, len(self.prompt) :], zip(targets, sources, strict=True)
            return [weight_BTS[b, : len(target) - 1, : len(source)] for b, (target, source) in enumerate(lengths)]

    @torch.inference_mode()
    def force_entries(self, pairs: ForcedPairs) -> tuple[Tensor, Tensor]:
        """What `force_decode` gives for all pairs, one behind the other, [N, H], and the code of the source word that
        each token is aligned with, [N]; 0 for the last token of a target, the end of the sentence.

        On a GPU, this returns before it is computed.
        """
        with timed("model/force_decode"):
            encoded = self._encoded_rows(pairs.source)
            key_BTH, weight_BTS = self.network.force_aligned(encoded, self.sent(pairs.fed(self.prompt, self.pad_id)))
            number_BS, code_BW = self.sent(pairs.number_BS), self.sent(pairs.code_BW)
            code_BT = aligned_codes(weight_BTS, number_BS, code_BW)
            position_N, following_N, inner_N = map(self.sent, pairs.positions(len(self.prompt), key_BTH.shape[1]))
            key_NH = key_BTH.flatten(0, 1).index_select(0, position_N)
            return key_NH, code_BT.flatten().index_select(0, following_N) * inner_N

    def _encoded_rows(self, source: Ragged) -> DecoderState:
        token_BS = self.sent(source.padded(self.pad_id))
        length_B = self.sent(source.length_R)
        mask_BS = (torch.arange(token_BS.shape[1], device=self.device) < length_B[:, None]).long()
        return self.network.encode(token_BS, mask_BS, source.length_R.tolist())

    def sent(self, array: np.ndarray) -> Tensor:
        """An array on the model's device. To a GPU it is copied while the program goes on."""
        tensor = torch.from_numpy(array)
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _fed(self, targets: Sequence[Sequence[int]]) -> Tensor:
        """The decoder's input for whole targets, [B, T]. The last target token is predicted, never fed."""
        return self.padded([self.prompt + list(target[:-1]) for target in targets])[0]

    def _predicting(self, targets: Sequence[Sequence[int]]) -> list[slice]:
        """The positions of each row that predict target tokens."""
        first = len(self.prompt) - 1
        return [slice(first, first + len(target)) for target in targets]

    def padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Token ids padded on the right and their mask, [B, longest]."""
        width = max(len(row) for row in rows)
        token = torch.tensor([[*row, *[self.pad_id] * (width - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        return token.to(self.device), mask.to(self.device)
