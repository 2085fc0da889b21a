
"use strict";
(() => {
  const rows = [...document.querySelectorAll(".nodes tbody tr")];
  const articles = [...document.querySelectorAll("article")];
  const input = document.querySelector(".find input");
  const count = document.querySelector(".find output");
  const tiles = [...document.querySelectorAll(".tiles button")];
  const rank = ["ok", "unknown", "drift", "failed", "unreachable"];
  const plain = (text) => text.toLowerCase();
  const words = new Map(rows.map((row) => [row.dataset.node, plain(row.dataset.node + " " + row.dataset.facts)]));
  for (const article of articles) {
    const node = article.dataset.node;
    words.set(node, words.get(node) + " " + plain(article.textContent));
  }
  let verdict = "";

  function filter() {
    const wanted = plain(input.value).split(/\s+/).filter(Boolean);
    const visible = new Set();
    for (const row of rows) {
      const text = words.get(row.dataset.node);
      const shown = (!verdict || row.classList.contains(verdict)) && wanted.every((word) => text.includes(word));
      row.hidden = !shown;
      if (shown) visible.add(row.dataset.node);
    }
    for (const article of articles) article.hidden = !visible.has(article.dataset.node);
    count.textContent = visible.size + " of " + rows.length + (rows.length === 1 ? " node" : " nodes");
  }

  function value(row, index) {
    const cell = row.cells[index];
    if (cell.classList.contains("cell")) return rank.findIndex((name) => cell.classList.contains(name));
    if (cell.classList.contains("number")) return cell.textContent.trim() === "" ? -1 : Number(cell.textContent);
    return cell.textContent.trim();
  }

  function sort(head) {
    const down = head.getAttribute("aria-sort") === "ascending" ||
      (!head.hasAttribute("aria-sort") && head.dataset.first === "descending");
    for (const other of document.querySelectorAll(".nodes thead th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const compare = new Intl.Collator(undefined, { numeric: true }).compare;
    const keys = new Map(rows.map((row) => [row, value(row, head.cellIndex)]));
    rows.sort((first, second) => {
      const [a, b] = [keys.get(first), keys.get(second)];
      const order = typeof a === "number" ? a - b : compare(a, b);
      return (down ? -order : order) || compare(first.dataset.node, second.dataset.node);
    });
    document.querySelector(".nodes tbody").append(...rows);
  }

  input.addEventListener("input", filter);
  for (const tile of tiles) {
    tile.addEventListener("click", () => {
      verdict = tile.value === verdict ? "" : tile.value;
      for (const other of tiles) other.setAttribute("aria-pressed", String(verdict !== "" && other.value === verdict));
      filter();
    });
  }
  for (const button of document.querySelectorAll(".nodes thead button")) {
    button.addEventListener("click", () => sort(button.parentElement));
  }
  document.querySelector(".find").hidden = false;
  filter();
})();
