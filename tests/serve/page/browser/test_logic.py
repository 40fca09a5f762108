"""What the page computes itself, run in the browser."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serve.page.browser.watched import WatchedPage

pytestmark = [pytest.mark.services, pytest.mark.embedded]


def call(page: WatchedPage, module: str, expression: str, *values: Any) -> Any:
    """Evaluate an expression with the exports of a module as `m` and the values as `v`."""
    program = f"async ([name, ...v]) => {{ const m = await import(name); return {expression}; }}"
    return page.evaluate(program, [f"{page.address}/static/{module}", *values])


@pytest.fixture(scope="module")
def logic(chromium: Any, address: str, tmp_path_factory: pytest.TempPathFactory) -> WatchedPage:
    page = WatchedPage(chromium.new_page(), address, tmp_path_factory.mktemp("logic"))
    page.inner.goto(address)
    return page


def changed(page: WatchedPage, before: str, after: str, language: str = "en") -> list[str]:
    spans = call(page, "core/words.js", "m.changes(...v)", before, after, language)
    return [after[span["start"] : span["end"]] for span in spans]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("the pump is on", "the pump is on", []),
        ("the pump is on", "the valve is on", ["valve"]),
        ("the pump", "the big red pump", ["big red"]),
        ("a b c d", "d a b c", ["d"]),
        ("", "all new", ["all new"]),
        ("all gone", "", []),
        ("the pump.", "the pump!", ["!"]),
        ("the  pump", "the pump", []),
        ("the pump the pump", "the pump the pump the pump", ["the pump"]),
    ],
)
def test_changes_are_whole_words(logic: WatchedPage, before: str, after: str, expected: list[str]) -> None:
    assert changed(logic, before, after) == expected


def test_changes_of_text_without_spaces(logic: WatchedPage) -> None:
    assert changed(logic, "我喜欢猫", "我喜欢狗", "zh") == ["狗"]


def test_long_texts_are_compared_in_time(logic: WatchedPage) -> None:
    before = " ".join(f"w{number}" for number in range(3000))
    after = " ".join(f"v{number}" for number in range(3000))
    assert changed(logic, before, after) == [after]


def moved(page: WatchedPage, spans: list[tuple[int, int]], before: str, after: str) -> list[str]:
    listed = [{"start": start, "end": end} for start, end in spans]
    found = call(page, "core/words.js", "m.moved(...v)", listed, before, after)
    return [after[span["start"] : span["end"]] for span in found]


def test_words_keep_what_is_known_of_them_until_they_are_edited(logic: WatchedPage) -> None:
    words = [(0, 3), (4, 8), (9, 11)]  # the pump is
    assert moved(logic, words, "the pump is", "the pump is") == ["the", "pump", "is"]
    assert moved(logic, words, "the pump is", "the big pump is") == ["the", "pump", "is"]
    assert moved(logic, words, "the pump is", "the punp is") == ["the", "is"]
    assert moved(logic, words, "the pump is", "") == []
    assert moved(logic, words, "the pump is", "is the pump is") == ["the", "pump", "is"]


def test_offsets_of_the_server_count_characters(logic: WatchedPage) -> None:
    """JavaScript counts UTF-16 units: characters beyond the first plane count twice."""
    text = "a 😀 pump"
    found = call(logic, "core/words.js", "m.spansOf(...v)", text, [{"start": 4, "end": 8}, {"start": 2, "end": 3}])
    units = text.encode("utf-16-le")
    assert [units[2 * s["start"] : 2 * s["end"]].decode("utf-16-le") for s in found] == ["pump", "😀"]


def test_a_text_is_cut_and_put_together_again(logic: WatchedPage) -> None:
    text = "  😀 Eins.  Zwei.\r\n\r\nDrei.\n"
    spans = [{"start": 2, "end": 9}, {"start": 11, "end": 16}, {"start": 20, "end": 25}]
    parts = call(logic, "core/sentences.js", "m.cut(...v)", text, spans)
    assert [part["text"] for part in parts] == ["😀 Eins.", "Zwei.", "Drei.", ""]
    assert "".join(part["before"] + part["text"] for part in parts) == text
    made = "(part, number) => m.segment(number, part.text, { before: part.before, target: v[1][number] })"
    whole = f"m.wholeText(v[0].map({made}))"
    assert (
        call(logic, "translate/segments.js", whole, parts, ["One.", "", "Three.", ""])
        == "  One.  Zwei.\r\n\r\nThree.\n"
    )


def segment_after(page: WatchedPage, steps: str, *values: Any) -> Any:
    """A segment after some steps: statements that use `m`, `s` (the segment) and `v`."""
    return call(
        page, "translate/segments.js", f"(() => {{ const s = m.segment(0, 'Quelle'); {steps} return s; }})()", *values
    )


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "origin": "machine", "warnings": [], "matches": [], **more}


def test_a_new_translation_marks_what_changed(logic: WatchedPage) -> None:
    found = segment_after(
        logic, "m.take(s, v[0], 'en'); m.take(s, v[1], 'en');", answer("the old pump"), answer("the new pump")
    )
    assert (found["target"], found["previous"]) == ("the new pump", "the old pump")
    assert found["changed"] == [{"start": 4, "end": 7}]


@pytest.mark.parametrize("state", ["m.edit(s, 'mine');", "s.confirmed = true; s.target = 'mine';"])
def test_a_new_translation_does_not_replace_what_a_person_wrote(logic: WatchedPage, state: str) -> None:
    found = segment_after(logic, f"m.take(s, v[0], 'en'); {state} m.take(s, v[1], 'en');", answer("one"), answer("two"))
    assert found["target"] == "mine"


def test_runs_cover_the_text(logic: WatchedPage) -> None:
    words = [{"text": "pump", "start": 4, "end": 8, "origin": "search", "witnesses": [1], "before": 0.1, "after": 0.9}]
    steps = "m.take(s, v[0], 'en'); m.takeWords(s, v[1]); s.runs = m.runs(s, 'en');"
    found = segment_after(logic, steps, answer("the pump, now"), answer("the pump, now", words=words))["runs"]
    assert "".join(run["text"] for run in found) == "the pump, now"
    assert [run["text"] for run in found if run["word"]] == ["the", "pump", "now"]
    assert [run["text"] for run in found if run["known"]] == ["pump"]


@pytest.mark.parametrize(
    ("offset", "word"), [(0, "the"), (3, "the"), (4, "pump"), (6, "pump"), (8, "pump"), (9, "pump")]
)
def test_the_word_at_the_caret(logic: WatchedPage, offset: int, word: str) -> None:
    steps = "m.take(s, v[0], 'en'); s.found = m.wordAt(m.runs(s, 'en'), v[1]);"
    assert segment_after(logic, steps, answer("the pump."), offset)["found"]["text"] == word


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m.matchPercent(1)", 100),
        ("m.matchPercent(0.9999)", 99),
        ("m.matchPercent(0.755)", 75),
        ("m.percent(0.9999)", "99 %"),
        ("m.percent(1)", "100 %"),
        ("m.percent(0.001)", "<1 %"),
        ("m.percent(0)", "0 %"),
        ("m.bytes(999)", "999 B"),
        ("m.bytes(1500)", "1.5 kB"),
        ("m.bytes(25_300_000)", "25 MB"),
        ("m.duration(0.0042)", "4.2 ms"),
        ("m.duration(0.42)", "0.42 s"),
        ("m.duration(42)", "42.0 s"),
        ("m.duration(600)", "10 min"),
        ("m.counted(1, 'pair')", "1 pair"),
        ("m.counted(1234, 'pair')", "1,234 pairs"),
        ("m.languageName('de')", "German"),
        ("m.languageName('not a code')", "not a code"),
        ("m.ago(0, 90_000)", "2 min ago"),
    ],
)
def test_numbers_as_they_are_shown(logic: WatchedPage, expression: str, expected: object) -> None:
    assert call(logic, "core/format.js", expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m.eventData('event: x\\ndata: {\"a\":\\ndata: 1}')", '{"a":\n1}'),
        ("m.eventData(': still here')", ""),
        ("m.nameIn('attachment; filename=\"a.po\"')", "a.po"),
        ("m.nameIn(\"attachment; filename*=UTF-8''%C3%A4.po\")", "ä.po"),
        ("m.nameIn('attachment')", ""),
    ],
)
def test_what_is_read_of_answers(logic: WatchedPage, expression: str, expected: str) -> None:
    assert call(logic, "core/http.js", expression) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("memory.tmx", "memory"), ("../Große Datei (2).tmx", "Gro-e-Datei-2-"), ("???.po", "memory")]
)
def test_names_for_memories_are_made_of_names_of_files(logic: WatchedPage, name: str, expected: str) -> None:
    assert call(logic, "memories/creating.js", "m.nameFor(...v)", name) == expected


def test_timers_are_summed_by_part(logic: WatchedPage) -> None:
    timers = {"model/step": 3.0, "beam/top": 1.0, "index/search": 2.0, "mix": 1.0, "cache/search": 1.0, "else": 2.0}
    sums = call(logic, "cost/figures.js", "m.byPart(...v)", timers)
    assert sums == {"model": 4, "search": 2, "cache": 2, "other": 2}
    assert call(logic, "cost/figures.js", "m.shares(...v)", sums) == {
        "model": 0.4,
        "search": 0.2,
        "cache": 0.2,
        "other": 0.2,
    }
    assert set(call(logic, "cost/figures.js", "m.shares(m.byPart({}))").values()) == {0}


def test_the_queue_runs_the_nearest_first_and_few_at_a_time(logic: WatchedPage) -> None:
    program = """async ([name]) => {
        const { Queue } = await import(name);
        const queue = new Queue(2), began = [], most = [0, 0];
        let focus = 0;
        const task = (number) => async () => {
            began.push(number);
            most[0] += 1; most[1] = Math.max(...most);
            await new Promise((done) => setTimeout(done, 5));
            most[0] -= 1;
            if (number === 1) focus = 7;
        };
        for (let number = 0; number < 9; number += 1) queue.add(task(number), () => Math.abs(number - focus));
        while (!queue.idle) await new Promise((done) => setTimeout(done, 5));
        return [began, most[1]];
    }"""
    began, most = logic.evaluate(program, [f"{logic.address}/static/core/queue.js"])
    assert most == 2
    assert sorted(began) == list(range(9))
    assert began[0] == 0
    assert began.index(7) < began.index(4)


def test_a_cleared_queue_stops_what_runs(logic: WatchedPage) -> None:
    program = """async ([name]) => {
        const { Queue } = await import(name);
        const queue = new Queue(1), seen = [];
        const stopped = (done) => () => done(seen.push("stopped"));
        queue.add((signal) => new Promise((done) => signal.addEventListener("abort", stopped(done))));
        queue.add(async () => seen.push("never"));
        queue.clear();
        await new Promise((done) => setTimeout(done, 5));
        return [seen, queue.idle];
    }"""
    assert logic.evaluate(program, [f"{logic.address}/static/core/queue.js"]) == [["stopped"], True]


def test_tasks_that_fail_make_room(logic: WatchedPage) -> None:
    program = """async ([name]) => {
        const { Queue } = await import(name);
        const queue = new Queue(1), seen = [];
        queue.add(async () => { throw new Error("provoked"); });
        queue.add(async () => { seen.push(2); });
        await new Promise((done) => setTimeout(done, 5));
        return seen;
    }"""
    assert logic.evaluate(program, [f"{logic.address}/static/core/queue.js"]) == [2]
