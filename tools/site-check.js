// Opens each page of the site in frames as wide as a desktop and a phone, and reports:
//   - a page that is wider than its frame
//   - a block of code that does not fit a desktop
//   - an image that did not load
//   - an error of a script
//   - a search that finds nothing, a table of contents that is missing, or a menu that does not open
// tools/site.sh puts it into a page with the list of the pages.
"use strict";

const problems = [];
let checked = 0;

function open(page, width) {
  return new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
    frame.onload = () => resolve(frame);
    frame.src = page;
    document.body.append(frame);
  });
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function describe(element) {
  const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
  return `<${element.tagName.toLowerCase()} class="${element.className}"> ${text}`;
}

// The elements that stick out of the page, except those within an element that scrolls.
function tooWide(doc, width) {
  const scrolls = (element) => {
    for (let e = element.parentElement; e && e !== doc.body; e = e.parentElement) {
      if (/auto|scroll|hidden/.test(doc.defaultView.getComputedStyle(e).overflowX)) return true;
    }
    return false;
  };
  return [...doc.querySelectorAll("main *, nav *, footer *, aside *")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1 && !scrolls(element);
  });
}

async function checkPage(page, width) {
  const frame = await open(page, width);
  const doc = frame.contentDocument;
  const note = (what) => problems.push(`${page} at ${width} px: ${what}`);
  if (doc.documentElement.scrollWidth > width) {
    note(`the page is ${doc.documentElement.scrollWidth} px wide`);
  }
  for (const element of tooWide(doc, width).slice(0, 3)) note(`too wide: ${describe(element)}`);
  if (width > 1000) {
    const cut = [...doc.querySelectorAll("main pre")].filter((block) => block.scrollWidth > block.clientWidth + 1);
    for (const block of cut) note(`code is cut off, by ${block.scrollWidth - block.clientWidth} px: ${describe(block)}`);
  }
  for (const image of doc.images) {
    if (!image.complete || image.naturalWidth === 0) note(`not loaded: ${image.getAttribute("src")}`);
  }
  const headings = doc.querySelectorAll("main h2").length;
  const listed = doc.querySelectorAll("#toc a").length;
  if (doc.getElementById("toc") && headings > 0 && listed === 0) note("the table of contents is empty");
  checked++;
  frame.remove();
}

// On a phone, the menu opens with a button, and each of its parts with a click.
async function checkMenu(page) {
  const frame = await open(page, 390);
  const doc = frame.contentDocument;
  const shown = (element) => element.getBoundingClientRect().height > 0;
  doc.querySelector(".navbar-toggler").click();
  await sleep(1000);
  const parts = [...doc.querySelectorAll("#navbar .dropdown-toggle")];
  if (parts.length === 0 || !parts.every(shown)) problems.push(`${page}: the menu does not open`);
  for (const part of parts) {
    part.click();
    await sleep(200);
    const links = [...part.parentElement.querySelectorAll("a.dropdown-item")];
    if (links.length === 0 || !links.every(shown)) problems.push(`${page}: the menu "${part.textContent.trim()}" does not open`);
  }
  frame.remove();
}

async function checkSearch(page, query, expected) {
  const frame = await open(page, 1280);
  const doc = frame.contentDocument;
  const input = doc.getElementById("search-input");
  input.focus();
  input.dispatchEvent(new Event("focus"));
  input.value = query;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  for (let i = 0; i < 100 && !frame.contentWindow.searchIndex; i++) await sleep(50);
  await sleep(50);
  const found = [...doc.querySelectorAll(".search-results a")].map((link) => link.href);
  if (!found.slice(0, 5).some((link) => link.includes(expected))) {
    problems.push(`${page}: searching "${query}" finds ${found.length} entries, but not ${expected}: ${found.slice(0, 3).join(" ")}`);
  }
  frame.remove();
  return `"${query}" finds ${found.length}`;
}

window.addEventListener("DOMContentLoaded", async () => {
  const report = document.createElement("pre");
  report.id = "report";
  const searches = [];
  try {
    for (const page of pages.filter((page) => page !== "check.html")) {
      for (const width of [1280, 390]) await checkPage(page, width);
    }
    await checkMenu("articles/pjrt.html");
    searches.push(await checkSearch("index.html", "pjrt_execute", "reference/pjrt_execute.html"));
    searches.push(await checkSearch("articles/pjrt.html", "donation", ".html"));
    searches.push(await checkSearch("reference/index.html", "slow program", "articles/slow.html"));
  } catch (error) {
    problems.push(`the check failed: ${error}`);
  }
  report.textContent = `check: ${checked} views, ${problems.length} problems; ${searches.join(", ")}\n${problems.join("\n")}\n`;
  document.body.append(report);
});
