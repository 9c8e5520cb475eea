// A choice for each column of the museum's index but the first. When all exhibits
// were on this page, their permalinks led here: on to the room.
document.addEventListener("DOMContentLoaded", () => {
  const place = location.hash.replace("#bug-no-mask-is-a-mask", "#bug-mask-left-out");
  const moved = place && document.querySelector(`:is(.chapters, td) a[href$="${place}"]`);
  if (moved) location.replace(moved.href);

  const table = document.querySelector("#museum-index table");
  const rows = [...table.tBodies[0].rows];
  const values = (row, column) => row.cells[column].textContent.trim().split(", ");
  const make = (tag, parent, text = "") => {
    const made = parent.appendChild(document.createElement(tag));
    made.textContent = text;
    return made;
  };

  const form = document.createElement("form");
  form.className = "museum-filters";
  form.ariaLabel = "Filter the exhibits";
  const choices = [...table.tHead.rows[0].cells].slice(1).map((head, i) => {
    const label = make("label", form, head.textContent);
    const select = make("select", label);
    make("option", select, "all").value = "";
    const all = new Set(rows.flatMap((row) => values(row, i + 1)));
    for (const value of [...all].sort(new Intl.Collator("en", { numeric: true }).compare)) {
      make("option", select, value).value = value;
    }
    return select;
  });
  make("button", form, "Show all").type = "reset";
  const status = make("p", form);
  status.role = "status";

  const filter = () => {
    for (const row of rows) {
      row.hidden = !choices.every((choice, i) =>
        !choice.value || values(row, i + 1).includes(choice.value));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    status.textContent = `${shown} of ${rows.length} shown`;
  };
  form.addEventListener("change", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
  table.before(form);
});
