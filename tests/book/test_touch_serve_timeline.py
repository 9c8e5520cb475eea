"""The figure of chapter 16 shows what attn's scheduler does."""

import pytest

import attn
from attn.serving import Scheduler, simulate, simulate_static
from book.figures.serve_timeline import (
    NAMES,
    PAGE,
    PAGES,
    ROWS,
    SIGMAS,
    answers,
    one,
    requests,
)
from tests.book.controls import PUT, numbers_of, opened_figure

timeline = opened_figure("serve_timeline")

# Put the controls, and read the bars, the crosses and the words.
SHOWN = f"""(place, state) => {{
    {PUT}
    for (const [name, value] of Object.entries(state)) put(name, value);
    const every = (board, what) => [
        ...board.querySelectorAll(`[data-${{what}}]`)];
    const read = (board, what) => every(board, what).map(
        e => e.dataset[what].split(" ").map(Number));
    const boards = [...place.querySelectorAll(".timeline")];
    return {{
        bars: boards.map(x => read(x, "segment")),
        lost: boards.map(x => read(x, "lost")),
        code: place.querySelector("code").textContent,
        heard: place.querySelector("[aria-live]").innerText,
    }};
}}"""
STATES = [(0, 4), (4, 2), (4, 0), (5, 1), (2, 0)]


def by_step(segments):
    """Return the set of requests in each step, and that of rows."""
    steps = max(start + n for _, start, n, _ in segments)
    runs = [
        [
            (row, name)
            for row, start, n, name in segments
            if start <= i < start + n
        ]
        for i in range(steps)
    ]
    assert all(len({row for row, _ in x}) == len(x) for x in runs)
    return [{NAMES[name] for _, name in x} for x in runs]


@pytest.mark.browser
@pytest.mark.parametrize(("ragged", "pages"), STATES)
def test_bars_are_what_the_scheduler_runs_in_each_step(
    timeline, ragged, pages
):
    shown = timeline.evaluate(
        SHOWN, {"raggedness": ragged, "pages": pages, "step": 1}
    )
    sigma = SIGMAS[ragged]
    trace = eval(
        shown["code"],
        {"attn": attn, "requests": requests(sigma), "step_time": one},
    )
    static = simulate_static(requests(sigma), one, ROWS)
    for way, bars in zip((static, trace), shown["bars"], strict=True):
        runs = [set(x.num_scheduled_tokens) for x in way.steps]
        assert by_step(bars) == runs
    preempted = [
        (i, name) for i, x in enumerate(trace.steps) for name in x.preempted
    ]
    assert [
        (step, NAMES[name]) for _, step, name in shown["lost"][1]
    ] == preempted
    assert shown["lost"][0] == []
    low, high, has, size, before, share, after, full, times, computed, *_ = (
        numbers_of(shown["heard"])
    )
    assert (low, high) == (min(answers(sigma)), max(answers(sigma)))
    assert (has, size) == (PAGES[pages], 4)
    assert (before, after) == (len(static.steps), len(trace.steps))
    assert times == len(preempted)
    for percent, way in ((share, static), (full, trace)):
        rows = sum(len(x.num_scheduled_tokens) for x in way.steps)
        right = 100 * rows / (ROWS * len(way.steps))
        assert percent == pytest.approx(right, abs=0.51)
    assert computed == sum(
        sum(x.num_scheduled_tokens.values()) for x in trace.steps
    )


@pytest.mark.browser
def test_the_pages_that_are_taken_are_the_scheduler_s(timeline):
    memory, taken = PAGES[1], []
    pages = attn.PageAllocator(memory, PAGE)

    def step_time(_counts):
        taken.append(memory - len(pages.free_pages))
        return 1.0

    scheduler = Scheduler(pages, max_num_seqs=ROWS, max_num_batched_tokens=64)
    simulate(requests(SIGMAS[4]), step_time, scheduler)
    assert max(taken) == memory
    shown = timeline.evaluate(
        f"""(place, steps) => {{
            {PUT}
            put("raggedness", 4);
            put("pages", 1);
            return steps.map((_, n) => {{
                put("step", n + 1);
                return [...place.querySelectorAll("[data-page]")].filter(
                    e => e.dataset.page).length;
            }});
        }}""",
        taken,
    )
    assert shown == taken


@pytest.mark.browser
def test_a_press_in_the_picture_goes_to_its_step(timeline):
    timeline.put(raggedness=4, pages=0, step=1)
    timeline.drag(timeline.locator(".timeline").first, (0.3, 0.5))
    at = int(timeline.get_by_label("step", exact=True).input_value())
    assert at == pytest.approx((0.3 * 360 - 22) / 326 * 65, abs=1.5)


@pytest.mark.browser
def test_arrow_keys_walk_through_the_steps(timeline):
    timeline.evaluate(SHOWN, {"raggedness": 4, "pages": 0, "step": 1})
    timeline.press_to("step", 3)
    assert "Step 3" in timeline.heard()
    timeline.get_by_role("button", name="Next").click()
    assert "Step 4" in timeline.heard()
    timeline.press_to("pages", 4)
    assert "32 pages" in timeline.heard()
    assert "0 preemptions" in timeline.heard()
