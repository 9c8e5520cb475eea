"""Each exercise has a place in the book: a title and a cell to go to."""

from pathlib import Path

from attn.exercises import CHAPTERS, place, sources
from attn.exercises.spec import chapter as exercises_of


def test_every_chapter_and_exercise_has_a_title_of_its_own():
    for key in CHAPTERS:
        chapter = place.chapter(key)
        assert chapter.title != CHAPTERS[key]
        assert list(chapter.places) == [x.id for x in exercises_of(key)]
        titles = {x.title for x in chapter.places.values()}
        assert len(titles) == len(chapter.places)
        assert not any("`" in x or x in chapter.places for x in titles)


def test_a_damaged_chapter_goes_by_the_names_of_its_files(monkeypatch):
    monkeypatch.setattr(sources, "notebook_path", lambda key: Path("gone"))
    place.chapter.cache_clear()
    assert place.place("mask-causal") == ("mask-causal", "03_masks.ipynb")
    assert place.chapter("mask").title == "03_masks"
    place.chapter.cache_clear()
