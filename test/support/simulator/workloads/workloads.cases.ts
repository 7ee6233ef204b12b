import { SeededRandom } from "../../../../src/base/clock/random.ts";
import { VirtualClock } from "../../../../src/base/clock/virtual.ts";
import { workloadNamed } from "../../../../src/lab/simulator/workloads/catalogue.ts";
import type {
  Workload,
  WorkloadDefinition,
  WorkloadRequest,
} from "../../../../src/lab/simulator/workloads/workload.ts";

/** A request as it was sent. */
export interface Sent {
  readonly at: number;
  readonly request: WorkloadRequest;
}

/** How a stand-in for the servers answers. @returns milliseconds to the end of the answer, or that it is refused */
export type Answers = (number: number, request: WorkloadRequest) => number | "rejected";

export interface Played {
  readonly seed?: number;
  readonly rate?: number;
  readonly durationMs?: number;
  readonly servers?: number;
  /** Default: each after a second. */
  readonly answers?: Answers;
  /** Seen at once; what `Sent` keeps is left to `keep`. */
  readonly keep?: boolean;
  readonly saw?: (request: WorkloadRequest, at: number) => void;
}

/** Plays a workload to its end against the stand-in. @returns what was sent, unless `keep` is false */
export function play(workload: Workload, played: Played = {}): Sent[] {
  const { seed = 1, answers = () => 1000, keep = true, saw } = played;
  const clock = new VirtualClock();
  const sent: Sent[] = [];
  let number = 0;
  workload.start({
    clock,
    random: new SeededRandom(seed),
    send(request, ended) {
      saw?.(request, clock.now());
      if (keep) sent.push({ at: clock.now(), request });
      const answer = answers(number++, request);
      clock.after(answer === "rejected" ? 0 : answer, () => ended?.(answer === "rejected" ? answer : "finished"));
    },
  });
  clock.run();
  return sent;
}

/** As `play`, of a workload of the catalogue at its own settings unless others are given. */
export function playNamed(name: string, played: Played = {}): Sent[] {
  const definition = workloadNamed(name)!;
  return play(definition.make(settingsOf(definition, played)), played);
}

/** The settings that a definition suggests: its greatest rate, unless others are given. */
export function settingsOf(definition: WorkloadDefinition, { rate, durationMs, servers }: Played = {}) {
  return {
    rate: rate ?? definition.rates.at(-1)!,
    durationMs: durationMs ?? definition.durationMs,
    servers: servers ?? definition.servers,
  };
}

/** What makes two requests the same, in a few bytes. */
export function fingerprint(request: WorkloadRequest, at: number): string {
  const { prompt, answer, ...rest } = request;
  return JSON.stringify([at, prompt.length, checksum(prompt), answer && checksum(answer), rest]);
}

const checksums = new WeakMap<Uint8Array, number>();

/** FNV-1a over every token; what nobody changes is looked at once. */
export function checksum(text: Uint8Array): number {
  const known = checksums.get(text);
  if (known !== undefined) return known;
  let sum = 0x811c9dc5;
  for (const id of idsOf(text)) sum = Math.imul(sum ^ id, 0x01000193);
  checksums.set(text, sum >>> 0);
  return sum >>> 0;
}

export function idsOf(text: Uint8Array): Uint32Array {
  return new Uint32Array(text.buffer, text.byteOffset, text.length / 4);
}

/** Tokens that two texts have in common at their beginnings. */
export function commonTokens(a: Uint8Array, b: Uint8Array): number {
  const [x, y] = [idsOf(a), idsOf(b)];
  let at = 0;
  while (at < x.length && at < y.length && x[at] === y[at]) at++;
  return at;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The value that a share of all are at most. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}

/** How often each value of `of` comes. */
export function countBy<T>(items: readonly T[], of: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(of(item), (counts.get(of(item)) ?? 0) + 1);
  return counts;
}
