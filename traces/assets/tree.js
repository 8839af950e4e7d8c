// The tree with its waterfall. Only the rows in view exist: a trace may have tens of thousands of runs.

const treePane = document.getElementById("tree");
const canvas = document.getElementById("canvas");
const state = {
  runs: [], byNumber: new Map(), children: new Map(), visible: [], folded: new Set(), picked: 0,
  plumbing: false, matches: null, wanted: "", total: 1,
};

function rowHeight() { return matchMedia("(max-width: 760px)").matches ? 34 : 26; }

function durationText(ms) {
  if (ms == null) return "unfinished";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 120000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60000).toFixed(1)} min`;
}

// The shown children of each run, kept until the runs or what is hidden change.
const shownChildren = new Map();
const NONE = [];

function setRuns(runs) {
  shownChildren.clear();
  state.runs = runs;
  state.byNumber = new Map(runs.map((run) => [run.number, run]));
  state.children = new Map();
  for (const run of runs) {
    const parent = state.byNumber.has(run.parent) && run.parent !== run.number ? run.parent : 0;
    if (!state.children.has(parent)) state.children.set(parent, []);
    state.children.get(parent).push(run);
  }
  state.total = runs.reduce((most, run) => Math.max(most, run.start + (run.duration || 0)), 1);
  layOut();
}

// The children that are shown: those of a hidden run take its place.
function childrenOf(number) {
  if (!state.children.has(number)) return NONE;
  let found = shownChildren.get(number);
  if (found) return found;
  const own = state.children.get(number);
  if (state.plumbing || !own.some((run) => run.plumbing)) return own;
  found = [];
  const waiting = [...own].reverse();
  while (waiting.length) {
    const run = waiting.pop();
    if (run.plumbing && !state.plumbing) waiting.push(...[...(state.children.get(run.number) || NONE)].reverse());
    else found.push(run);
  }
  shownChildren.set(number, found);
  return found;
}

function showPlumbing(shown) {
  state.plumbing = shown;
  shownChildren.clear();
}

function shownParent(run) {
  let parent = state.byNumber.get(run.parent);
  while (parent && parent.plumbing && !state.plumbing) parent = state.byNumber.get(parent.parent);
  return parent;
}

// While searching, only matches and what leads to them are shown: they bear the stamp of the layout.
let stamps = 0;
function layOut() {
  let stamp = 0;
  if (state.matches) {
    stamp = ++stamps;
    for (const number of state.matches)
      for (let run = state.byNumber.get(number); run && run.stamp !== stamp; run = state.byNumber.get(run.parent)) run.stamp = stamp;
  }
  state.visible = rowsBelow(0, 0, stamp);
  settle(0);
}

// The rows below a run, as they are shown when it is open.
function rowsBelow(number, depth, stamp) {
  const found = [];
  const stack = [];
  const add = (parent, at) => {
    const inner = childrenOf(parent);
    for (let last = inner.length - 1; last >= 0; last--) {
      if (stamp && inner[last].stamp !== stamp) continue;
      inner[last].depth = at;
      stack.push(inner[last]);
    }
  };
  add(number, depth);
  while (stack.length) {
    const run = stack.pop();
    run.inner = childrenOf(run.number).length;
    found.push(run);
    if (run.inner && (stamp || !state.folded.has(run.number))) add(run.number, run.depth + 1);
  }
  return found;
}

// Rows from `first` on have moved.
function settle(first) {
  for (let at = first; at < state.visible.length; at++) state.visible[at].at = at;
  canvas.style.height = `${state.visible.length * rowHeight()}px`;
  drawRows();
}

function drawRows() {
  const height = rowHeight();
  const first = Math.max(0, Math.floor(treePane.scrollTop / height) - 8);
  const last = Math.min(state.visible.length, first + Math.ceil(treePane.clientHeight / height) + 16);
  canvas.replaceChildren(...state.visible.slice(first, last).map((run, at) => drawRow(run, (first + at) * height)));
}

function drawRow(run, top) {
  const folded = state.folded.has(run.number) && !state.matches;
  const duration = run.duration ?? Math.max(0, state.total - run.start);
  const bar = element("i", { class: run.kind });
  bar.style.left = `${(100 * run.start) / state.total}%`;
  bar.style.width = `${(100 * duration) / state.total}%`;
  const fold = element("button", { class: "fold", tabindex: "-1", "aria-hidden": "true" }, run.inner ? (folded ? "▸" : "▾") : "");
  const tokens = (run.tokensIn || run.tokensOut ? `${run.tokensIn || 0}→${run.tokensOut || 0} tokens  ` : "") + (run.cost ? `${run.cost}  ` : "");
  const row = element("div", {
    class: `row ${run.status}${run.number === state.picked ? " picked" : ""}`, role: "treeitem", "data-number": run.number,
    "aria-level": run.depth + 1, "aria-selected": run.number === state.picked, "aria-expanded": run.inner ? !folded : null,
    title: `#${run.number} ${run.name}: ${run.error || run.value}`,
  },
  element("span", { class: "name" }, fold, element("span", { class: `kind ${run.kind}` }),
    element("span", { class: "label" }, ...marked(run.name)),
    element("span", { class: "value" }, tokens, ...marked(run.error || run.value))),
  element("span", { class: "lane" }, bar),
  element("span", { class: "time" }, durationText(run.duration)));
  row.firstChild.style.paddingLeft = `${6 + Math.min(run.depth, 24) * 14}px`;
  row.style.top = `${top}px`;
  fold.addEventListener("click", (event) => { event.stopPropagation(); toggleFold(run); });
  row.addEventListener("click", () => pick(run.number, true));
  return row;
}

