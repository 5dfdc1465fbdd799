// Shows the report of the operator, and asks for it again from time to time.
//
// Names and messages come from users and from servers. So they are only ever written as text, never as HTML.
"use strict";

const PAUSE = 10000; // ms between two requests for the report
const MOST = 1000; // rows that are shown at once
const VERDICTS = [["", "all"], ["failed", "to mend"], ["waiting", "waiting"], ["ok", "ok"]];
const WORDS = Object.fromEntries(VERDICTS);
const RANK = { failed: 0, waiting: 1, ok: 2 }; // objects that somebody has to mend come first

const byId = (id) => document.getElementById(id);
let report = null, tag = "", verdict = "";

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter(Boolean));
  return made;
}

function badge(grade) {
  return element("span", `verdict ${grade in WORDS ? grade : "failed"}`, WORDS[grade] || grade);
}

function said(judged) {
  const words = [judged.words || ""];
  if (judged.cure) words.push(element("small", "", `To do: ${judged.cure}`));
  return words;
}

function cell(title, className, ...children) {
  const made = element("td", className, ...children);
  if (title) made.dataset.title = title;
  return made;
}

function lines(names, addresses) {
  const lined = (name) => (each) => element(name, "", each);
  return [...(names || []).map(lined("div")), ...(addresses || []).map(lined("small"))];
}

function row(object) {
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  const about = [object.kind, object.role, object.tailnet ? `Tailnet ${object.tailnet}` : ""];
  const proxies = object.wanted === undefined ? "" : `${object.ready || 0}/${object.wanted}`;
  return element(
    "tr", "",
    cell("", "", name, element("small", "", about.filter(Boolean).join(" · "))),
    cell("", "", badge(object.verdict)),
    cell("tailnet:", "", ...lines(object.names, object.addresses)),
    cell("cluster:", "", ...lines(object.inCluster ? [object.inCluster] : [], object.clusterAddresses)),
    cell("proxies:", "number", proxies),
    cell("", "", ...said(object), object.reason !== object.words ? element("small", "", object.reason || "") : ""),
    cell("since", "since", moment(object.since)),
  );
}

function moment(text) {
  const time = new Date(text || "");
  return Number.isNaN(time.valueOf()) ? "" : time.toISOString().slice(0, 16).replace("T", " ");
}

function part(title, judged, more) {
  return element(
    "div", `part ${judged.verdict}`,
    element("div", "title", element("b", "", title), badge(judged.verdict)),
    more ? element("p", "", more) : "",
    element("p", "", ...said(judged)),
  );
}

function parts() {
  const tailnets = (report.tailnets || []).map((each) =>
    part(each.name ? `Tailnet ${each.name}` : "The operator's own tailnet", each,
      [each.domain, each.controlURL].filter(Boolean).join(" · ")));
  const dns = (report.dns || []).map((each) => part(`DNS: ${each.name}`, each));
  const told = (words) => (report.tailnets || []).some((each) => (each.words || "").includes(words));
  const refusals = (report.refusals || []).filter((each) => !told(each.words));
  return [...tailnets, ...dns, ...refusals.map((each) => part(`Refused: ${each.what}`, { ...each, verdict: "failed" }))];
}

function found() {
  const words = byId("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = report.objects.filter((each) => words.every((word) => each.search.includes(word)));
  const counts = { "": matching.length };
  for (const each of matching) counts[each.verdict] = (counts[each.verdict] || 0) + 1;
  return [verdict ? matching.filter((each) => each.verdict === verdict) : matching, counts];
}

function show() {
  const [objects, counts] = found();
  byId("rows").replaceChildren(...objects.slice(0, MOST).map(row));
  byId("verdicts").replaceChildren(...VERDICTS.map(([grade, words]) => {
    const made = element("button", "", `${words} ${counts[grade] || 0}`);
    made.type = "button";
    made.setAttribute("aria-pressed", String(grade === verdict));
    made.addEventListener("click", () => { verdict = grade; show(); });
    return made;
  }));
  byId("count").value = objects.length > MOST
    ? `The first ${MOST} of ${objects.length} are shown: filter to see others.`
    : objects.length ? "" : "No object matches.";
}

function showAll() {
  byId("about").textContent = `version ${report.version}, in namespace ${report.namespace}` +
    `${report.pod ? `, Pod ${report.pod}` : ""}; it leads since ${moment(report.leadingSince)} UTC`;
  byId("parts").replaceChildren(...parts());
  show();
}

function complain(words) {
  byId("problem").textContent = words;
  byId("problem").hidden = !words;
}

async function ask() {
  try {
    const response = await fetch("status", {
      headers: { Accept: "application/json", ...(tag ? { "If-None-Match": tag } : {}) }, cache: "no-store",
    });
    if (response.status === 304) return complain("");
    const answer = await response.json();
    if (!response.ok) return complain(answer.error || `The operator answers with status ${response.status}.`);
    tag = response.headers.get("ETag") || "";
    report = answer;
    report.objects.sort((one, other) => RANK[one.verdict] - RANK[other.verdict]);
    for (const each of report.objects) each.search = Object.values(each).flat().join(" ").toLowerCase();
    showAll();
    complain("");
  } catch (error) {
    complain(`The operator doesn't answer, so what is shown may be out of date (${error.message}).`);
  }
}

// The part of the URL after # is the filter, so that a link can lead to some objects.
function filterByURL() {
  try {
    byId("text").value = decodeURIComponent(location.hash.slice(1));
  } catch {
    byId("text").value = location.hash.slice(1);
  }
  if (report) show();
}

byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("text").addEventListener("input", () => {
  history.replaceState(null, "", `#${encodeURIComponent(byId("text").value)}`);
  if (report) show();
});
addEventListener("hashchange", filterByURL);
filterByURL();
(async () => {
  for (;;) {
    await ask();
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
})();
