"""Show which stored pairs contributed to each token of a translation."""

from nearmt import Datastore, Translator, read_pairs
from nearmt.demo import MEMORY

base = Translator("de-en")
memory = Datastore.build("manual-memory", read_pairs(MEMORY), base.model, overwrite=True)
translation = base.with_datastore(memory).translate("Reinigen Sie das Falzschwert täglich.", explain=True)

print(translation.text)
for token in translation.provenance:
    pairs = ", ".join(f"{witness.pair_id} ({witness.share:.0%})" for witness in token.witnesses[:2])
    print(f"{token.token!r:15} {token.model_probability:6.1%} -> {token.probability:6.1%}  {token.origin:7} {pairs}")
