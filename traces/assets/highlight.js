// Code, Markdown and JSON as DOM nodes. Text only ever enters through textContent: a trace may hold anything.

const WORDS = {
  python: "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield self",
  cuda: "__global__ __device__ __host__ __shared__ __constant__ __restrict__ __forceinline__ __launch_bounds__ alignas auto bool break case char class const constexpr continue default do double else enum extern false float for half if inline int int64_t uint32_t uint64_t long namespace nullptr operator private public return short signed sizeof size_t static static_cast reinterpret_cast struct switch template this true typedef typename union unsigned using virtual void volatile while threadIdx blockIdx blockDim gridDim",
  json: "true false null",
};
const KEYWORDS = Object.fromEntries(Object.entries(WORDS).map(([name, words]) => [name, new Set(words.split(" "))]));
const TOKENS = {
  python: /(#[^\n]*)|([rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(\b\d[\w.]*)|([A-Za-z_]\w*)/g,
  cuda: /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(\b\d[\w.]*)|([A-Za-z_]\w*)|(^[ \t]*#[^\n]*)/gm,
  json: /(\u0000)|("(?:\\.|[^"\\])*"?)|(-?\b\d[\d.eE+-]*)|([A-Za-z_]\w*)/g,
};
const HIGHLIGHT_LIMIT = 300000;

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) { if (value != null) made.setAttribute(name, String(value)); }
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function highlight(text, language) {
  const into = document.createDocumentFragment();
  const pattern = TOKENS[language];
  if (!pattern || text.length > HIGHLIGHT_LIMIT) { into.append(text); return into; }
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > at) into.append(text.slice(at, match.index));
    at = match.index + match[0].length;
    const [whole, comment, string, number, word, directive] = match;
    if (comment) into.append(element("span", { class: "c" }, whole));
    else if (string) into.append(...stringNodes(whole, language));
    else if (number) into.append(element("span", { class: "n" }, whole));
    else if (directive) into.append(element("span", { class: "p" }, whole));
    else if (KEYWORDS[language].has(word)) into.append(element("span", { class: "k" }, whole));
    else if (text[at] === "(" || text.startsWith("<<<", at)) into.append(element("span", { class: "f" }, whole));
    else into.append(whole);
  }
  into.append(text.slice(at));
  return into;
}

// A candidate is Python with CUDA C++ in its triple-quoted strings: those are shown as what they are.
function stringNodes(whole, language) {
  if (language === "python" && /"""|'''/.test(whole) && /#include|__global__|torch::Tensor/.test(whole)) {
    const opened = whole.match(/^[A-Za-z]*("""|''')/)[0];
    const closed = whole.length > opened.length && whole.endsWith(opened.slice(-3)) ? opened.slice(-3) : "";
    const inside = whole.slice(opened.length, whole.length - closed.length);
    return [element("span", { class: "s" }, opened), highlight(inside, "cuda"), element("span", { class: "s" }, closed)];
  }
  return [element("span", { class: "s" }, whole)];
}

function guessLanguage(key, text) {
  if (/(^|_)(source|code|reference)$/.test(key) || /^(import|from) \w|^def |^class |\nimport torch/.test(text)) return "python";
  if (/__global__|#include/.test(text)) return "cuda";
  return /^\s*[[{]/.test(text) ? "json" : "";
}

function codeBlock(text, language) {
  return element("pre", {}, element("code", {}, highlight(text, language)));
}

function inline(text) {
  const parts = text.split(/(`[^`]+`|\*\*[^*]+\*\*)/);
  return parts.map((part) =>
    part.startsWith("`") && part.length > 2 ? element("code", {}, part.slice(1, -1))
      : part.startsWith("**") && part.length > 4 ? element("b", {}, part.slice(2, -2)) : part);
}

function markdown(text) {
  const into = document.createDocumentFragment();
  const lines = text.split("\n");
  let list = null, open = null, gathered = "";
  // Inline marks may span the lines of a paragraph or of an item, so that a block is filled when it ends.
  const close = () => { if (open) open.append(...inline(gathered)); open = null; gathered = ""; };
  const begin = (block, first) => { close(); open = block; gathered = first; };
  const end = () => { close(); list = null; };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const fence = line.match(/^\s*(`{3,}|~{3,})\s*(\w*)/);
    if (fence) {
      end();
      const body = [];
      while (++at < lines.length && !lines[at].trim().startsWith(fence[1])) body.push(lines[at]);
      const code = body.join("\n");
      const names = { py: "python", python: "python", cpp: "cuda", c: "cuda", cu: "cuda", cuda: "cuda", json: "json" };
      into.append(codeBlock(code, names[fence[2].toLowerCase()] || guessLanguage("", code)));
      continue;
    }
    const heading = line.match(/^#{1,6}\s+(.*)/);
    const item = line.match(/^\s*([-*]|\d+[.)])\s+(.*)/);
    if (heading) { end(); into.append(element("h4", {}, ...inline(heading[1]))); }
    else if (item) {
      close();
      if (!list) into.append(list = element(/\d/.test(item[1]) ? "ol" : "ul", {}));
      begin(list.appendChild(element("li", {})), item[2]);
    } else if (!line.trim()) close();
    else if (open && (!list || /^\s+/.test(line))) gathered += `\n${line.trim()}`;
    else { end(); begin(into.appendChild(element("p", {})), line); }
  }
  close();
  return into;
}
