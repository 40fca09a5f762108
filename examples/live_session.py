"""Translate, confirm and learn sentence by sentence, and undo a mistake."""

from nearmt import Datastore, Session, Translator

base = Translator("de-en")
memory = Datastore.build("live-memory", [], base.model, overwrite=True)
translator = base.with_datastore(memory, settings={"lambda": 0.4})

with Session(translator) as session:
    for source, correction in [
        ("Der Stutzer klemmt.", "The trimmer is jammed."),
        ("Prüfen Sie, ob der Stutzer klemmt.", "Check whether the trimmer is jammed."),
        ("Reinigen Sie den Stutzer.", "Clean the trimmer."),
    ]:
        print("machine:", session.translate(source).text)
        session.confirm(source, correction)
    undone = session.undo()
    print("undone:", undone.target)
    print(session.statistics)
