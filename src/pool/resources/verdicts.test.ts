import { describe, expect, it } from "vitest";
import type { Manifest } from "../../../test/support/resources/verdicts.cases.ts";
import { ACCEPTED_POOLS, REFUSED_POOLS } from "../../../test/support/resources/verdicts-pools.cases.ts";
import {
  ACCEPTED_WORKLOADS,
  REFUSED_WORKLOADS,
  UPDATES,
} from "../../../test/support/resources/verdicts-workloads.cases.ts";
import { formatPath } from "../../base/document/document.ts";
import type { Violation } from "../../base/document/validate.ts";
import { transitionViolations } from "./kind.ts";
import type { InferenceModel } from "./objects.ts";
import { readResource } from "./read.ts";

// The verdict table (api-resources 8.2; R-3) on our own parser; test/kubernetes has it on an API server, and the rows about
// a status, which we read of no kind.

function problems(reading: object): string {
  const { violations = [] } = reading as { readonly violations?: readonly Violation[] };
  return violations.map(({ path, problem }) => `${formatPath(path)}: ${problem}`).join("\n");
}

const titled = <T extends { readonly id: string; readonly object: Manifest }>(rows: readonly T[]) =>
  rows.map((row) => [`${row.id} (${row.object.kind}, ${row.object.apiVersion})`, row] as const);

describe("R-3: accepted", () => {
  it.each(titled([...ACCEPTED_POOLS, ...ACCEPTED_WORKLOADS]))("%s", (_, { object, parsed, unknown }) => {
    const reading = readResource(object, { unknownKeys: unknown ? "drop" : "refuse" });
    // without spec there is nothing to act on, and nobody falls over it.
    expect([reading.outcome, problems(reading)]).toEqual([parsed === undefined ? "empty" : "usable", ""]);
    if (reading.outcome === "usable") expect(reading.object).toMatchObject(parsed!);
    if (unknown) expect(problems(readResource(object))).toContain(unknown.parser);
  });
});

describe("R-3: refused", () => {
  it.each(titled([...REFUSED_POOLS, ...REFUSED_WORKLOADS]))("%s", (_, { object, says }) => {
    expect(problems(readResource(object))).toContain(says.parser);
  });
});

describe("R-3: changes", () => {
  it.each(UPDATES.map((row) => [row.id, row] as const))("%s", (_, { before, after, says }) => {
    const [first, second] = [before, after].map((manifest) => {
      const reading = readResource(manifest);
      if (reading.outcome !== "usable") throw new Error(problems(reading));
      return reading.object as InferenceModel;
    });
    expect(problems({ violations: transitionViolations(first!, second!) })).toBe(says?.parser ?? "");
  });
});
