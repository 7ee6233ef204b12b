import type { DecisionRecord, RecordedEndpoint } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import { replay } from "../decisions/replay.ts";
import type { SchedulingPlan } from "../scheduling/profile.ts";

/** Scores that differ by less count as equal. */
const CLOSE = 1e-9;

/**
 * The outcome of a request in a test. Endpoints and plugins appear by their names. Each assertion returns the pick, so that
 * assertions can be chained. A failed one throws an Error whose message shows the whole decision.
 */
export class Pick {
  /** The endpoint that gets the request; undefined when it was refused. */
  readonly endpoint: string | undefined;
  /** At most eight endpoints, the pick first; empty when the request was refused. */
  readonly order: readonly string[];
  /** The endpoints that share the first place; only one where the pick is not random. */
  readonly tied: readonly string[];
  /** The scores of each scorer, 0..1: by name of the scorer, then of the endpoint. Dropped endpoints have no score. */
  readonly scores: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Weighted sums by endpoint. */
  readonly totals: Readonly<Record<string, number>>;
  /** The filter or screener that dropped each endpoint. */
  readonly droppedBy: Readonly<Record<string, string>>;
  /** The choices of other profiles, by their names. */
  readonly others: Readonly<Record<string, string>>;
  readonly rejection: Rejection | undefined;
  /** The full decision record, as the running process keeps it. */
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

  /** The decision as a table: places, endpoints, scores and weights, totals, and the dropped endpoints. */
  get table(): string {
    return pickTable(this);
  }

  /** Asserts that the request goes to this endpoint, and not at random, unless the test sets the seed. */
  toBe(name: string): this {
    if (this.endpoint !== name) this.#fail(`expected ${name} to be picked, but ${this.#outcome()}`);
    if (this.tied.length > 1 && !this.#isSeeded)
      this.#fail(
        `expected ${name} to be picked, and it was, but by chance among ${this.tied.join(", ")}; assert toBeOneOf, or give a seed`,
      );
    return this;
  }

  /** Asserts that the pick is random among exactly these endpoints. */
  toBeOneOf(names: readonly string[]): this {
    const [wanted, tied] = [names.toSorted().join(", "), this.tied.toSorted().join(", ")];
    if (wanted !== tied)
      this.#fail(
        `expected the pick to be one of ${wanted}, but ${tied === "" ? this.#outcome() : `it is one of ${tied}`}`,
      );
    return this;
  }

  /** Asserts that these are the first endpoints, in order of preference. */
  toBeInOrder(names: readonly string[]): this {
    if (names.some((name, place) => this.order[place] !== name))
      this.#fail(
        `expected the order ${names.join(", ")}, but ${this.rejection ? this.#outcome() : `it is ${this.order.join(", ")}`}`,
      );
    return this;
  }

  /** Asserts that a scorer gives these endpoints these scores, 0..1; other endpoints do not matter. */
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

  /** Asserts that a filter or screener drops exactly these endpoints. */
  toDrop(plugin: string, names: readonly string[]): this {
    const dropped = Object.keys(this.droppedBy).filter((name) => this.droppedBy[name] === plugin);
    const [wanted, found] = [names.toSorted().join(", "), dropped.toSorted().join(", ")];
    if (wanted !== found)
      this.#fail(`expected ${plugin} to leave out ${wanted || "nobody"}, but it left out ${found || "nobody"}`);
    return this;
  }

  /** Asserts that the request is refused. @param text part of the text in the answer to the client */
  toBeRefused(reason: OutcomeReason, text = ""): this {
    if (this.rejection === undefined)
      this.#fail(`expected the request to be refused (${reason}), but ${this.#outcome()}`);
    const { reason: given, detail } = this.rejection;
    if (given !== reason) this.#fail(`expected the request to be refused (${reason}), but ${this.#outcome()}`);
    if (!detail.includes(text))
      this.#fail(`expected the client to get ${JSON.stringify(text)}, but it gets ${JSON.stringify(detail)}`);
    return this;
  }

  /**
   * Asserts that the decision can be made again from its record alone, as required of every scorer, filter and picker. Fails
   * where one of them reads an undeclared header, the clock, or its own memory.
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

/** Returns a decision as a table, endpoints in order of preference, dropped ones last. */
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
