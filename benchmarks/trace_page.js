// Put into the page of a trace by trace_page.py: times keys and searches, then tells the server.
(async () => {
  const said = {};
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const timed = async (name, act) => {
    await pause(250); await painted();
    const began = performance.now();
    act();
    document.body.offsetHeight;
    const work = performance.now() - began;
    await painted();
    const one = [work, performance.now() - began];
    said[name] = said[name] && said[name][1] > one[1] ? said[name] : one;
  };
  const press = (name, key) => timed(name, () => treePane.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true})));
  const type = (name, text) => timed(name, () => { searchBox.value = text; searchBox.dispatchEvent(new Event("input")); });
  try {
    while (!document.body.dataset.ready) await pause(5);
    said.ready = [performance.now(), performance.now()];
    said.runs = state.runs.length;
    said.rows = document.querySelectorAll(".row").length;
    for (let at = 0; at < 10; at++) await press("down", "ArrowDown");
    await press("page down", "PageDown"); await press("end", "End"); await press("up", "ArrowUp"); await press("home", "Home");
    await press("fold everything below the root", "ArrowLeft"); await press("unfold it", "ArrowRight");
    await press("down", "j"); await press("fold one", "ArrowLeft"); await press("unfold one", "ArrowRight");
    await press("fold all", "-"); await press("unfold all", "*");
    await press("framework's steps", "p"); await press("framework's steps", "p"); await press("next failure", "e");
    for (const text of ["e", "ev", "eva", "evaluator", "evaluator.b", "no such text"]) await type("search", text);
    await type("search", "coder"); await press("next match", "n"); await type("end of search", "");
    searchBox.value = "state of run " + Math.floor(state.runs.length / 2);
    const began = performance.now();
    await searchDeeply();
    said["search in everything"] = [performance.now() - began, performance.now() - began];
    said.found = state.matches.size;
  } catch (error) { said.failure = String(error.stack || error); }
  await fetch("/said", {method: "POST", body: JSON.stringify(said)});
})();
