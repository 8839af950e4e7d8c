// What differs between two texts, line by line.

const COMPARED_CELLS = 9000000;

// Returns [mark, text] pairs; mark is " ", "-" or "+".
function compareLines(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const left = a.slice(head, a.length - tail), right = b.slice(head, b.length - tail);
  const middle = left.length * right.length > COMPARED_CELLS
    ? [...left.map((line) => ["-", line]), ...right.map((line) => ["+", line])] : align(left, right);
  return [...a.slice(0, head).map((line) => [" ", line]), ...middle, ...a.slice(a.length - tail).map((line) => [" ", line])];
}

// The longest common subsequence, by dynamic programming over what head and tail left over.
function align(a, b) {
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const found = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push([" ", a[i]]); i++; j++; }
    else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}

function differenceView(before, after, context = 4) {
  const lines = compareLines(before, after);
  const view = element("div", { class: "difference", role: "figure" });
  const near = new Uint8Array(lines.length);
  lines.forEach(([mark], at) => { if (mark !== " ") near.fill(1, Math.max(0, at - context), at + context + 1); });
  if (!near.some(Boolean)) { view.append(element("div", { class: "gap" }, "nothing differs")); return view; }
  let at = 0;
  while (at < lines.length) {
    if (near[at]) {
      const [mark, text] = lines[at++];
      view.append(element("div", { class: mark === "+" ? "add" : mark === "-" ? "del" : "" }, `${mark} ${text}`));
      continue;
    }
    const start = at;
    while (at < lines.length && !near[at]) at++;
    const hidden = lines.slice(start, at);
    const gap = element("div", { class: "gap", role: "button", tabindex: "0" }, `⋯ ${hidden.length} equal lines`);
    const open = () => gap.replaceWith(...hidden.map(([, text]) => element("div", {}, `  ${text}`)));
    gap.addEventListener("click", open);
    gap.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
    view.append(gap);
  }
  return view;
}
