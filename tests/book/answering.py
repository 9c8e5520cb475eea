"""An exercise's editor on its page, with a function in Python's place."""

CHAPTER, EXERCISE = "notebooks/02_scaled_dot_product", "sdp-softmax"
STUB = """def softmax(x: Tensor, dim: int = -1) -> Tensor:
    # YOUR CODE HERE
    raise NotImplementedError"""
ANSWER = """def softmax(x: Tensor, dim: int = -1) -> Tensor:
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)"""
RIGHT = {"state": "right", "word": "right", "tried": ["27 inputs"]}
ENGINE = """
export const megabytes = 13;
export const canRun = () => "";
export const preload = () => {};
export const stop = () => window.stopped();
export const start = async (onProgress) => {
    onProgress(0.5);
    await window.started?.();
};
export const check = (...about) => window.verdict(...about);
export const evaluate = (...about) => window.value(...about);
"""


class Page:
    """A visit to an exercise; what Python was asked is in ``asked``.

    Args:
        page: without its ending; the file of a chapter.
        exercise: whose editor is looked at.
        is_real: whether Python itself answers.
        how: of the browser: its color_scheme, its width.
    """

    def __init__(
        self,
        browser,
        address,
        page=CHAPTER,
        exercise=EXERCISE,
        is_real=False,
        width=1280,
        **how,
    ):
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, **how)
        self.home, self.page = address, page
        self.asked, self.loaded, self.complaints = [], [], []
        self.verdict, self.value = RIGHT, {"text": "1.0"}
        self.context.expose_function("verdict", self._check)
        self.context.expose_function("value", self._evaluate)
        if not is_real:
            self.context.route("**/page/engine.mjs", self._play)
        self.open(exercise)

    def _play(self, route):
        route.fulfill(body=ENGINE, content_type="text/javascript")

    def _check(self, *about):
        self.asked.append(about)
        if isinstance(self.verdict, str):
            raise ValueError(self.verdict)
        return self.verdict

    def _evaluate(self, *about):
        self.asked.append(about)
        return self.value

    def open(self, exercise=EXERCISE):
        """Open the page in a new tab, and go to an exercise."""
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(20_000)
        self.tab.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.tab.on("request", lambda x: self.loaded.append(x.url))
        self.tab.goto(f"{self.home}/{self.page}.html")
        self.at_first = [*self.loaded]
        self.go(exercise)

    def go(self, exercise=EXERCISE):
        """Look at the editor of an exercise."""
        place = exercise.replace("_", "-").lower()  # as docutils writes it
        self.tab.locator(f"#exercise-{place}").scroll_into_view_if_needed()
        self.cell = self.tab.locator(f"#exercise-{place} + .cell")
        self.editor = self.cell.locator(".cm-content")
        self.editor.wait_for()
        self.card = self.cell.locator(".answer-card")

    def text(self):
        lines = self.editor.locator(".cm-line").all_inner_texts()
        return "\n".join(x.rstrip("\n") for x in lines)

    def write(self, text):
        self.editor.fill(text)

    def button(self, name):
        return self.cell.get_by_role("button", name=name)

    def check(self):
        self.button("Check").click()
        self.cell.locator(".answer-card:not(.stale)").wait_for()

    def close(self):
        self.context.close()
