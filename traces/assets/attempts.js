// The attempts side by side: verdict of each stage, code, and what differs from another attempt.

const attemptsPane = document.getElementById("attempts");
const chosen = { a: 0, b: 0, part: "code" };

function setAttempts(attempts) {
  state.attempts = attempts;
  if (!attempts.some((one) => one.candidate_id === chosen.b)) {
    chosen.b = attempts.length ? attempts[attempts.length - 1].candidate_id : 0;
    chosen.a = attempts.length > 1 ? attempts[attempts.length - 2].candidate_id : 0;
  }
  drawAttempts();
}

function counted(number, noun) { return `${number} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`; }

function ratioText(value) { return value == null ? "–" : `${value.toFixed(2)}×`; }

function drawAttempts() {
  const attempts = state.attempts;
  if (!attempts.length) { attemptsPane.replaceChildren(element("p", {}, "No attempt in this trace.")); return; }
  const rows = attempts.map((one) => element("tr", { class: one.candidate_id === chosen.b ? "picked" : "", tabindex: "0", onclick: () => choose(one), onkeydown: (event) => { if (event.key === "Enter") choose(one); } },
    element("td", {}, String(one.candidate_id)), element("td", { class: statusClass(one.status) }, one.status),
    element("td", {}, ratioText(one.speedup)), element("td", {}, one.subtask), element("td", {}, one.evaluation.message || one.summary)));
  const head = element("tr", {}, ...["#", "status", "speed-up", "covers", "what"].map((text) => element("th", {}, text)));
  const one = attempts.find((attempt) => attempt.candidate_id === chosen.b) || attempts[attempts.length - 1];
  attemptsPane.replaceChildren(
    element("table", { class: "list" }, element("thead", {}, head), element("tbody", {}, ...rows)),
    element("h2", {}, `Attempt ${one.candidate_id}`),
    element("div", { class: "tools" },
      element("button", { onclick: () => goTo(one.run_number) }, "Coder in the trace"),
      one.verdict_number ? element("button", { onclick: () => goTo(one.verdict_number) }, "Verifier in the trace") : null,
      copyButton(one.source)),
    element("ul", { class: "stages" }, ...stages(one)),
    one.feedback.kind ? element("p", {}, element("b", {}, `${one.feedback.kind}: `), one.feedback.instruction || "") : "",
    ...comparison(one));
}

function choose(one) {
  chosen.b = one.candidate_id;
  const earlier = state.attempts.filter((attempt) => attempt.candidate_id < one.candidate_id);
  chosen.a = earlier.length ? earlier[earlier.length - 1].candidate_id : 0;
  drawAttempts();
}

function goTo(number) { setView("trace"); pick(number, true); }

function stages(one) {
  const { build, screen, check, timing, profile } = one.evaluation;
  const found = [];
  const add = (name, ok, text) => found.push(element("li", { class: ok ? "good" : "bad" }, element("b", {}, name), text));
  if (build) {
    const failed = (build.extensions || []).flatMap((extension) => extension.diagnostics || []).find((one) => one.severity === "error");
    add("build", build.ok, build.ok ? `${counted((build.extensions || []).length, "extension")}, ${build.seconds.toFixed(1)} s` : failed ? `line ${failed.line}: ${failed.message}` : build.error);
  }
  if (screen) {
    const block = (screen.findings || []).find((finding) => finding.severity === "block");
    add("screen", !block, block ? `${block.rule}: ${block.message}` : counted((screen.findings || []).length, "finding"));
  }
  if (check) {
    const wrong = (check.outputs || []).find((output) => !output.ok);
    add("check", check.ok, check.ok ? `${check.trials} trials, ${counted(check.own_kernel_launches ?? 0, "own kernel launch")}` : `${wrong ? `${wrong.trial} ${wrong.output}: ` : ""}${check.message}`);
  }
  if (timing && timing.baselines) add("time", (timing.baselines[0]?.speedup ?? 0) > 1, `${timing.candidate.median_ms.toPrecision(3)} ms; ${timing.baselines.map((base) => `${ratioText(base.speedup)} over ${base.name}`).join(", ")}`);
  if (profile) add("profile", true, (profile.rows || []).slice(0, 3).map((row) => `${Math.round(100 * row.share)} % ${row.name}`).join(", "));
  if (!found.length) found.push(element("li", {}, "no verdict in the trace"));
  return found;
}

function comparison(one) {
  const select = element("select", { "aria-label": "Compare with", onchange: (event) => { chosen.a = Number(event.target.value); drawAttempts(); } },
    element("option", { value: 0, selected: !chosen.a }, "nothing (show it whole)"),
    ...state.attempts.filter((other) => other !== one).map((other) =>
      element("option", { value: other.candidate_id, selected: other.candidate_id === chosen.a }, `attempt ${other.candidate_id} (${other.status})`)));
  const parts = ["code", "plan", "verdict"].map((part) => element("button", { "aria-pressed": chosen.part === part, onclick: () => { chosen.part = part; drawAttempts(); } }, part));
  const text = { code: (attempt) => attempt.source, plan: (attempt) => attempt.plan_text, verdict: (attempt) => attempt.verdict_text }[chosen.part];
  const other = state.attempts.find((attempt) => attempt.candidate_id === chosen.a);
  const view = other && other !== one ? differenceView(text(other), text(one)) : codeBlock(text(one), chosen.part === "code" ? "python" : "");
  return [element("div", { class: "tools" }, ...parts, element("label", {}, "compared with ", select)), view];
}
