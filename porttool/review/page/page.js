"use strict";

// Everything on the page is there without this script; it adds keys, the filter, the folds, and
// the ticks of what was reviewed.
const items = [...document.querySelectorAll("details.item")];
const filter = document.getElementById("filter");
const matches = document.getElementById("matches");
const keys = document.getElementById("keys");
const listen = document.getElementById("listen");
const texts = new Map();

function shownItems() {
  return items.filter((item) => !item.hidden);
}

function current() {
  return document.activeElement?.closest?.("details.item") ?? null;
}

// Without a place that has the focus, the next one is the first below the top of the window.
function step(by) {
  const shown = shownItems();
  if (!shown.length) return;
  const here = current();
  let index = shown.indexOf(here) + by;
  if (!here || here.hidden) {
    const below = shown.findIndex((item) => item.getBoundingClientRect().top > 0);
    index = by > 0 ? (below < 0 ? shown.length - 1 : below) : (below < 0 ? shown.length : below) - 1;
  }
  const target = shown[Math.min(Math.max(index, 0), shown.length - 1)];
  const summary = target.querySelector("summary");
  summary.focus({ preventScroll: true });
  summary.scrollIntoView({ block: "nearest" });
}

function foldAll(open) {
  for (const item of shownItems()) item.open = open;
}

// -- the filter ---------------------------------------------------------------------------------

function textOf(item) {
  if (!texts.has(item)) {
    const file = item.closest(".file")?.querySelector("h3")?.textContent ?? "";
    texts.set(item, `${file} ${item.textContent}`.toLowerCase());
  }
  return texts.get(item);
}

// Every word has to be in an item for it to stay; a part without any of its items left goes too.
function applyFilter() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of items) item.hidden = !words.every((word) => textOf(item).includes(word));
  for (const group of document.querySelectorAll("section.file")) {
    group.hidden = !group.querySelector("details.item:not([hidden])");
  }
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = words.length > 0 && !section.querySelector("details.item:not([hidden])");
  }
  matches.textContent = words.length ? `${shownItems().length} of ${items.length}` : "";
}

function clearFilter() {
  filter.value = "";
  applyFilter();
}

function openTarget() {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id && document.getElementById(id);
  if (!target) return;
  if (target.closest("[hidden]")) clearFilter();
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  target.scrollIntoView();
  if (target.matches("details")) target.querySelector("summary").focus({ preventScroll: true });
}

// -- what was reviewed --------------------------------------------------------------------------

// A browser may keep nothing, for a file least of all: then it is known until the page is closed.
const kept = {
  read: (name) => {
    try {
      return JSON.parse(localStorage.getItem(`porttool ${name}`));
    } catch {
      return null;
    }
  },
  write: (name, value) => {
    try {
      localStorage.setItem(`porttool ${name}`, JSON.stringify(value));
    } catch {
      // the ticks stay on the page all the same
    }
  },
};
const report = document.getElementById("main").dataset.report;
const stored = kept.read(report);
const reviewed = new Set(Array.isArray(stored) ? stored : []);

function showReviewed(item) {
  const is = reviewed.has(item.id);
  item.toggleAttribute("data-read", is);
  const box = item.querySelector(".key input");
  if (box) box.checked = is;
}

function countReviewed() {
  const known = items.filter((item) => reviewed.has(item.id)).length;
  document.getElementById("reviewed").textContent = known
    ? `${known} of ${items.length} reviewed`
    : "";
}

function review(item, is) {
  if (is) reviewed.add(item.id);
  else reviewed.delete(item.id);
  kept.write(report, [...reviewed]);
  showReviewed(item);
  countReviewed();
  if (!is) return;
  item.querySelector("summary").focus();
  item.open = false;
  step(1);
}

// A box stands in what is unfolded only: 2,000 of them would cost more than they are worth.
function addBox(item) {
  if (!item.open || item.querySelector(".key input")) return;
  const box = document.createElement("input");
  box.type = "checkbox";
  box.addEventListener("change", () => review(item, box.checked));
  const label = document.createElement("label");
  label.append(box, "Reviewed");
  let line = item.querySelector(".key");
  if (!line) {
    line = document.createElement("p");
    line.className = "key";
    item.querySelector(".body").append(line);
  }
  line.append(label);
  showReviewed(item);
}

items.forEach(addBox);
for (const id of reviewed) {
  const item = document.getElementById(id);
  if (item?.matches("details.item")) {
    showReviewed(item);
    item.open = false;
  }
}
countReviewed();
document.addEventListener(
  "toggle",
  (event) => {
    if (event.target.matches("details.item")) addBox(event.target);
  },
  true,
);

// -- keys and buttons ---------------------------------------------------------------------------

const actions = {
  j: () => step(1),
  n: () => step(1),
  k: () => step(-1),
  p: () => step(-1),
  o: () => {
    const item = current();
    if (item) item.open = !item.open;
  },
  x: () => {
    const item = current();
    if (item) review(item, !reviewed.has(item.id));
    else step(1);
  },
  e: () => foldAll(true),
  c: () => foldAll(false),
  "/": () => filter.focus(),
  "?": () => keys.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (event.target === filter) {
    if (event.key === "Escape") {
      clearFilter();
      filter.blur();
    }
    return;
  }
  const action = listen.checked && actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// Whoever speaks to a computer, or reads by ear, has other uses for single letters.
listen.checked = kept.read("keys") ?? true;
listen.addEventListener("change", () => kept.write("keys", listen.checked));
filter.addEventListener("input", applyFilter);
document.getElementById("unfold").addEventListener("click", () => foldAll(true));
document.getElementById("fold").addEventListener("click", () => foldAll(false));
document.getElementById("help").addEventListener("click", () => keys.showModal());
document.getElementById("close").addEventListener("click", () => keys.close());
window.addEventListener("hashchange", openTarget);

// -- paper, and where the reader is -------------------------------------------------------------

// Paper does not fold: everything is open while it prints, and as it was afterwards.
let folded = [];
window.addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const fold of folded) fold.open = true;
});
window.addEventListener("afterprint", () => {
  for (const fold of folded) fold.open = false;
});

const links = new Map();
for (const anchor of document.querySelectorAll("nav a")) {
  links.set(document.getElementById(anchor.hash.slice(1)), anchor);
}
const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const anchor of links.values()) anchor.removeAttribute("aria-current");
      links.get(entry.target)?.setAttribute("aria-current", "true");
    }
  },
  { rootMargin: "0px 0px -75% 0px" },
);
for (const section of links.keys()) if (section) seen.observe(section);

// The browser goes to the anchor by itself as well, and takes the focus away when it does.
window.addEventListener("load", openTarget);
