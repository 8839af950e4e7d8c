// Start, keys, search, views.

const searchBox = document.getElementById("search");
const foundText = document.getElementById("found");
let searches = 0;

function setView(name) {
  for (const pane of ["trace", "attempts"]) document.getElementById(pane).hidden = pane !== name;
  for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", button.dataset.view === name);
  if (name === "trace") { layOut(); treePane.focus(); } else { attemptsPane.setAttribute("tabindex", "0"); attemptsPane.focus(); }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("theme", name); } catch { /* a page from a file may have no storage */ }
}

function switchTheme() { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); }

function wordsOf(run) { return (run.words ??= `${run.name} ${run.value} ${run.error} ${run.kind}`.toLowerCase()); }

// The first letter of a search should not wait for tens of thousands of these.
async function prepareWords(runs) {
  for (let at = 0; at < runs.length && runs === state.runs; at++) {
    wordsOf(runs[at]);
    if (at % 2000 === 1999) await new Promise((done) => setTimeout(done, 20));
  }
}

function search() {
  searches++;
  state.wanted = searchBox.value.trim().toLowerCase();
  if (!state.wanted) { state.matches = null; foundText.textContent = ""; layOut(); return; }
  state.matches = new Set();
  for (const run of state.runs) {
    if ((!run.plumbing || state.plumbing) && wordsOf(run).includes(state.wanted)) state.matches.add(run.number);
  }
  foundText.textContent = `${state.matches.size} found`;
  layOut();
  treePane.scrollTop = 0;
}

async function searchDeeply() {
  search();
  if (!state.wanted) return;
  const mine = ++searches;
  const shownRuns = state.runs.filter((run) => !run.plumbing || state.plumbing);
  const deep = await searchEverything(shownRuns, state.wanted, (share) => { foundText.textContent = `${Math.round(100 * share)} %`; }, () => mine !== searches);
  if (mine !== searches) return;
  state.matches = new Set([...state.matches, ...deep]);
  foundText.textContent = `${state.matches.size} found in everything`;
  layOut();
  moveTo((run) => state.matches.has(run.number), 1);
}

function onTree(key) {
  const run = state.byNumber.get(state.picked);
  switch (key) {
    case "ArrowDown": case "j": move(1); return true;
    case "ArrowUp": case "k": move(-1); return true;
    case "Home": if (state.visible.length) pick(state.visible[0].number, false); return true;
    case "End": if (state.visible.length) pick(state.visible[state.visible.length - 1].number, false); return true;
    case "PageDown": move(Math.floor(treePane.clientHeight / rowHeight())); return true;
    case "PageUp": move(-Math.floor(treePane.clientHeight / rowHeight())); return true;
    case "ArrowRight":
      if (run && state.folded.has(run.number)) toggleFold(run, false);
      else if (run && run.inner) move(1);
      return true;
    case "ArrowLeft":
      if (run && run.inner && !state.folded.has(run.number) && !state.matches) toggleFold(run, true);
      else if (run && shownParent(run)) pick(shownParent(run).number, false);
      return true;
    case "Enter": if (run) { showRun(run, true); detailPane.focus(); } return true;
    case "*": foldAll(false); return true;
    case "-": foldAll(true); return true;
    default: return false;
  }
}

function onAnywhere(key) {
  switch (key) {
    case "/": searchBox.focus(); searchBox.select(); return true;
    case "n": moveTo((run) => !state.matches || state.matches.has(run.number), 1); return true;
    case "N": moveTo((run) => !state.matches || state.matches.has(run.number), -1); return true;
    case "e": moveTo((run) => run.status === "error", 1); return true;
    case "p": showPlumbing(!state.plumbing); if (state.wanted) search(); else layOut(); return true;
    case "a": setView(attemptsPane.hidden ? "attempts" : "trace"); return true;
    case "t": switchTheme(); return true;
    case "?": document.getElementById("keys").showModal(); return true;
    case "Escape": closeDetail(); return true;
    default: return false;
  }
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("keys").open) return;
  if (event.target === searchBox) {
    if (event.key === "Enter") searchDeeply();
    else if (event.key === "Escape") { searchBox.value = ""; search(); treePane.focus(); }
    else if (event.key === "ArrowDown") treePane.focus();
    else return;
    event.preventDefault();
    return;
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const inTree = event.target === treePane || event.target === document.body;
  if ((inTree && attemptsPane.hidden && onTree(event.key)) || onAnywhere(event.key)) event.preventDefault();
});
searchBox.addEventListener("input", search);
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => setView(button.dataset.view));

document.getElementById("splitter").addEventListener("pointerdown", (event) => {
  const splitter = event.target;
  splitter.setPointerCapture(event.pointerId);
  const drag = (moved) => { treePane.style.flexBasis = `${Math.max(15, Math.min(85, (100 * moved.clientX) / innerWidth))}%`; };
  splitter.addEventListener("pointermove", drag);
  splitter.addEventListener("pointerup", () => { splitter.removeEventListener("pointermove", drag); layOut(); }, { once: true });
});

function showFacts(found) {
  const run = found.run;
  const finished = run.status === "unfinished" ? "not finished" : run.status;
  document.title = `${run.problem} · StitchCUDA trace`;
  document.getElementById("title").textContent = run.problem;
  const facts = [finished, run.speedup == null ? "" : ratioText(run.speedup), run.device, run.stop_reason, `${found.runs.length} runs`, durationText(state.total), run.cost || "",
    run.input_tokens || run.output_tokens ? `${run.input_tokens}→${run.output_tokens} tokens` : ""];
  document.getElementById("facts").textContent = facts.filter(Boolean).join(" · ");
}

function take(found) {
  setRuns(found.runs);
  setAttempts(found.attempts);
  showFacts(found);
}

// A served page follows a run that is still going.
async function follow(found) {
  let pause = 2000;
  while (found.runs.some((run) => run.status === "unfinished")) {
    await new Promise((done) => setTimeout(done, pause));
    const began = performance.now();
    try { found = await loadOverview(); } catch { continue; }
    pause = Math.max(2000, 10 * (performance.now() - began));
    take(found);
  }
}

async function start() {
  let theme = null;
  try { theme = localStorage.getItem("theme"); } catch { /* no storage */ }
  setTheme(theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  const found = await loadOverview();
  take(found);
  const wanted = Number(location.hash.slice(1));
  if (state.byNumber.has(wanted)) pick(wanted, true);
  else if (state.visible.length) pick(state.visible[0].number, false);
  treePane.focus();
  prepareWords(state.runs);
  if (!inPage) follow(found);
  document.body.dataset.ready = "yes";
}

start().catch((error) => { document.getElementById("facts").textContent = `This page cannot be shown: ${error}`; });
