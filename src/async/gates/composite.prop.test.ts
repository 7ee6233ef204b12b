import fc from "fast-check";
import { expect, it } from "vitest";
import { Collected, message, ScriptedGate } from "../../../test/support/gates/gate-fakes.cases.ts";
import { CONTINUE, type GateVerdict, REFUSE, WAIT } from "../../base/plugin/gate.ts";
import { CompositeGate } from "./composite.ts";

const answer = fc.record({
  verdict: fc.oneof(
    { weight: 4, arbitrary: fc.constant<GateVerdict>(CONTINUE) },
    { weight: 1, arbitrary: fc.constantFrom<GateVerdict | Error>(REFUSE, WAIT, { kind: "drop" }, new Error("failed")) },
  ),
  later: fc.boolean(),
});
/** Gates of a composite, lists being composites inside it. */
const chain = fc.array(fc.oneof(answer, fc.array(answer, { maxLength: 3 })), { maxLength: 6 });

it("after a continue every gate holds one place, after anything else none, however chains nest (A-23)", async () => {
  await fc.assert(
    fc.asyncProperty(chain, async (links) => {
      const gates: ScriptedGate[] = [];
      const scripted = ({ verdict, later }: { verdict: GateVerdict | Error; later: boolean }) => {
        const gate = new ScriptedGate(verdict, later);
        gates.push(gate);
        return gate;
      };
      const composite = new CompositeGate(
        links.map((link) => (Array.isArray(link) ? new CompositeGate(link.map(scripted)) : scripted(link))),
      );
      const decisive = gates.find(({ verdict }) => verdict instanceof Error || verdict.kind !== "continue");
      const collected = new Collected();
      const verdict = await (async () => composite.apply(message(), collected))().catch((error: Error) => error);

      expect(verdict).toBe(decisive?.verdict ?? CONTINUE);
      const holding = decisive === undefined ? 1 : 0;
      expect(gates.map((gate) => gate.held)).toEqual(gates.map(() => holding));
      const passed = decisive === undefined ? gates : gates.slice(0, gates.indexOf(decisive));
      expect(passed.every((gate) => gate.released.every((unsent) => unsent))).toBe(true);
      collected.release();
      expect(gates.every((gate) => gate.held === 0)).toBe(true);
      expect(gates.filter((gate) => gate.released.length > 0)).toEqual(passed);
    }),
  );
});
