"""A correction made now is used in the next sentence."""

from nearmt import Datastore, Pair, Translator

base = Translator("de-en")
memory = Datastore.build("corrections", [], base.model, overwrite=True)
# With a single pair, the default weight would be too large: its target would be repeated word for word.
translator = base.with_datastore(memory, settings={"lambda": 0.4})

first, second = "Der Stutzer klemmt.", "Prüfen Sie, ob der Stutzer klemmt."
print("before:", translator.translate(second).text)
memory.add([Pair(first, "The trimmer is jammed.")], base.model)
print("after: ", translator.translate(second).text)
