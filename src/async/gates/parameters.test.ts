import { describe, expect, it } from "vitest";
import { z } from "zod";
import { check, type Violation } from "../../base/document/validate.ts";
import {
  booleanParameter,
  choiceParameter,
  durationParameter,
  floatParameter,
  gateListParameter,
  gateParameter,
  intParameter,
  objectParameter,
  stringParameter,
  textMapParameter,
} from "./parameters.ts";

const NONE = Symbol("absent");

/** The parameter's value, or what is said to be wrong with it. */
function read(parameter: z.ZodType, value: unknown): unknown {
  const violations: Violation[] = [];
  const schema = z.strictObject({ p: parameter });
  const found = check(value === NONE ? {} : { p: value }, schema, [], violations);
  return found === undefined ? `wrong: ${violations.map(({ problem }) => problem).join("; ")}` : found.output.p;
}

describe("gate parameters (A-14)", () => {
  it.each([
    ["text", "text"],
    [100, "100"],
    [1e21, "1000000000000000000000"],
    [true, "true"],
    ["", "d"],
    [null, "d"],
    [NONE, "d"],
    [{ a: 1 }, "d"],
    [["a"], "d"],
  ])("a string of %j is %j", (value, result) => {
    expect(read(stringParameter({ default: "d" }), value)).toBe(result);
  });

  it.each([
    [0.8, 0.8],
    ["0.8", 0.8],
    ["1e-2", 0.01],
    ["-.5", -0.5],
    ["", 7],
    [null, 7],
    [NONE, 7],
  ])("a float of %j is %j", (value, result) => {
    expect(read(floatParameter({ default: 7 }), value)).toBe(result);
  });

  it.each([true, "abc", "0.8 ", "NaN", "inf", "0x10", {}, [1]])("a float of %j is refused", (value) => {
    expect(read(floatParameter({ default: 7 }), value)).toBe('wrong: expected a number such as 0.8 or "0.8"');
  });

  it.each([
    [10, 10],
    [10.0, 10],
    ["10", 10],
    ["-3", -3],
    ["", 7],
    [NONE, 7],
  ])("an int of %j is %j", (value, result) => {
    expect(read(intParameter({ default: 7 }), value)).toBe(result);
  });

  it.each([1.5, "1.5", "1e3", "ten", true, 1e300, "99999999999999999999"])("an int of %j is refused", (value) => {
    expect(read(intParameter(), value)).toBe('wrong: expected a whole number such as 10 or "10"');
  });

  it.each([
    ["90s", 90_000],
    ["1m30s", 90_000],
    ["", 60_000],
    [NONE, 60_000],
  ])("a duration of %j is %j ms", (value, result) => {
    expect(read(durationParameter({ default: "1m" }), value)).toBe(result);
  });

  it.each([90, "90", "soon", true])("a duration of %j is refused", (value) => {
    expect(read(durationParameter({ default: "1m" }), value)).toMatch(/^wrong: expected a duration with a unit/);
  });

  it("bounds are told", () => {
    expect(read(floatParameter({ min: 0, max: 1 }), 2)).toBe("wrong: must be at most 1, got 2");
    expect(read(floatParameter({ min: 0 }), -1)).toBe("wrong: must be at least 0, got -1");
    expect(read(intParameter({ moreThan: 0 }), 0)).toBe("wrong: must be more than 0, got 0");
    expect(read(floatParameter({ lessThan: 1 }), "1")).toBe("wrong: must be less than 1, got 1");
    expect(read(durationParameter(), "-1s")).toBe("wrong: must be at least 0, got -1000");
  });

  it("what is required is missed, what is optional is not (A-12)", () => {
    for (const value of [NONE, "", null]) {
      expect(read(stringParameter(), value)).toBe("wrong: is missing (a string)");
      expect(read(intParameter(), value)).toMatch(/^wrong: is missing \(a whole number/);
      expect(read(durationParameter(), value)).toMatch(/^wrong: is missing \(a duration/);
      expect(read(gateParameter(), value)).toMatch(/^wrong: is missing \(a gate/);
      expect(read(gateListParameter(), value)).toBe("wrong: is missing (a list of gates)");
      expect(read(floatParameter({ optional: true }), value)).toBeUndefined();
      expect(read(stringParameter({ optional: true }), value)).toBeUndefined();
      expect(read(intParameter({ optional: true }), value)).toBeUndefined();
      expect(read(objectParameter({ default: {} }), value)).toEqual({});
      expect(read(textMapParameter(), value)).toEqual({});
    }
    expect(read(stringParameter(), { a: 1 })).toBe("wrong: is missing (a string)");
  });

  it.each([[{ a: "x", b: 2, c: true }], ['{"a":"x","b":2,"c":true}']])(
    "names and texts of %j, as an object or JSON text",
    (value) => {
      expect(read(textMapParameter(), value)).toEqual({ a: "x", b: "2", c: "true" });
    },
  );

  it("names and texts of something else are refused", () => {
    expect(read(textMapParameter(), { a: {} })).toBe('wrong: expected a string for "a"');
    expect(read(textMapParameter(), "a=b")).toMatch(/this text is not JSON$/);
    expect(read(textMapParameter(), [1])).toMatch(/^wrong: expected an object/);
    expect(read(textMapParameter(), "[1]")).toMatch(/^wrong: expected an object/);
    expect(read(textMapParameter(), "null")).toEqual({});
  });

  it("an object, or one as JSON text", () => {
    expect(read(objectParameter(), { a: [1] })).toEqual({ a: [1] });
    expect(read(objectParameter(), '{"a":[1]}')).toEqual({ a: [1] });
    expect(read(objectParameter(), 5)).toMatch(/^wrong: expected an object/);
    expect(read(objectParameter(), '{"password":"hunter2"')).not.toContain("hunter2");
  });

  it("a gate, natively and as JSON text, its parameters too", () => {
    const gate = { type: "constant", parameters: { a: "1" } };
    for (const value of [
      { gate_type: "constant", gate_params: { a: "1" } },
      { gate_type: "constant", gate_params: '{"a":"1"}' },
      '{"gate_type":"constant","gate_params":{"a":"1"}}',
    ])
      expect(read(gateParameter(), value)).toEqual(gate);
    expect(read(gateParameter(), { gate_type: "constant" })).toEqual({ type: "constant", parameters: {} });
    expect(read(gateListParameter(), [{ gate_type: "constant", gate_params: { a: "1" } }])).toEqual([gate]);
    expect(read(gateListParameter(), '[{"gate_type":"constant","gate_params":{"a":"1"}}]')).toEqual([gate]);
    expect(read(gateListParameter(), [])).toEqual([]);
  });

  it("a mistake in a gate is named with its place", () => {
    expect(read(gateParameter(), {})).toMatch(/^wrong: `gate_type` is missing/);
    expect(read(gateListParameter(), [{ gate_type: "constant" }, { gate_typ: "x" }])).toMatch(
      /^wrong: entry 1: unknown key `gate_typ`/,
    );
    expect(read(gateListParameter(), [null])).toMatch(/^wrong: entry 0/);
    expect(read(gateListParameter(), { gate_type: "constant" })).toMatch(/^wrong: expected a list of gates/);
    expect(read(gateParameter(), { gate_type: "constant", gate_params: 3 })).toMatch(/`gate_params` as an object/);
  });

  it("one of a few words, yes or no", () => {
    expect(read(choiceParameter(["a", "b"], { default: "a" }), NONE)).toBe("a");
    expect(read(choiceParameter(["a", "b"]), "b")).toBe("b");
    expect(read(choiceParameter(["a", "b"]), "c")).toBe("wrong: expected one of `a`, `b`");
    expect(read(booleanParameter({ default: false }), "true")).toBe(true);
    expect(read(booleanParameter({ default: false }), NONE)).toBe(false);
    expect(read(booleanParameter(), 1)).toBe("wrong: expected true or false");
  });

  it("describes itself for the reference", () => {
    const schema = z.strictObject({ share: floatParameter({ default: 0.8 }).describe("A share.") });
    expect(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" })).toMatchObject({
      properties: { share: { type: "number or string", default: 0.8, description: "A share." } },
    });
  });
});
