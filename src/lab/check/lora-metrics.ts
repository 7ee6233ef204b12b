import { checkType } from "./load-metrics.ts";
import type { MetricsPage, Sample, Series } from "./metrics-page.ts";
import { Finding, skipped, type Verdict } from "./verdict.ts";

const DAY = 86_400;
/** Before 2001-09-09 nobody served a model: a smaller value is no time. */
const FIRST_PLAUSIBLE = 1e9;
/** Series beyond this many grow the page without end: one per combination of adapters ever seen. */
const MANY_SERIES = 500;

/**
 * The LoRA family (scheduling 1.6): a gauge whose value is the Unix time, in seconds, at which its labels were last true.
 * @param pages one per reading
 * @param specification undefined where the engine has none
 * @param adapters whether the server is known to have adapters
 * @param wall milliseconds since the epoch
 */
export function checkLora(
  pages: readonly MetricsPage[],
  specification: string | undefined,
  adapters: boolean,
  wall: number,
): Verdict[] {
  const found = pages.map((page) => page.findText(specification)).filter((series) => series !== undefined);
  if (found.length === 0) {
    const name = specification ?? "a metric of LoRA adapters";
    const none = skipped("loraWaiting", "there are no LoRA metrics");
    if (!adapters)
      return [skipped("lora", `${name} is not on the page, which a server without adapters may leave out`), none];
    const finding = new Finding("lora");
    finding.broken(
      `the server has adapters, but ${name} is not on the page`,
      "expose it, or name yours with --lora-info-metric",
    );
    return [finding.verdict(""), none];
  }
  const finding = new Finding("lora");
  const waiting = new Finding("loraWaiting");
  for (const series of found) {
    checkType(finding, series);
    const { name } = series.specification;
    for (const sample of series.samples) {
      checkLabels(finding, name, sample);
      checkTime(finding, name, sample.value, wall / 1000);
      if (!sample.labels.has("waiting_lora_adapters"))
        waiting.broken(
          `${name} has no label waiting_lora_adapters`,
          "add the adapters that requests in the queue want, comma-separated",
        );
    }
    const total = series.samples.length + series.more;
    if (total > MANY_SERIES)
      finding.doubtful(`${name} has ${total} series`, "drop the series of combinations that are no longer true");
  }
  const newest = newestOf(found.at(-1)!);
  return [
    finding.verdict(
      `max_lora ${newest.labels.get("max_lora")}, running ${listed(newest, "running_lora_adapters")}, stamped ${Math.round(wall / 1000 - newest.value)} s ago`,
    ),
    waiting.verdict(`waiting ${listed(newest, "waiting_lora_adapters")}`),
  ];
}

function checkLabels(finding: Finding, name: string, { labels }: Sample): void {
  const max = labels.get("max_lora");
  if (max === undefined)
    finding.broken(`${name} has no label max_lora`, "add how many adapters fit one batch, as a whole number");
  else if (!/^\s*[1-9]\d{0,8}\s*$/.test(max))
    finding.broken(
      `max_lora is ${JSON.stringify(max.slice(0, 100))}`,
      "give max_lora how many adapters fit one batch, as a whole number above 0",
    );
  if (!labels.has("running_lora_adapters"))
    finding.broken(
      `${name} has no label running_lora_adapters`,
      "add the adapters in GPU memory, comma-separated, empty when there is none",
    );
}

function checkTime(finding: Finding, name: string, value: number, now: number): void {
  const latest = now + DAY;
  if (value >= FIRST_PLAUSIBLE && value <= latest) return;
  const remedy = "set the value to the Unix time of the last update, in seconds: the largest one counts as current";
  const unit = UNITS.find(([, factor]) => value / factor >= FIRST_PLAUSIBLE && value / factor <= latest);
  if (unit !== undefined) finding.broken(`${name} is ${value}, a time in ${unit[0]}`, remedy);
  else finding.broken(`${name} is ${value}, ${value > latest ? "a time in the future" : "no time"}`, remedy);
}

const UNITS = [
  ["milliseconds", 1e3],
  ["microseconds", 1e6],
  ["nanoseconds", 1e9],
] as const;

/** The series that is current: the one with the largest value. */
function newestOf({ samples }: Series): Sample {
  return samples.reduce((best, sample) => (sample.value > best.value ? sample : best));
}

function listed({ labels }: Sample, label: string): string {
  const names = (labels.get(label) ?? "").split(",").filter((name) => name.trim() !== "");
  return names.length === 0 ? "none" : names.map((name) => name.trim()).join(", ");
}
