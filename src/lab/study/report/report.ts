import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { counted } from "../../../base/document/words.ts";
import { pickersText } from "../picker-flags.ts";
import type { StudiedWorkload, Study } from "../result.ts";
import { EQUAL_SHARE, formatted, number } from "./figures.ts";
import { type Html, html, scriptData, trusted } from "./html.ts";
import { loadPlots, type Plot, rangePlots } from "./plots-data.ts";
import { StudyIndex, spreadOf } from "./study-index.ts";
import { glanceTable, groupingsOf, groupTable, legend, rateTable } from "./tables.ts";
import { overall, type PolicyVerdict, verdicts } from "./verdicts.ts";

const NOTHING = html``;

/** The plots of a page, numbered in order. */
class Plots {
  readonly all: Plot[] = [];

  /** @param heading above a group of small plots of one subject */
  figures(plots: readonly Plot[], heading?: string): Html {
    if (plots.length === 0) return NOTHING;
    const figures = plots.map((plot) => {
      const place = this.all.push(plot) - 1;
      const label = `${heading === undefined ? "" : `${heading}, `}${plot.title}: ${plot.yLabel} by ${plot.xLabel}; the figures are in the tables below`;
      return html`<figure><figcaption>${plot.title}</figcaption><div class="plot" data-plot="${place}" role="group" aria-label="${label}"></div></figure>\n`;
    });
    const all = html`<div class="${heading === undefined ? "plots" : "plots small"}">${figures}</div>\n`;
    return heading === undefined ? all : html`<h3>${heading}</h3>\n${all}`;
  }
}

/** A mean length over all runs with a finished request: the median, and the range if there is one. */
function length(means: readonly number[]): string {
  const { min, median, max } = spreadOf(means.filter(Number.isFinite));
  const range = number(min) === number(max) ? "" : ` (${number(min)} to ${number(max)})`;
  return `${number(median)} tokens${range}`;
}

function warmUp({ warmUp: before, rateUnit }: StudiedWorkload): readonly (readonly [string, string])[] {
  if (before === undefined) return [];
  const rest = before.restMs ? `, and ${formatted(before.restMs, "ms")} for its answers` : "";
  return [
    ["Warm-up, not measured", `${formatted(before.durationMs, "ms")} at ${number(before.rate)} ${rateUnit}${rest}`],
  ];
}

function facts(index: StudyIndex, workload: StudiedWorkload): Html {
  const runs = index.runsOf(workload);
  const requests = spreadOf(
    runs.filter(({ rate }) => rate === index.topRate(workload)).map((run) => run.requests),
  ).median;
  const seeds = [...new Set(runs.map(({ seed }) => seed))];
  const lag = workload.metricsLagMs === 0 ? "" : `, figures ${formatted(workload.metricsLagMs, "ms")} old on arrival`;
  const all: readonly (readonly [string, string])[] = [
    ["Rates", `${workload.rates.map(number).join(", ")} ${workload.rateUnit}`],
    ["Servers", number(workload.servers)],
    ["Engine preset", workload.preset],
    ["Arrivals during", formatted(workload.durationMs, "ms")],
    ...warmUp(workload),
    ["Requests at the top rate", number(requests)],
    ["Scrape interval", `${formatted(workload.scrapeIntervalMs, "ms")}${lag}`],
    ...(workload.pickers === undefined ? [] : [["Pickers", pickersText(workload.pickers)] as const]),
    ["Mean prompt, actual", length(runs.map((run) => run.promptTokens))],
    ["Mean output, actual", length(runs.map((run) => run.outputTokens))],
    ["Seeds", seeds.join(", ")],
  ];
  return html`<dl class="facts">${all.map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>\n`;
}

/** The figures of the top rate are visible; those of the other rates are folded. */
function figureTables(index: StudyIndex, workload: StudiedWorkload): Html {
  const top = index.topRate(workload);
  if (top === undefined) return NOTHING;
  const others = index.rates(workload).filter((rate) => rate !== top);
  const details = html`<details><summary>The other rates: ${others.map(number).join(", ")} ${workload.rateUnit}</summary>
${others.map((rate) => rateTable(index, workload, rate))}</details>\n`;
  const groups = groupingsOf(index, workload).map((grouping) => {
    const table = groupTable(index, workload, top, grouping);
    return table === undefined
      ? NOTHING
      : html`<h3>By ${grouping.name === "kind" ? "kind of request" : grouping.name}</h3>\n${table}`;
  });
  return html`<h3>Figures</h3>
${rateTable(index, workload, top)}${others.length === 0 ? NOTHING : details}${groups}`;
}

