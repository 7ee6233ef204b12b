import type { DecisionRecord, RecordedEndpoint } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import { replay } from "../decisions/replay.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";

/** Scores that differ by less are taken for equal. */
const CLOSE = 1e-9;

/**
 * What became of a request in a test. Endpoints go by their names, plugins by theirs. Each assertion returns the pick, so
 * that they can be chained, and throws an Error whose message shows the whole decision.
 */
export class Pick {
  /** The endpoint that gets the request; undefined when it was refused. */
  readonly endpoint: string | undefined;
  /** At most eight endpoints, the pick first; empty when the request was refused. */
  readonly order: readonly string[];
  /** Those that share the first place; one where chance did not decide. */
  readonly tied: readonly string[];
  /** What each scorer gave, 0..1: by name of the scorer, then of the endpoint. Those that were left out have no score. */
  readonly scores: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Weighted sums. */
  readonly totals: Readonly<Record<string, number>>;
  /** Who was left out, by which filter or screener. */
  readonly droppedBy: Readonly<Record<string, string>>;
  /** What other profiles chose, by their names. */
  readonly others: Readonly<Record<string, string>>;
  readonly rejection: Rejection | undefined;
  /** Everything the decision depended on, as the running process keeps it. */
  readonly record: DecisionRecord;
  readonly #plan: SchedulingPlan;
  readonly #isSeeded: boolean;

  /** @param plan made like that of the decision, for a replay */
  constructor(
    rejection: Rejection | undefined,
    record: DecisionRecord,
    endpoints: readonly Endpoint[],
    plan: SchedulingPlan,
    isSeeded: boolean,
  ) {
    const names = new Map(endpoints.map(({ id, name }) => [id, name]));
    const seen = record.full?.endpoints ?? [];
    const scored = seen.filter(({ total }) => !Number.isNaN(total));
    const byName = <T>(of: readonly RecordedEndpoint[], value: (endpoint: RecordedEndpoint) => T): Record<string, T> =>
      Object.fromEntries(of.map((endpoint) => [endpoint.name, value(endpoint)]));
    this.rejection = rejection;
    this.record = record;
    this.order = record.top.map(({ id }) => names.get(id)!);
    this.endpoint = this.order[0];
    this.tied = this.order.slice(0, record.tied);
    this.scores = Object.fromEntries(
      record.scorers.map(({ name }, at) => [name, byName(scored, ({ scores }) => scores[at]!)]),
    );
    this.totals = byName(scored, ({ total }) => total);
    this.droppedBy = byName(
      seen.filter(({ droppedBy }) => droppedBy !== undefined),
      ({ droppedBy }) => droppedBy!,
    );
    this.others = Object.fromEntries(record.others.map(({ profile, id }) => [profile, names.get(id)!]));
    this.#plan = plan;
    this.#isSeeded = isSeeded;
  }

  /** The decision as a table: places, endpoints, scores and weights, totals, and who was left out. */
  get table(): string {
    return pickTable(this);
  }

  /** The request goes to this endpoint, and not by chance, unless the test fixed the seed. */
  toBe(name: string): this {
    if (this.endpoint !== name) this.#fail(`expected ${name} to be picked, but ${this.#outcome()}`);
    if (this.tied.length > 1 && !this.#isSeeded)
      this.#fail(
        `expected ${name} to be picked, and it was, but by chance among ${this.tied.join(", ")}; assert toBeOneOf, or give a seed`,
      );
    return this;
  }

