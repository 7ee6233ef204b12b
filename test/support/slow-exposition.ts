/** One sample line of a page in the Prometheus text format. */
export interface SlowSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  readonly timestamp: number | undefined;
  /** What the `# TYPE` line before it said. */
  readonly type: string;
}

/** A name, or undefined for a line that is not about one, and what was read: a sample, a type, or nothing readable. */
export interface SlowLine {
  readonly name: string | undefined;
  readonly sample?: SlowSample;
  readonly isType: boolean;
  readonly malformed: boolean;
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*[ \\t]*=[ \\t]*"(?:[^"\\\\]|\\\\[\\s\\S])*"';
const BLOCK = `\\{[ \\t]*(?:${LABEL}(?:[ \\t]*,[ \\t]*${LABEL})*[ \\t]*(?:,[ \\t]*)?)?\\}`;
const SAMPLE = new RegExp(
  `^(${NAME})(?:[ \\t]*(${BLOCK})[ \\t]*|[ \\t]+)([^ \\t]+)(?:[ \\t]+([^# \\t][^ \\t]*))?(?:[ \\t]+#[\\s\\S]*|[ \\t]*)$`,
);
const TYPE = new RegExp(`^#[ \\t]+TYPE[ \\t]+(${NAME})([\\s\\S]*)$`);
const TYPES = new Map([
  ["unknown", "untyped"],
  ["info", "gauge"],
  ["stateset", "gauge"],
  ["gaugehistogram", "histogram"],
  ...["counter", "gauge", "histogram", "summary", "untyped"].map((type) => [type, type] as const),
]);

/** Reads a page line by line with regular expressions: slow, and obvious enough to be the judge of fast readers. */
export function slowRead(page: Uint8Array): SlowLine[] {
  const types = new Map<string, string>();
  return Buffer.from(page)
    .toString("latin1")
    .split("\n")
    .map((raw): SlowLine => {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      const typeLine = TYPE.exec(line);
      if (typeLine !== null) {
        const type = /^[ \t]+([^ \t]+)[ \t]*$/.exec(typeLine[2] ?? "")?.[1];
        const known = TYPES.get(type ?? "");
        if (known !== undefined) types.set(typeLine[1]!, known);
        return { name: typeLine[1], isType: true, malformed: known === undefined };
      }
      const name = new RegExp(`^${NAME}`).exec(line)?.[0];
      const found = SAMPLE.exec(line);
      const value = number(found?.[3] ?? "");
      const timestamp = found?.[4] === undefined ? undefined : number(found[4]);
      const badTimestamp = found?.[4] !== undefined && (timestamp === undefined || !Number.isFinite(timestamp));
      if (name === undefined || found === null || value === undefined || badTimestamp) {
        return { name, isType: false, malformed: true };
      }
      const sample = { name, labels: labels(found[2] ?? "{}"), value, timestamp, type: types.get(name) ?? "untyped" };
      return { name, sample, isType: false, malformed: false };
    });
}

function labels(block: string): Record<string, string> {
  const entries: Record<string, string> = Object.create(null);
  for (const [, name, value] of block.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\[\s\S])*)"/g)) {
    const text = new TextDecoder().decode(Buffer.from(value!, "latin1"));
    entries[name!] ??= text.replace(/\\([\\"n])/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
  }
  return entries;
}

function number(text: string): number | undefined {
  if (/^\+?inf(inity)?$/i.test(text)) return Number.POSITIVE_INFINITY;
  if (/^-inf(inity)?$/i.test(text)) return Number.NEGATIVE_INFINITY;
  if (/^nan$/i.test(text)) return Number.NaN;
  if (!/^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i.test(text)) return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}
