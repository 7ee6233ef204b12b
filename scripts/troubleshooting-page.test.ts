import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

// docs/operate/troubleshooting.md leads from a symptom to metrics, log lines, flags, paths and error codes. A name that the
// code no longer has would lead a reader nowhere.

const root = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const page = read("docs/operate/troubleshooting.md");
const spans = [...new Set([...page.matchAll(/`([^`\n]+)`/g)].map((match) => match[1]!))];

const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !/\.(test|cases)\.ts$/.test(name))
  .map((name) => read(join("src", name)))
  .join("\n");
const metrics = new Set([...read("docs/reference/metrics.md").matchAll(/^### `(\w+)`$/gm)].map((match) => match[1]!));
const flags = read("docs/reference/flags.md");
const errors = read("docs/reference/errors.md");

/** Metrics of the dispatcher, which the last section names without their prefix. */
const DISPATCH_PREFIX = "llm_d_async_async_";
const dispatcherSection = page.slice(page.indexOf("\n## The dispatcher"));
/** Settings of queues: not metrics, though they are spelt like some. */
const SETTINGS = new Set(["max_attempts", "claim_ttl_ms", "result_queue_name"]);

const logLines = spans.filter((span) => /^".*"$/.test(span));
const fullMetrics = spans.flatMap((span) => /^(?:sluice|llm_d_epp|nodejs)_\w+/.exec(span)?.[0] ?? []);
const dispatcherMetrics = [...dispatcherSection.matchAll(/`([a-z]+(?:_[a-z]+)+)`/g)]
  .map((match) => match[1]!)
  .filter((name) => !SETTINGS.has(name));
const named = spans.flatMap((span) => (/^(kubectl|helm) /.test(span) ? [] : (span.match(/--[a-z][a-z-]+/g) ?? [])));
const codes = spans.filter((span) => /^[A-Z][A-Z]+(_[A-Z]+)+$/.test(span) && !span.startsWith("OTEL_"));
const paths = spans.filter((span) => /^\/(debug|readyz|metrics|ready|healthz)\b/.test(span));

describe("docs/operate/troubleshooting.md", () => {
  it.each(logLines)("names a line of the code: %s", (line) => {
    for (const part of line.slice(1, -1).split("...")) {
      // A template holds the variable parts, and a long line may be two literals.
      const text = part.trim();
      if (text !== "") expect(sources.includes(text), text).toBe(true);
    }
  });

  it.each([...new Set(fullMetrics)])("names a metric: %s", (name) => {
    expect(metrics.has(name)).toBe(true);
  });

  it.each([...new Set(dispatcherMetrics)])("names a metric of the dispatcher: %s", (name) => {
    expect(metrics.has(`${DISPATCH_PREFIX}${name}`)).toBe(true);
  });

  it.each([...new Set(named)])("names a flag: %s", (flag) => {
    expect(new RegExp(`\`${flag}[ \`,]`).test(flags)).toBe(true);
  });

  it.each(codes)("names an error code: %s", (code) => {
    expect(errors.includes(`\n#### ${code}\n`)).toBe(true);
  });

  it.each(paths)("names a path that is served: %s", (path) => {
    expect(sources.includes(`"${path}"`)).toBe(true);
  });

  it("is read: each kind of name is there", () => {
    const counts = [logLines, fullMetrics, dispatcherMetrics, named, codes, paths].map(({ length }) => length);
    expect(Math.min(...counts)).toBeGreaterThan(3);
  });
});
