// Where the data comes from: blocks in the page, or the server that the page came from.

const FIELDS = ["number", "parent", "name", "kind", "start", "duration", "status", "tokensIn", "tokensOut", "value", "error", "plumbing", "cost"];
const inPage = document.getElementById("overview") !== null;
const blocks = new Map();
let blockRuns = 1;

async function unpack(id) {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function fetchJson(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function loadOverview() {
  const found = inPage ? await unpack("overview") : await fetchJson("/overview");
  blockRuns = found.block;
  found.runs = found.runs.map((values) => Object.fromEntries(FIELDS.map((name, at) => [name, values[at]])));
  return found;
}

// One run as it is stored; a block keeps being unpacked for the runs beside it.
async function stored(number) {
  if (!inPage) return fetchJson(`/run/${number}`);
  const block = Math.floor((number - 1) / blockRuns);
  if (!blocks.has(block)) {
    if (blocks.size > 24) blocks.delete(blocks.keys().next().value);
    blocks.set(block, unpack(`block-${block}`));
  }
  return (await blocks.get(block))[number];
}

// One run with the values that it shares with earlier runs put back in.
async function loadRun(number) {
  const run = await stored(number);
  if (!run) return null;
  const whole = { ...run };
  for (const part of ["inputs", "outputs"]) {
    if (!run[part] || typeof run[part] !== "object" || Array.isArray(run[part])) continue;
    whole[part] = { ...run[part] };
    for (const [key, value] of Object.entries(run[part])) {
      if (!value || !value.$same) continue;
      const [where, otherPart, otherKey] = value.$same;
      whole[part][key] = (await stored(where))[otherPart][otherKey];
    }
  }
  return whole;
}

// Numbers of the runs that hold the text anywhere; progress is told after each run.
async function searchEverything(runs, wanted, progress, stopped) {
  if (!inPage) {
    const shown = new Set(runs.map((run) => run.number));
    return new Set((await fetchJson(`/search?text=${encodeURIComponent(wanted)}`)).filter((number) => shown.has(number)));
  }
  const found = new Set();
  const needle = JSON.stringify(wanted).slice(1, -1).toLowerCase();
  for (let at = 0; at < runs.length && !stopped(); at++) {
    const run = await stored(runs[at].number);
    if (run && JSON.stringify([run.inputs, run.outputs, run.error]).toLowerCase().includes(needle)) found.add(runs[at].number);
    if (at % 50 === 0) progress(at / runs.length);
  }
  return found;
}
