"""Move the controls of a figure, and read its words."""

import re


def put(slider, value):
    """Move a slider at once, unlike a hand; it hears of it all the same."""
    slider.evaluate(
        "(e, value) => { e.value = value;"
        " e.dispatchEvent(new Event('input', {bubbles: true})) }",
        str(value),
    )


def press_to(figure, label, value):
    """Move a slider to a value by arrow keys alone."""
    slider = figure.get_by_label(label, exact=True)
    slider.focus()
    while (now := int(slider.input_value())) != value:
        slider.press("ArrowRight" if now < value else "ArrowLeft")
        assert int(slider.input_value()) != now


def numbers_of(text):
    """Return the numbers of a text, in which minus is a sign of its own."""
    return [
        float(x) for x in re.findall(r"-?\d+\.?\d*", text.replace("−", "-"))
    ]
