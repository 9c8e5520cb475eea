"""What a reader writes on a page: kept, reset, ticked, taken along."""

import json
import re
import sys

import pytest

from attn.exercises import sources
from tests.book.answering import ANSWER, CHAPTER, EXERCISE, STUB
from tests.book.pages import ROOT
from tests.book.test_front_page import NO_STORAGE
from tests.grading.classroom.damage.kinds import cell_of
from tests.processes import run

pytestmark = pytest.mark.browser
A_CLASS = "notebooks/10_kv_cache", "cache-KVCache"


def test_what_is_written_outlives_the_tab_and_a_reset(answering):
    """Also a tab that is closed while Python runs the answer."""
    with answering() as seen:
        seen.write(ANSWER)
        seen.tab.evaluate("window.verdict = () => new Promise(() => {}), 0")
        seen.button("Check").click()
        seen.cell.get_by_text("Checking …").wait_for()
        seen.tab.close()
        seen.open()
        assert seen.text() == ANSWER
        seen.button("Reset").click()
        assert seen.text() == STUB
        seen.tab.reload()
        seen.go()
        assert seen.text() == STUB
        seen.button("Bring mine back").click()
        assert seen.text() == ANSWER
        assert not seen.button("Bring mine back").is_visible()


@pytest.mark.exhaustive
def test_a_right_answer_is_ticked_and_leads_on(answering):
    with answering() as seen:
        seen.write(ANSWER)
        seen.check()
        assert seen.tab.get_by_label(f"done: {EXERCISE}").is_checked()
        seen.card.locator("p:has-text('Next: ') a").click()
        assert seen.tab.url.endswith("#exercise-sdp-attention-loops")
        seen.tab.goto(f"{seen.home}/book/intro.html")
        card = seen.tab.locator(f".chapter:has([href*='{CHAPTER}'])")
        assert "1 of 5 ticked" in card.inner_text()


@pytest.mark.exhaustive
def test_two_windows_show_one_text(answering):
    with answering() as seen:
        first = seen.cell
        seen.open()
        seen.write(ANSWER)
        first.get_by_text("keepdim").first.wait_for()


@pytest.mark.exhaustive
def test_a_browser_that_stores_nothing_says_so(answering):
    with answering() as seen:
        seen.context.add_init_script(NO_STORAGE)
        seen.tab.reload()
        seen.go()
        seen.write(ANSWER)
        seen.cell.get_by_text("This browser stores nothing").wait_for()
        seen.check()
        seen.button("Reset").click()
        seen.button("Bring mine back").click()
        assert seen.text() == ANSWER


@pytest.mark.exhaustive
def test_python_is_started_by_itself_once_it_has_been(answering):
    with answering() as seen:
        seen.check()
        seen.page = "notebooks/03_masks"
        seen.open("mask-causal")
        assert seen.button("Check").inner_text() == "Check"
        starts = "window.started = () => { window.isStarted = true }, 0"
        seen.tab.evaluate(starts)
        seen.editor.focus()
        seen.tab.wait_for_function("window.isStarted")


def solved(exercise):
    """The solution as one would write it on the page: without its task."""
    text = sources.solution(exercise)
    for docstring in re.findall(r'(?s) *r?""".*?"""\n\n?', text):
        text = text.replace(docstring, "")
    return text


def opened(seen, path):
    with seen.tab.expect_file_chooser() as chosen:
        seen.tab.get_by_role("button", name="Open a notebook").click()
    chosen.value.set_files(path)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("page", "exercise"), [(CHAPTER, EXERCISE), A_CLASS])
def test_the_notebook_that_is_downloaded_is_graded_and_opened(
    answering, page, exercise, tmp_path
):
    answer = ANSWER if exercise == EXERCISE else solved(exercise)
    with answering(page=page, exercise=exercise) as seen:
        seen.write(answer)
        with seen.tab.expect_download() as got:
            seen.tab.get_by_role("button", name="Download my").click()
        file = tmp_path / got.value.suggested_filename
        got.value.save_as(file)
        seen.button("Reset").click()
        opened(seen, file)
        seen.tab.get_by_text(f"1 answer taken in: {exercise}.").wait_for()
        assert seen.text() == answer
        opened(seen, ROOT / "README.md")
        seen.tab.get_by_text("That file is no notebook.").wait_for()
        opened(seen, ROOT / "notebooks" / "05_gqa.ipynb")
        seen.tab.get_by_text("No cell of that notebook").wait_for()
    cell = cell_of(json.loads(file.read_text("utf-8")), exercise)
    source = "".join(cell["source"])
    for docstring in sources.docstrings(exercise).values():
        assert docstring.splitlines()[0] in source, "the task is still there"
    command = (sys.executable, "-m", "attn", "check", file, exercise)
    done = run(*command, cwd=ROOT)
    assert done.stdout.startswith(f"✓ {exercise}  "), done
    assert done.returncode == 0
