// One run in full: messages for a model's call, named values for everything else.

const detailPane = document.getElementById("detail");
// While a key is held down, runs that are only passed are not loaded.
const HELD_KEY_MS = 60;
let shown = 0;
let raw = false;

function statusClass(status) {
  return status === "success" || status === "passed" ? "good" : status === "unfinished" ? "wait" : "bad";
}

async function showRun(run, open) {
  shown = run.number;
  const overviewRows = runHead(run);
  detailPane.replaceChildren(...overviewRows, element("p", { class: "facts" }, "…"));
  if (open) document.body.classList.add("opened");
  else {
    await new Promise((done) => setTimeout(done, HELD_KEY_MS));
    if (shown !== run.number) return;
  }
  let whole;
  try { whole = await loadRun(run.number); } catch (error) { whole = { failure: String(error) }; }
  if (shown !== run.number) return; // another one was picked meanwhile
  detailPane.replaceChildren(...overviewRows, ...runBody(run, whole));
  detailPane.scrollTop = 0;
}

function runHead(run) {
  const facts = [`#${run.number}`, run.kind, durationText(run.duration), `from ${durationText(run.start)}`];
  if (run.tokensIn || run.tokensOut) facts.push(`${run.tokensIn || 0} tokens in, ${run.tokensOut || 0} out`);
  if (run.cost) facts.push(run.cost);
  return [
    element("button", { class: "back", onclick: closeDetail }, "← Tree"),
    element("h2", {}, run.name),
    element("p", { class: "facts" }, element("span", { class: statusClass(run.status) }, run.status), ...facts.map((fact) => element("span", {}, fact))),
    run.value && run.kind !== "llm" ? element("p", {}, run.value) : "",
  ].filter(Boolean);
}

function closeDetail() {
  document.body.classList.remove("opened");
  treePane.focus();
}

function runBody(run, whole) {
  if (!whole || whole.failure) return [element("p", { class: "bad" }, whole ? whole.failure : "this run cannot be read")];
  const parts = [];
  if (whole.error) parts.push(element("h3", { class: "bad" }, "Error"), element("pre", { class: "error" }, asText(whole.error)));
  const inputs = whole.inputs || {}, outputs = whole.outputs || {};
  if (Array.isArray(inputs.messages) && run.kind === "llm") {
    parts.push(rawSwitch(run), element("h3", {}, "Prompt"), ...inputs.messages.map(([role, text]) => message(role, text)));
  } else parts.push(element("h3", {}, "Inputs"), ...values(inputs));
  if (typeof outputs.answer === "string" && run.kind === "llm") parts.push(element("h3", {}, "Answer"), message("assistant", outputs.answer));
  else if (run.status !== "unfinished") parts.push(element("h3", {}, "Outputs"), ...values(outputs.output && Object.keys(outputs).length === 1 && typeof outputs.output === "object" ? outputs.output : outputs));
  parts.push(element("details", {}, element("summary", {}, "About this run"), element("div", { class: "body" }, pairs({ id: whole.id, start: whole.start, tags: (whole.tags || []).join(", "), ...whole.metadata }))));
  return parts;
}

function rawSwitch(run) {
  const button = element("button", { "aria-pressed": raw }, "Raw text");
  button.addEventListener("click", () => { raw = !raw; showRun(run, false); });
  return element("div", { class: "tools" }, button);
}

function copyButton(text) {
  return element("button", { onclick: (event) => navigator.clipboard?.writeText(text).then(() => { event.target.textContent = "Copied"; }) }, "Copy");
}

function message(role, text) {
  const body = raw ? element("pre", {}, text) : markdown(text);
  return element("article", { class: `message ${role}` }, element("header", {}, role), body, element("div", { class: "tools" }, copyButton(text)));
}

// Small values as a table, large ones below it, each with its own fold.
function values(object) {
  if (!object || typeof object !== "object") return [element("pre", {}, asText(object))];
  const small = {}, large = [];
  for (const [key, value] of Object.entries(object)) {
    if (value == null || value === "" || (Array.isArray(value) && !value.length)) continue;
    if (typeof value === "object" || String(value).length > 120 || String(value).includes("\n")) large.push([key, value]);
    else small[key] = value;
  }
  const parts = Object.keys(small).length ? [pairs(small)] : [];
  const firstOpen = large.length <= 3;
  parts.push(...large.map(([key, value]) => section(key, value, firstOpen)));
  return parts.length ? parts : [element("p", { class: "facts" }, "nothing")];
}

function pairs(object) {
  const rows = Object.entries(object).map(([key, value]) => element("tr", {}, element("th", {}, key), element("td", {}, asText(value))));
  return element("table", { class: "pairs" }, element("tbody", {}, ...rows));
}

function section(key, value, open) {
  const body = element("div", { class: "body" });
  const fold = element("details", { open }, element("summary", {}, key, element("small", {}, sizeText(value))), body);
  const fill = () => { if (!body.hasChildNodes()) body.append(valueView(key, value)); };
  fold.addEventListener("toggle", () => { if (fold.open) fill(); });
  if (open) fill();
  return fold;
}

function sizeText(value) {
  if (value && value.$cut !== undefined) return "cut; serve the page to see it whole";
  if (typeof value === "string") return `${value.split("\n").length} lines`;
  return Array.isArray(value) ? `${value.length} entries` : (value.status || value.summary || value.kind || "");
}

function valueView(key, value) {
  const into = document.createDocumentFragment();
  if (value && value.$cut !== undefined) into.append(element("p", { class: "wait" }, `The first 2,000 of ${value.chars} characters:`), element("pre", {}, value.$cut));
  else if (typeof value === "string") {
    const parsed = jsonIn(value);
    if (parsed) return valueView(key, parsed);
    into.append(element("div", { class: "tools" }, copyButton(value)), codeBlock(value, guessLanguage(key, value)));
  } else if (Array.isArray(value) && value.some((one) => one && typeof one === "object")) {
    value.forEach((one, at) => into.append(section(entryName(one, at), one, value.length <= 2)));
  } else if (Array.isArray(value)) into.append(element("ul", {}, ...value.map((one) => element("li", {}, asText(one)))));
  else into.append(...values(value));
  return into;
}

function entryName(one, at) {
  if (!one || typeof one !== "object") return asText(one);
  const fields = one.kwargs || one;
  const name = fields.title || fields.name || fields.trial || fields.rule || fields.source || fields.metadata?.citation || fields.id || fields.candidate_id || at;
  return `${String(name).slice(0, 100)}${fields.ok === false ? " ✗" : fields.ok === true ? " ✓" : ""}`;
}

function jsonIn(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try { const found = JSON.parse(text); return typeof found === "object" ? found : null; } catch { return null; }
}

function asText(value) { return typeof value === "string" ? value : JSON.stringify(value, null, 2); }