function section(index: StudyIndex, workload: StudiedWorkload, verdict: PolicyVerdict, plots: Plots): Html {
  const loads = loadPlots(index, workload);
  return html`<section>
<h2>${workload.name}</h2>
<p>${workload.about}</p>
${facts(index, workload)}
<p class="verdict">${verdict.headline}</p>
<ul>${verdict.comparisons.map((sentence) => html`<li>${sentence}</li>`)}</ul>
${verdict.caution === undefined ? NOTHING : html`<p>${verdict.caution}</p>\n`}${verdict.ladder === undefined ? NOTHING : html`<p>${verdict.ladder}</p>`}
${plots.figures(rangePlots(index, workload))}${plots.figures(loads.plots, loads.title)}${figureTables(index, workload)}</section>
`;
}

function head(index: StudyIndex, found: readonly PolicyVerdict[]): Html {
  const { policies, workloads, seeds, runs } = index.study;
  const requests = runs.reduce((sum, run) => sum + run.requests, 0);
  const summary = overall(index.study);
  const planned =
    index.study.planned ?? workloads.reduce((sum, { rates }) => sum + rates.length, 0) * policies.length * seeds.length;
  const partial = html`<p class="lead">Partial: only ${number(runs.length)} of ${number(planned)} runs were finished.</p>\n`;
  return html`<header>
<h1>Routing policies in simulation</h1>
<p class="lead">Simulated in virtual time: ${counted(policies.length, "policy", "policies")} on ${counted(workloads.length, "workload")} with ${counted(seeds.length, "seed")}: ${counted(runs.length, "run")}, ${counted(requests, "request")}.</p>
${runs.length < planned ? partial : NOTHING}${summary === undefined ? NOTHING : html`<p class="lead verdict">${summary}</p>`}
<ul>${found.map(({ workload, headline }) => html`<li><b>${workload}:</b> ${headline}</li>`)}</ul>
${glanceTable(index)}
<noscript><p class="note">The plots need JavaScript. The tables have every figure, too.</p></noscript>
<h3>Policies</h3>
<dl class="policies">${policies.map(({ name, about }) => html`<dt>${name}</dt><dd>${about}</dd>`)}</dl>
${legend(index.study)}
<p class="note">Verdicts compare medians over seeds. "4 % better" means that the worse figure is 4 % above the better figure. A seed gives every policy the same arrivals; each comparison says how many seeds agree. Medians within ${EQUAL_SHARE} of each other count as equal. One seed shows no small differences: use more (--seeds). In the plots, a line is the median over the seeds; its band is from the minimum to the maximum.</p>
</header>
`;
}

function speed({ speed: measured }: Study): Html {
  if (measured === undefined) return html`<p>Speed was not measured.</p>`;
  const { requestsPerSecond, bareRequestsPerSecond } = measured;
  const share = formatted(requestsPerSecond / bareRequestsPerSecond, "share");
  return html`<p>Speed: ${number(requestsPerSecond)} simulated requests per second of real time in one run; the same arrivals and engines without a scheduler: ${number(bareRequestsPerSecond)}. That is ${share} of the bare event loop.</p>`;
}

function foot(study: Study, command: string | undefined): Html {
  const events = study.runs.reduce((sum, run) => sum + run.events, 0);
  const seconds = study.runs.reduce((sum, run) => sum + run.seconds, 0);
  return html`<footer>
<h2>How this was made</h2>
<p>Sluice ${study.version}, seeds ${study.seeds.join(", ")}. ${number(events)} events of the virtual clock took ${formatted(seconds * 1000, "ms")}.</p>
${speed(study)}
${command === undefined ? NOTHING : html`<p>To reproduce: <code>${command}</code></p>`}
<h3>What the model leaves out</h3>
<ul>${LEFT_OUT.map((sentence) => html`<li>${sentence}</li>`)}</ul>
</footer>
`;
}

