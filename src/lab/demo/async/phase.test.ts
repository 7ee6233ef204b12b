import { describe, expect, it } from "vitest";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { bar, HEAD, type PhaseStatus, statusLine } from "./phase.ts";
import { RealtimeFigures } from "./realtime.ts";

const status = (backlog: PhaseStatus["backlog"], realtime = 12): PhaseStatus => {
  const figures = new RealtimeFigures(new VirtualClock());
  for (let i = 0; i < realtime; i++) figures.sent();
  return { seconds: 7.2, slots: 48, figures, backlog };
};
const gate = { state: "closed", because: "D 0.292 is not above B 0.35", D: 0.2917, B: 0.35, N: 0 };

describe("statusLine", () => {
  it("shows slots, both kinds of work and the gate under their heads", () => {
    const view = { running: 24, etaSeconds: 24.1, gate };
    expect(statusLine(status({ waiting: 118, done: 18, view }))).toBe(
      " 7s ######============......  12        -  118  24   18  25s 0.29  0 closed",
    );
  });

  it("fits into 80 columns with a large backlog and a gate in any state", () => {
    const view = { running: 512, etaSeconds: 86_400, gate: { ...gate, N: 166, state: "unreadable" } };
    const line = statusLine(status({ waiting: 8533, done: 8533, view }, 300));
    for (const text of [...HEAD.split("\n"), line]) expect(text.length).toBeLessThanOrEqual(80);
  });

  it("knows nothing of a dispatcher that is away, and shows no gate where there is none", () => {
    expect(statusLine(status({ waiting: 34, done: 102, view: undefined }))).toContain(
      "  34   ?  102    -    -  - away",
    );
    const open = { running: 96, etaSeconds: null, gate: undefined };
    expect(statusLine(status({ waiting: 64, done: 0, view: open }))).toMatch(/ 64 {2}96 {4}0 {4}- {4}- {2}- none$/);
    expect(statusLine(status(undefined))).toBe(" 7s ######..................  12        -");
  });
});

describe("bar", () => {
  it("ends with an arrow when more is in flight than there are slots", () => {
    expect(bar(48, 0, 48)).toBe("#".repeat(24));
    expect(bar(20, 96, 48)).toBe(`${"#".repeat(10)}${"=".repeat(13)}>`);
    expect(bar(0, 0, 48)).toBe(".".repeat(24));
  });
});
