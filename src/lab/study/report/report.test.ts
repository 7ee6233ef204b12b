import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { fullStudy, policy, runResult, studyOf, tenants } from "../../../../test/support/study/report/report.cases.ts";
import type { StudiedWorkload } from "../result.ts";
import { renderReport } from "./report.ts";

/** The page without its scripts and styles: what a person reads. */
const prose = (page: string): string => page.replace(/<(script|style)[^>]*>.*?<\/\1>|<!--.*?-->/gs, "");

describe("a report", () => {
  it("loads nothing, and lets nothing but its own scripts and styles run", () => {
    const page = renderReport(fullStudy());
    const markup = page.replace(/(<(script|style)[^>]*>).*?(<\/\2>)|<!--.*?-->/gs, "$1$3");
    expect(markup).not.toMatch(
      /\b(?:src|href|action|srcset|style|on[a-z]+)=|https?:|<(?:link|iframe|img|object|embed)/,
    );
    for (const [, style] of page.matchAll(/<style>(.*?)<\/style>/gs)) expect(style).not.toMatch(/url\(|@import/);
    const policies = /Content-Security-Policy" content="([^"]*)"/.exec(page)![1]!.replaceAll("&#39;", "'").split("; ");
    expect(policies[0]).toBe("default-src 'none'");
    const allowed = (name: string): string[] =>
      policies
        .find((one) => one.startsWith(name))!
        .split(" ")
        .slice(1);
    const hash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
    const scripts = [...page.matchAll(/<script(?: type="module")?>(.*?)<\/script>/gs)].map(([, text]) => hash(text!));
    const styles = [...page.matchAll(/<style>(.*?)<\/style>/gs)].map(([, text]) => hash(text!));
    expect(scripts.length).toBe(2);
    expect(allowed("script-src")).toEqual(scripts);
    expect(allowed("style-src")).toEqual(styles);
  });

  it("escapes names wherever they stand, in the data of the plots, too", () => {
    const evil = "</script><u onclick='x'>&\"";
    const study = fullStudy();
    const rename = (name: string): string => (name === "default" ? evil : name);
    const page = renderReport(
      {
        ...study,
        version: "<u>1",
        workloads: study.workloads.map((workload) => ({
          ...workload,
          about: "<u>about",
          rateUnit: "<u>/s",
          preset: "<u>preset",
        })),
        policies: study.policies.map(({ name }) => ({ name: rename(name), about: "<u>of it" })),
        runs: study.runs.map((run) => ({
          ...run,
          policy: rename(run.policy),
          kinds: run.kinds.map((kind) => ({ ...kind, kind: `<u>${kind.kind}` })),
        })),
      },
      { command: "sluice simulate --config-file '<u>.yaml'" },
    );
    expect(page.match(/<\/script>/g)!.length).toBe(3);
    expect(page.match(/<script/g)!.length).toBe(3);
    expect(/<u\b/.test(page.replace(/<script>.*?<\/script>/gs, ""))).toBe(false);
    expect(prose(page).match(/&lt;u&gt;/g)!.length).toBeGreaterThan(100);
    expect(prose(page)).toContain("&lt;/script&gt;&lt;u onclick=&#39;x&#39;&gt;&amp;&quot;");
    const data = JSON.parse(/<script type="application\/json" id="plots">(.*?)<\/script>/s.exec(page)![1]!);
    expect(data[0].series[3].name).toBe(evil);
  });

  it("names the warm-up if the study had one", () => {
    const { workloads, ...rest } = fullStudy();
    const [first, ...others] = workloads as [StudiedWorkload, ...StudiedWorkload[]];
    const warm = { ...first, warmUp: { rate: 15, durationMs: 50_000 } };
    const text = prose(renderReport({ ...rest, workloads: [warm, ...others] }));
    expect(text.match(/Warm-up/g)).toHaveLength(1);
    expect(text).toContain("<dt>Warm-up, not measured</dt><dd>50 s at 15 requests/s</dd>");
    expect(text.match(/at 60 requests\/s; the first 50 s are the warm-up/g)).not.toBeNull();
  });

  it("says what was simulated, how, how fast, and what is left out", () => {
    const text = prose(renderReport(fullStudy(), { command: "sluice simulate all" }));
    expect(text).toContain("4 policies on 3 workloads with 3 seeds: 180 runs,");
    for (const words of [
      "150 groups of requests that share a system prompt of 6,000 tokens.",
      "<dt>Rates</dt><dd>3, 10, 18, 25, 32, 40, 50, 60 requests/s</dd>",
      "<dt>Servers</dt><dd>8</dd>",
      "<dt>Engine preset</dt><dd>qwen3-32b-2xh100</dd>",
      "<dt>Arrivals during</dt><dd>45 s</dd>",
      "<dt>Scrape interval</dt><dd>50 ms, figures 2 s old on arrival</dd>",
      "<dt>Seeds</dt><dd>1, 2, 3</dd>",
      "Sluice 1.2.3, seeds 1, 2, 3.",
      "2,140 simulated requests per second of real time in one run; the same arrivals and engines without a scheduler: 5,230. That is 40.9 % of the bare event loop.",
      "<code>sluice simulate all</code>",
      "do not keep up: their queues and TTFT grow",
      "What the model leaves out",
      "<noscript>",
    ])
      expect(text).toContain(words);
    expect(text).toMatch(/<dt>Mean prompt, actual<\/dt><dd>7,20\d tokens \(7,20\d to 7,2\d\d\)<\/dd>/);
    expect(text).not.toContain("Partial");
    expect(text).not.toMatch(/NaN|undefined|Infinity|\[object/);
  });

  it("says that a study was cut short, and names the workloads without a run", () => {
    const study = fullStudy();
    const text = prose(renderReport({ ...study, runs: study.runs.slice(0, 30), speed: undefined }));
    expect(text).toContain("Partial: only 30 of 180 runs were finished.");
    expect(prose(renderReport({ ...study, runs: study.runs.slice(0, 30), planned: 30 }))).not.toContain("Partial");
    expect(text).toContain("Nothing was run.");
    expect(text).toContain("Speed was not measured.");
    expect(text).not.toMatch(/NaN|undefined|Infinity/);
  });

  it("can be made of next to nothing", () => {
    const one = studyOf([runResult({ workload: "b2b-saas", rate: 60, policy: "a", seed: 1 })], ["a"]);
    expect(prose(renderReport(one))).toContain("At 60 requests/s TTFT p90 is 500 ms under a.");
    expect(prose(renderReport({ ...one, runs: [] }))).toContain("Nothing was run.");
    expect(prose(renderReport(studyOf([], [])))).toContain("What the model leaves out");
  });

  it.each([
    [5, 450],
    [8, 600],
  ])("of two ladders, eight other workloads, tenants and %i policies stays below %i KB", (count, most) => {
    const study = fullStudy();
    const names = Array.from({ length: count }, (_, i) => `policy-with-a-name-${i}`);
    const workloads = Array.from({ length: 10 }, (_, w) => {
      const { rates, ...rest } = study.workloads[w % 2]!;
      return { ...rest, name: `workload-${w}`, rates: w < 2 ? rates : rates.slice(-1) };
    });
    const runs = workloads.flatMap(({ name: workload, rates }, w) =>
      names.flatMap((policy, p) =>
        study.runs
          .filter((run) => run.workload === study.workloads[w % 2]!.name && rates.includes(run.rate))
          .filter((run) => run.policy === study.policies[p % 4]!.name)
          .map((run) => ({ ...run, workload, policy, kinds: w === 9 ? tenants(40) : run.kinds })),
      ),
    );
    const page = renderReport({ ...study, workloads, policies: names.map(policy), runs });
    expect(page).toContain("tenant-39");
    expect(page.length).toBeLessThan(most * 1000);
  });
});
