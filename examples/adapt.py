"""Compare translations with and without a memory."""

from nearmt import Datastore, Translator, read_pairs
from nearmt.demo import MEMORY

base = Translator("de-en")
memory = Datastore.build("manual-memory", read_pairs(MEMORY), base.model, overwrite=True)
adapted = base.with_datastore(memory)

for sentence in ["Schließen Sie die Wartungsklappe.", "Der Bediener prüft das Umreifungsband."]:
    print(sentence)
    print("  model alone:", base.translate(sentence).text)
    print("  with memory:", adapted.translate(sentence).text)