  /** Chance decides among exactly these endpoints. */
  toBeOneOf(names: readonly string[]): this {
    const [wanted, tied] = [names.toSorted().join(", "), this.tied.toSorted().join(", ")];
    if (wanted !== tied)
      this.#fail(
        `expected the pick to be one of ${wanted}, but ${tied === "" ? this.#outcome() : `it is one of ${tied}`}`,
      );
    return this;
  }

  /** These are the first endpoints, in order of preference. */
  toBeInOrder(names: readonly string[]): this {
    if (names.some((name, place) => this.order[place] !== name))
      this.#fail(
        `expected the order ${names.join(", ")}, but ${this.rejection ? this.#outcome() : `it is ${this.order.join(", ")}`}`,
      );
    return this;
  }

  /** A scorer gives these endpoints these scores, 0..1; those not named do not matter. */
  toScore(scorer: string, scores: Readonly<Record<string, number>>): this {
    const given = this.scores[scorer];
    if (given === undefined)
      this.#fail(`there is no scorer ${scorer}; there are ${Object.keys(this.scores).join(", ") || "none"}`);
    for (const [name, wanted] of Object.entries(scores)) {
      const score = given[name];
      if (score === undefined) this.#fail(`expected ${scorer} to give ${name} ${wanted}, but it was not scored`);
      if (!(Math.abs(score - wanted) <= CLOSE))
        this.#fail(`expected ${scorer} to give ${name} ${wanted}, but it gave ${score}`);
    }
    return this;
  }

  /** A filter or screener leaves out exactly these endpoints. */
  toDrop(plugin: string, names: readonly string[]): this {
    const dropped = Object.keys(this.droppedBy).filter((name) => this.droppedBy[name] === plugin);
    const [wanted, found] = [names.toSorted().join(", "), dropped.toSorted().join(", ")];
    if (wanted !== found)
      this.#fail(`expected ${plugin} to leave out ${wanted || "nobody"}, but it left out ${found || "nobody"}`);
    return this;
  }

  /**
   * The request is refused.
   * @param text part of what the client is told
   */
  toBeRefused(reason: OutcomeReason, text = ""): this {
    if (this.rejection === undefined)
      this.#fail(`expected the request to be refused (${reason}), but ${this.#outcome()}`);
    const { reason: given, detail } = this.rejection;
    if (given !== reason) this.#fail(`expected the request to be refused (${reason}), but ${this.#outcome()}`);
    if (!detail.includes(text))
      this.#fail(`expected the client to be told ${JSON.stringify(text)}, but it is told ${JSON.stringify(detail)}`);
    return this;
  }

  /**
   * The decision can be made again from its record alone: what every scorer, filter and picker owes. Fails where one reads a
   * header that it does not declare, the clock, or something that it remembers.
   */
  toRepeat(): this {
    const again = replay(this.record, this.#plan);
    if (again === undefined)
      this.#fail("expected the decision to repeat, but the request was refused before anything was computed");
    if (again.differences.length > 0)
      this.#fail(
        `expected the decision to repeat from its record, but ${again.differences.join("; ")}; is a header missing in \`headers\`, or does a plugin read the clock or its own memory?`,
      );
    return this;
  }

  #outcome(): string {
    if (this.rejection === undefined) return `${this.endpoint} was`;
    return `the request was refused (${this.rejection.reason}): ${this.rejection.detail}`;
  }

  #fail(message: string): never {
    throw new Error(`${message}\n\n${this.table}`);
  }
}

/** A decision for people, endpoints in order of preference, those that were left out last. */
function pickTable({ record, order, scores, totals, droppedBy }: Pick): string {
  const scorers = record.scorers.map(({ name, weight }) => ({ name, title: `${name} x ${weight}` }));
  const head = ["", "endpoint", ...scorers.map(({ title }) => title), "total"];
  const scored = [...new Set([...order, ...Object.keys(totals)])];
  const rows = scored.map((name, at) => [
    order.includes(name) ? String(at + 1) : "",
    name,
    ...scorers.map((scorer) => figure(scores[scorer.name]?.[name])),
    figure(totals[name]),
  ]);
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]!.length)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => (at === 1 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)))
      .join("  ")
      .trimEnd();
  const dropped = Object.entries(droppedBy).map(([name, plugin]) => `   ${name}: left out by ${plugin}`);
  return [line(head), ...rows.map(line), ...dropped].join("\n");
}

function figure(value: number | undefined): string {
  return value === undefined ? "-" : String(Number(value.toFixed(4)));
}
