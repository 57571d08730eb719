// Replaces pkgdown.js in the built site: the table of contents, buttons that copy code, and the search. It needs no other
// libraries, no network and no server.
(function () {
  "use strict";
  const root = document.currentScript.src.replace(/pkgdown\.js(\?.*)?$/, "");

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // The headings of the page, as a nested list.
  function contents() {
    const nav = document.getElementById("toc");
    if (!nav) return;
    const links = new Map();
    let list = nav.appendChild(element("ul", "nav flex-column"));
    let inner = null;
    for (const heading of document.querySelectorAll("main h2, main h3")) {
      const target = heading.id ? heading : heading.closest("[id]");
      if (!target || target.id === "main" || heading.hasAttribute("data-toc-skip")) continue;
      if (heading.classList.contains("unlisted") || target.classList.contains("unlisted")) continue;
      const copy = heading.cloneNode(true);
      copy.querySelectorAll("a.anchor").forEach((anchor) => anchor.remove());
      const link = element("a", "nav-link", copy.textContent.trim());
      link.href = "#" + target.id;
      links.set(heading, link);
      const item = element("li");
      item.append(link);
      if (heading.tagName === "H2") {
        list.append(item);
        inner = item.appendChild(element("ul", "nav flex-column"));
      } else {
        (inner || list).append(item);
      }
    }
    if (links.size === 0) {
      nav.remove();
      return;
    }
    // marks the section that is being read
    let marked = null;
    const mark = () => {
      let current = null;
      for (const [heading, link] of links) {
        if (heading.getBoundingClientRect().top < 120) current = link;
      }
      if (current === marked) return;
      if (marked) marked.classList.remove("active");
      if (current) current.classList.add("active");
      marked = current;
    };
    document.addEventListener("scroll", mark, { passive: true });
    mark();
  }

  // A button at each block of code that copies the code without its output.
  function copyButtons() {
    if (!navigator.clipboard) return;
    for (const block of document.querySelectorAll("div.sourceCode")) {
      const button = element("button", "copy-code", "Copy");
      button.type = "button";
      button.addEventListener("click", async () => {
        const lines = block.querySelector("pre").textContent.split("\n");
        await navigator.clipboard.writeText(lines.filter((line) => !line.startsWith("#>")).join("\n"));
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
      block.classList.add("has-copy");
      block.prepend(button);
    }
  }

  // The entries that contain all words, best ones first.
  function find(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (const entry of window.searchIndex) {
      const what = entry.what.toLowerCase();
      const title = entry.title.toLowerCase();
      const rest = (entry.text + " " + entry.code + " " + entry.previous_headings).toLowerCase();
      let score = 0;
      for (const word of words) {
        let points = 0;
        if (what === word || what === word + "()") points = 16;
        else if (title.split(/[^a-z0-9_.]+/).includes(word)) points = 9;
        else if (what.startsWith(word)) points = 8;
        else if (what.includes(word) || title.includes(word)) points = 6;
        else if (rest.includes(word)) points = 1;
        if (points === 0) { score = 0; break; }
        score += points;
      }
      if (score > 0) found.push({ entry, score: what === title ? score + 0.5 : score });
    }
    // no more than two of a page
    const count = {};
    const few = ({ entry }) => (count[entry.path] = (count[entry.path] || 0) + 1) <= 2;
    return found.sort((a, b) => b.score - a.score).filter(few).slice(0, 20).map((match) => match.entry);
  }

  function address(entry) {
    const path = root + entry.path.replace(/^\//, "");
    return entry.id ? path + "#" + encodeURIComponent(entry.id) : path;
  }

  function search() {
    const input = document.getElementById("search-input");
    if (!input) return;
    input.setAttribute("aria-label", "Search");
    input.form.addEventListener("submit", (event) => event.preventDefault());
    const results = element("div", "search-results");
    results.hidden = true;
    input.after(results);
    let chosen = -1;

    const choose = (number) => {
      const items = results.querySelectorAll("a");
      if (items.length === 0) return;
      chosen = (number + items.length) % items.length;
      items.forEach((item, i) => item.classList.toggle("active", i === chosen));
      items[chosen].scrollIntoView({ block: "nearest" });
    };
    const show = () => {
      const query = input.value.trim();
      results.replaceChildren();
      chosen = -1;
      results.hidden = query.length < 2 || !window.searchIndex;
      if (results.hidden) return;
      const entries = find(query);
      if (entries.length === 0) results.append(element("span", "nothing", "Nothing found."));
      for (const entry of entries) {
        const link = element("a");
        link.href = address(entry);
        link.append(element("strong", "", entry.what || entry.title));
        const place = [entry.dir, entry.title === entry.what ? "" : entry.title].filter(Boolean).join(" › ");
        link.append(element("small", "", place));
        link.addEventListener("click", close);
        results.append(link);
      }
    };
    const close = () => { results.hidden = true; };

    let asked = false;
    const load = () => {
      if (asked) return;
      asked = true;
      const script = element("script");
      script.src = root + "search.js";
      script.addEventListener("load", show);
      document.head.append(script);
    };
    input.addEventListener("focus", load);
    input.addEventListener("input", () => { load(); show(); });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") { choose(chosen + 1); event.preventDefault(); }
      if (event.key === "ArrowUp") { choose(chosen - 1); event.preventDefault(); }
      if (event.key === "Escape") close();
      if (event.key === "Enter") {
        const items = results.querySelectorAll("a");
        if (items.length > 0) items[Math.max(chosen, 0)].click();
      }
    });
    document.addEventListener("click", (event) => {
      if (event.target !== input && !results.contains(event.target)) close();
    });
  }

  // Paths in tables may break after a slash.
  function breakPaths() {
    for (const code of document.querySelectorAll("main td code")) {
      if (code.children.length > 0 || !/\/.*\//.test(code.textContent)) continue;
      const parts = code.textContent.split(/(?<=\/)/);
      code.replaceChildren(...parts.flatMap((part) => [part, element("wbr")]).slice(0, -1));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    breakPaths();
    contents();
    copyButtons();
    search();
  });
})();