function marked(text) {
  if (!state.wanted) return [text];
  const at = text.toLowerCase().indexOf(state.wanted);
  if (at < 0) return [text];
  const end = at + state.wanted.length;
  return [text.slice(0, at), element("mark", {}, text.slice(at, end)), text.slice(end)];
}

// Only the rows below the run come or go; a long trace is not laid out anew.
function toggleFold(run, want) {
  if (!run.inner || state.matches) return;
  const folded = state.folded.has(run.number);
  if (want === folded) return;
  if (folded) state.folded.delete(run.number); else state.folded.add(run.number);
  if (state.visible[run.at] !== run) { layOut(); return; }
  const from = run.at + 1;
  let end = from;
  while (end < state.visible.length && state.visible[end].depth > run.depth) end++;
  const below = folded ? rowsBelow(run.number, run.depth + 1, 0) : NONE;
  state.visible = state.visible.slice(0, from).concat(below, state.visible.slice(end));
  settle(run.at);
}

function foldAll(fold) {
  state.folded = new Set(fold ? state.runs.filter((run) => state.children.has(run.number)).map((run) => run.number) : []);
  layOut();
}

function pick(number, open) {
  const run = state.byNumber.get(number);
  if (!run) return;
  let opened = state.visible[run.at] !== run;
  for (let parent = shownParent(run); parent; parent = shownParent(parent)) opened = state.folded.delete(parent.number) || opened;
  state.picked = number;
  if (opened) layOut();
  const height = rowHeight(), top = run.at * height;
  if (top < treePane.scrollTop) treePane.scrollTop = top;
  else if (top + height > treePane.scrollTop + treePane.clientHeight) treePane.scrollTop = top + height - treePane.clientHeight;
  drawRows();
  rememberPlace();
  showRun(run, open);
}

// Browsers refuse an address that changes with every key that is held down.
let placeTimer = 0;
function rememberPlace() {
  clearTimeout(placeTimer);
  placeTimer = setTimeout(() => history.replaceState(null, "", `#${state.picked}`), 200);
}

function move(step) {
  const run = state.byNumber.get(state.picked);
  const at = run && state.visible[run.at] === run ? run.at + step : 0;
  const next = state.visible[Math.max(0, Math.min(state.visible.length - 1, at))];
  if (next) pick(next.number, false);
}

function moveTo(fits, step) {
  const count = state.visible.length;
  const run = state.byNumber.get(state.picked);
  const from = run && state.visible[run.at] === run ? run.at : -1;
  for (let tried = 1; tried <= count; tried++) {
    const next = state.visible[(((from + step * tried) % count) + count) % count];
    if (fits(next)) { pick(next.number, false); return; }
  }
}

treePane.addEventListener("scroll", drawRows, { passive: true });
addEventListener("resize", () => layOut());
