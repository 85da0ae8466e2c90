// Tabs of programs in several languages, buttons that copy, tables that stack on a phone, and the API's routes in the
// search. Without this script every program is shown, one below the other.
"use strict";

function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function choose(language) {
  localStorage.setItem("linguagem", language);
  for (const bar of document.querySelectorAll(".languages")) {
    const buttons = [...bar.children];
    if (!buttons.some((button) => button.textContent === language)) continue;
    for (const button of buttons) {
      button.ariaPressed = String(button.textContent === language);
      button.program.hidden = button.textContent !== language;
    }
  }
}

function addTabs(first) {
  const programs = [];
  for (let next = first; next?.matches(".literal-block-wrapper"); next = next.nextElementSibling) programs.push(next);
  if (programs.length < 2 || first.previousElementSibling?.matches(".literal-block-wrapper")) return;
  const buttons = programs.map((program) => {
    const language = program.querySelector(".caption-text").textContent;
    program.querySelector(".code-block-caption").hidden = true;
    return make("button", { type: "button", textContent: language, program, onclick: () => choose(language) });
  });
  first.before(make("div", { className: "languages", role: "group", ariaLabel: "Linguagem" }, ...buttons));
  choose(buttons[0].textContent);
}

function addCopyButton(block) {
  const button = make("button", { type: "button", className: "copy", textContent: "Copiar" });
  button.onclick = async () => {
    await navigator.clipboard.writeText(block.querySelector("pre").textContent);
    button.textContent = "Copiado";
    setTimeout(() => (button.textContent = "Copiar"), 2000);
  };
  block.prepend(button);
}

// Stack the table on a phone, and always if it has more columns than a page is wide. A stacked table is no table to a
// browser, so that its parts need roles.
function stack(table) {
  const phone = matchMedia("(max-width: 46em)"), isWide = table.tHead.rows[0].cells.length > 5;
  const follow = () => table.classList.toggle("stacked", isWide || phone.matches);
  phone.addEventListener("change", follow);
  follow();
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  table.role = "table";
  for (const row of table.rows) {
    row.role = "row";
    [...row.cells].forEach((cell, index) => {
      cell.role = cell.tagName === "TH" ? "columnheader" : "cell";
      cell.dataset.label = heads[index];
    });
  }
}

function folded(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

function routesWith(words, schema) {
  const routes = Object.entries(schema.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
  const events = Object.entries(schema.webhooks).map(([name, { post }]) => ({ name, operation: post }));
  const found = [...routes, ...events].filter(({ name, operation }) => {
    const text = folded(name + JSON.stringify(operation));
    return operation.operationId && words.every((word) => text.includes(word));
  });
  const isTitled = ({ name, operation }) => words.every((word) => folded(name + operation.summary).includes(word));
  return [...found.filter(isTitled), ...found.filter((each) => !isTitled(each))].slice(0, 10);
}

async function searchReference(results, words) {
  const schema = await (await fetch("/schema/?format=json")).json();
  const items = routesWith(words, schema).map(({ name, operation }) => {
    const link = make("a", { href: `/docs/#operation/${operation.operationId}`, textContent: name });
    return make("li", {}, link, make("p", { textContent: operation.summary }));
  });
  if (items.length === 0) return;
  results.after(
    make("h2", { textContent: "Na referência da API" }),
    make("ul", { className: "search", id: "reference-results" }, ...items),
  );
}

addEventListener("DOMContentLoaded", () => {
  const stored = localStorage.getItem("linguagem");
  document.querySelectorAll(".literal-block-wrapper").forEach(addTabs);
  if (stored) choose(stored);
  if (navigator.clipboard) document.querySelectorAll(".highlight").forEach(addCopyButton);
  document.querySelectorAll("table.docutils").forEach((table) => table.tHead && stack(table));
  const results = document.querySelector("#search-results");
  const words = folded(new URLSearchParams(location.search).get("q") ?? "").split(/\s+/).filter(Boolean);
  if (results && words.length) searchReference(results, words);
});
