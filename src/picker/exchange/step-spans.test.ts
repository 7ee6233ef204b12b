import { expect, it } from "vitest";
import { noTracing, type Span } from "../../base/telemetry/tracing.ts";
import type { TracedStep } from "../scheduling/plugin-calls.ts";
import { StepSpans } from "./exchange-trace.ts";
import { spanText } from "./span-text.ts";

/** A span that notes the names of what is below it, and what failed. */
function recording(): { span: Span; names: string[]; failed: string[] } {
  const names: string[] = [];
  const failed: string[] = [];
  const make = (): Span => ({
    ...noTracing.start("", {}),
    past(name, _started, _ended, _attributes, failure) {
      names.push(name);
      if (failure !== undefined) failed.push(`${name}: ${failure}`);
      return make();
    },
  });
  return { span: make(), names, failed };
}

const step = (kind: TracedStep["kind"], more: Partial<TracedStep> = {}): TracedStep => ({
  ...{ kind, profile: "p", plugin: { name: "n", type: "t" }, started: 0, ended: 1, candidates: 3, left: 3 },
  ...more,
});

it("leaves out what is too much, and keeps the profile it belongs to (bound)", () => {
  const spans = new StepSpans();
  for (let i = 0; i < 1000; i++) spans.step(step("scorer"));
  for (let i = 0; i < 1000; i++) spans.step(step(i === 0 ? "scoring" : i === 1 ? "profile" : "handler"));
  const { span, names } = recording();
  spans.show(span, {});
  expect(names.length).toBe(256 + 2);
  expect(names.slice(0, 3)).toEqual(["run_scheduler_profile", "llm_d.epp.scoring", "llm_d.epp.scorer.t"]);
});

it("shows a profile that was left without endpoints as failed", () => {
  const spans = new StepSpans();
  spans.step(step("filter", { left: 0 }));
  spans.step(step("profile", { left: 0 }));
  const { span, names, failed } = recording();
  spans.show(span, {});
  expect(names).toEqual(["run_scheduler_profile", "filter_endpoints"]);
  expect(failed).toEqual(["run_scheduler_profile: no endpoint left"]);
});

it("cuts a text where no character is torn apart", () => {
  expect(spanText("short")).toBe("short");
  const cut = spanText(`${"x".repeat(255)}\u{1f600}`);
  expect([cut.length, cut.isWellFormed()]).toEqual([256, true]);
});

it.each([
  ["disagg-profile-handler", "pick_disagg_profile"],
  ["pd-profile-handler", "pick_pd_profile"],
])("S-99: the decisions of %s are called %s", (type, wanted) => {
  const spans = new StepSpans();
  spans.step(step("handler", { plugin: { name: "mine", type } }));
  const { span, names } = recording();
  spans.show(span, {});
  expect(names).toContain(wanted);
});
