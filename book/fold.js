// Copies the titles of a table's columns into its cells, so that `style.css` can show each row as a block.
for (const table of document.querySelectorAll(".content table")) {
  const titles = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
  for (const row of table.querySelectorAll("tbody tr")) {
    [...row.cells].forEach((cell, column) => { cell.dataset.title = titles[column] ?? ""; });
  }
  table.classList.add("folds");
}