function page(body: Html, plots: readonly Plot[], assets: Assets): Html {
  const [library, script] = assets.scripts.map(trusted);
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${contentSecurityPolicy(assets)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Routing policies in simulation</title>
${assets.styles.map((style) => html`<style>${trusted(style)}</style>\n`)}</head>
<body>
${body}
<script type="application/json" id="plots">${scriptData(plots)}</script>
<!-- uPlot, which draws the plots:
${trusted(assets.licence)}-->
<script>${library!}</script>
<script type="module">${script!}</script>
</body>
</html>
`;
}

/** The additional contents of a report. */
export interface ReportOptions {
  /** The command line that repeats this study. */
  readonly command?: string | undefined;
}

/**
 * A study as one HTML page for people who must choose a policy. It needs no network and no other file. Its
 * Content-Security-Policy allows only its own script. Names in the study may come from any source, so they are escaped.
 * @throws Error when the installation lacks the plot library
 */
export function renderReport(study: Study, { command }: ReportOptions = {}): string {
  const index = new StudyIndex(study);
  const found = verdicts(study);
  const plots = new Plots();
  const sections = study.workloads.map((workload, i) => section(index, workload, found[i]!, plots));
  const body = html`${head(index, found)}<main>${sections}</main>\n${foot(study, command)}`;
  return page(body, plots.all, readAssets()).html;
}

const { resolve } = createRequire(import.meta.url);
/** Line ends as HTML parsers produce them: the browser hashes the parsed text. */
const read = (path: string | URL): string => readFileSync(path, "utf8").replaceAll("\r\n", "\n");
const beside = (name: string): string => read(new URL(`./${name}`, import.meta.url));

/** The scripts, styles and licence of a page. */
export interface Assets {
  /** The library first, then the script that draws with it. */
  readonly scripts: readonly string[];
  readonly styles: readonly string[];
  /** Licence of the library: it must accompany the code of the library. */
  readonly licence: string;
}

/** Reads the files at every call: a process renders one report. @throws Error when the installation lacks a file */
export function readAssets(): Assets {
  return {
    scripts: [read(resolve("uplot/dist/uPlot.iife.min.js")), pageScript()],
    styles: [read(resolve("uplot/dist/uPlot.min.css")), beside("plot-colours.css"), beside("report.css")],
    licence: read(resolve("uplot/LICENSE")),
  };
}

/** The script of the report with the file that it imports, as one script: a report has no other file. */
function pageScript(): string {
  const style = beside("plot-style.js").replace(/^export /gm, "");
  return style + beside("page-script.js").replace(/^import .*;\n/gm, "");
}

const hashes = (texts: readonly string[]): string =>
  texts.map((text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`).join(" ");

/** A Content-Security-Policy that allows only these scripts and styles, and no network access. */
export function contentSecurityPolicy({ scripts, styles }: Assets): string {
  return `default-src 'none'; script-src ${hashes(scripts)}; style-src ${hashes(styles)}; base-uri 'none'; form-action 'none'`;
}

/** The simplifications of the simulation: a reader needs them to judge the figures. */
export const LEFT_OUT: readonly string[] = [
  "A step of an engine takes a time that is linear in what it computes (base, prompt tokens, context, sequences). The coefficients come from published figures; nothing was run on a GPU.",
  "Decisions take no virtual time, and neither do networks, gateways and tokenizers: real TTFTs are higher by these times.",
  "The servers of a workload are alike and healthy: none fails, restarts or slows down. In scale-from-zero, all servers join at the same moment.",
  "Speculative decoding, KV caches outside the GPU and multimodal input are not simulated. The transfer of the KV cache from a prefill server to a decode server takes no time.",
  "Clients wait without a limit and never cancel. Only the backlogs of realtime-and-batch and realtime-with-batch retry after a rejection or an eviction.",
  "Prompts are synthetic text in which only shared prefixes matter; lengths are drawn from the workload's distribution, not from real traffic.",
  "The figures include every request after the warm-up, even requests that end after the last arrival. Without a warm-up, the figures include requests that meet empty caches. Only the load spread ends with the last arrival.",
];
