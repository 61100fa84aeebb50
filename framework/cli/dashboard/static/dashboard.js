// Refreshes the parts of a page, and keys. Every page works without it. Text that comes is never made HTML by hand:
// a whole page is parsed as the browser parses any, without running scripts, and its parts take the places of ours.
"use strict";
const root = document.documentElement;
const refresh = document.getElementById("refresh");
const seconds = 5;

function stored(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}
function store(name, value) {
  try { localStorage.setItem(name, value); } catch { /* private windows keep nothing */ }
}

const theme = stored("theme");
if (theme === "light" || theme === "dark") root.dataset.theme = theme;
function turn() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  store("theme", root.dataset.theme);
}

async function renew() {
  if (!refresh || refresh.getAttribute("aria-pressed") !== "true" || document.hidden) return;
  let answer;
  try { answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" }); } catch { lost("the dashboard does not answer"); return; }
  if (answer.status === 401) { location.reload(); return; }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!answer.ok) { lost(fresh.querySelector("main .alert:not([hidden])")?.textContent.trim() ?? "this page is not there now"); return; }
  const open = new Set([...document.querySelectorAll("details[open][data-keep]")].map((each) => each.dataset.keep));
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    const isUsed = part.contains(document.activeElement) && document.activeElement !== document.body;
    if (!other || isUsed || other.isEqualNode(part)) continue;
    for (const each of other.querySelectorAll("details[data-keep]")) each.open = open.has(each.dataset.keep);
    part.replaceWith(document.adoptNode(other));
  }
  lost("");
}
// What is shown is old, and says so: nobody should act on it as if it were of now.
function lost(why) {
  const banner = document.getElementById("lost");
  refresh.dataset.lost = why ? "yes" : "no";
  refresh.textContent = why ? "not live" : "live";
  const text = why && `! What is shown here is of ${document.querySelector("header time").textContent} UTC: ${why}`;
  banner.hidden = !why;
  if (banner.textContent !== text) banner.textContent = text;
}

function press() {
  const isOn = refresh.getAttribute("aria-pressed") !== "true";
  refresh.setAttribute("aria-pressed", String(isOn));
  refresh.textContent = isOn ? "live" : "stopped";
  store("refresh", isOn ? "on" : "off");
}
if (refresh) {
  if (stored("refresh") === "off") press();
  refresh.addEventListener("click", press);
  setInterval(renew, seconds * 1000);
}
document.getElementById("theme").addEventListener("click", turn);
const keys = document.getElementById("keys");
document.getElementById("help").addEventListener("click", () => keys.showModal());

let going = false;
function choose(step) {
  const rows = [...document.querySelectorAll("tbody tr, .handlers > li")].filter((each) => each.querySelector("a, summary"));
  if (!rows.length) return;
  const now = rows.findIndex((each) => each.classList.contains("chosen"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, now + step))];
  rows.forEach((each) => each.classList.toggle("chosen", each === next));
  next.querySelector("a, summary").focus();
}
document.addEventListener("keydown", (event) => {
  const isWriting = event.target.closest("input, select, textarea");
  if (isWriting || event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (going) {
    going = false;
    const link = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
    if (link) link.click();
    return;
  }
  const acts = {
    g: () => { going = true; }, j: () => choose(1), k: () => choose(-1), c: turn, "?": () => keys.showModal(),
    r: () => refresh && press(), "/": () => document.querySelector("main input:not([type=hidden])")?.focus(),
  };
  if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
});
