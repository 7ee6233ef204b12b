import { counted, grouped } from "../../base/document/words.ts";
import { oneLine } from "../../base/inference/errors.ts";
import { provenSkew } from "../../lab/check/clock-skew.ts";
import { LOAD_METRICS, type LoadMetric, type ServerFacts } from "../../lab/check/server-facts.ts";
import { engineText } from "./gateway-text.ts";

/** What a value of the metrics page is called. */
const METRIC_WORDS: Readonly<Record<LoadMetric, string>> = {
  waiting: "requests waiting",
  running: "requests running",
  kvUsage: "KV cache usage",
  blockSize: "KV block size",
};
/** The most names in one line. */
const MAX_NAMES = 8;

/** What a server said, for a person. */
export function foundText(server: ServerFacts, name: string): string {
  if (server.problem !== undefined)
    return `${name}  ${server.origin}  does not answer: ${oneLine(server.problem)}\n  the file has this server; the gateway uses it as soon as it answers\n`;
  const lines = [
    `models    ${server.modelsProblem === undefined ? namesText(server.models) : `none: ${oneLine(server.modelsProblem)}`}`,
    ...(server.adapters.length === 0 ? [] : [`adapters  ${namesText(server.adapters.map((adapter) => adapter.name))}`]),
    `metrics   ${metricsText(server)}`,
    ...(server.blockSize === undefined ? [] : [`KV cache  ${cacheText(server)}`]),
    `clock     ${clockText(server)}`,
  ];
  return `${name}  ${server.origin}  ${engineText(server)}\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

function namesText(names: readonly string[]): string {
  const more = names.length - MAX_NAMES;
  return oneLine(names.slice(0, MAX_NAMES).join(", ")) + (more > 0 ? ` and ${counted(more, "more", "more")}` : "");
}

function metricsText({ missing, metricsProblem }: ServerFacts): string {
  if (metricsProblem !== undefined) return `none: ${oneLine(metricsProblem)}`;
  const words = (names: readonly LoadMetric[]): string => names.map((metric) => METRIC_WORDS[metric]).join(", ");
  const there = words(LOAD_METRICS.filter((metric) => !missing.includes(metric)));
  return missing.length === 0 ? there : `${there}; missing: ${words(missing)}`;
}

function cacheText({ blockSize, blocks, prefixCaching }: ServerFacts): string {
  const size = `blocks of ${counted(blockSize!, "token")}`;
  const room = blocks === undefined ? "" : `, ${counted(blocks, "block")}, ${grouped(blocks * blockSize!)} tokens`;
  const reuse = prefixCaching === undefined ? "not shown" : prefixCaching ? "on" : "off: turn it on at the server";
  return `${size}${room}; prefix caching ${reuse}`;
}

/** Milliseconds of a skew that a person would mend. */
const SKEW = 2000;

function clockText({ skew }: ServerFacts): string {
  if (skew === undefined) return "not shown: the answers have no header Date";
  if (provenSkew(skew) < SKEW) return "agrees with this machine";
  return `${Math.round(Math.abs(skew.ms) / 1000)} s ${skew.ms > 0 ? "ahead of" : "behind"} this machine: set the clocks by NTP`;
}

/** The commands that come next, with a model that a server has. */
export function nextText(file: string, listen: string, model: string | undefined): string {
  const body = JSON.stringify({ model: model ?? "MODEL", messages: [{ role: "user", content: "hello" }] });
  return `next:
  sluice validate ${word(file)}
  sluice gateway --config ${word(file)}
  curl ${word(listen)}/v1/chat/completions -H 'content-type: application/json' -d ${word(oneLine(body))}
  sluice doctor --config ${word(file)}
`;
}

/** A word for a shell: servers choose the names of models. */
function word(text: string): string {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
