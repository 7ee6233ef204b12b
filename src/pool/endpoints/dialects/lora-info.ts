import type { ExpositionSample } from "../../../base/telemetry/exposition-reader.ts";
import { labelInteger } from "./label-integer.ts";

/** The most adapters taken from one list. */
const MAX_ADAPTERS = 1024;
const NO_ADAPTERS: ReadonlySet<string> = new Set();

/**
 * `vllm:lora_requests_info`: one series per combination of adapters ever seen, its value the time it was last true. The
 * greatest value is the present one, whatever its exposition timestamp, and with both lists empty too (scheduling 1.6).
 */
export class LoraInfo {
  present = false;
  /** NaN when the label cannot be read. */
  max = Number.NaN;
  #newest = -1;
  #runningList = "";
  #waitingList = "";
  #running: ReadonlySet<string> | undefined;
  #waiting: ReadonlySet<string> | undefined;

  get running(): ReadonlySet<string> {
    this.#running ??= adapters(this.#runningList);
    return this.#running;
  }

  get waiting(): ReadonlySet<string> {
    this.#waiting ??= adapters(this.#waitingList);
    return this.#waiting;
  }

  /** Forgets the samples of the last page. */
  reset(): void {
    this.present = false;
    this.max = Number.NaN;
    this.#newest = -1;
    this.#setLists("", "");
  }

  add(sample: ExpositionSample): void {
    if (sample.type === "histogram" || sample.type === "summary" || !(sample.value > this.#newest)) return;
    const { labels } = sample;
    this.#newest = sample.value;
    this.present = true;
    this.max = labelInteger(labels.get("max_lora"));
    this.#setLists(labels.get("running_lora_adapters") ?? "", labels.get("waiting_lora_adapters") ?? "");
  }

  #setLists(running: string, waiting: string): void {
    this.#runningList = running;
    this.#waitingList = waiting;
    this.#running = undefined;
    this.#waiting = undefined;
  }
}

function adapters(list: string): ReadonlySet<string> {
  if (list === "") return NO_ADAPTERS;
  const names = new Set<string>();
  for (const part of list.split(",", MAX_ADAPTERS)) {
    const name = part.trim();
    if (name !== "") names.add(name);
  }
  return names;
}
