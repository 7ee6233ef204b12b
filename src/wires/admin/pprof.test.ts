import protobuf from "protobufjs";
import { describe, expect, it } from "vitest";
import { encodeProfile } from "./pprof.ts";

/** The fields of perftools.profiles.Profile that are used, as published in github.com/google/pprof. */
const { root } = protobuf.parse(`syntax = "proto3";
message Profile {
  repeated ValueType sample_type = 1; repeated Sample sample = 2; repeated Location location = 4; repeated Function function = 5;
  repeated string string_table = 6; int64 time_nanos = 9; int64 duration_nanos = 10; ValueType period_type = 11; int64 period = 12;
}
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; }
message Location { uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; }
message Line { uint64 function_id = 1; int64 line = 2; }
message Function { uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4; int64 start_line = 5; }`);

type Numbers = Record<string, string>;
interface Decoded {
  sampleType: Numbers[];
  sample: { locationId: string[]; value: string[] }[];
  location: { id: string; line: Numbers[] }[];
  function: Numbers[];
  stringTable: string[];
  timeNanos: string;
  durationNanos: string;
  periodType: Numbers;
  period: string;
}

function decode(bytes: Uint8Array): Decoded {
  const type = root.lookupType("Profile");
  return type.toObject(type.decode(bytes), { longs: String, defaults: true }) as Decoded;
}

const frame = (functionName: string, lineNumber = 0, url = "file:///a.ts") => ({ functionName, lineNumber, url });
const HEAD = {
  types: [
    ["samples", "count"],
    ["cpu", "nanoseconds"],
  ],
  periodType: ["cpu", "nanoseconds"],
  period: 1_000_000,
  startMs: 1_763_700_000_000,
  durationMs: 2000.25,
} as const;

describe("encodeProfile", () => {
  it("writes what another reader of protobuf reads: types, stacks, functions, times", () => {
    const [a, b, anonymous] = [frame("a", 9), frame("b", 19, "node:net"), frame("", -1, "")];
    const profile = decode(
      encodeProfile(HEAD, [
        { frames: [b, a], values: [3, 3_000_000_000] },
        { frames: [anonymous, b, a], values: [1, 5] },
      ]),
    );
    const text = (index: string | undefined): string | undefined => profile.stringTable[Number(index)];
    expect(profile.stringTable[0]).toBe("");
    expect(profile.sampleType.map(({ type, unit }) => [text(type), text(unit)])).toEqual([
      ["samples", "count"],
      ["cpu", "nanoseconds"],
    ]);
    expect([text(profile.periodType["type"]), profile.period]).toEqual(["cpu", "1000000"]);
    expect(profile.durationNanos).toBe("2000250000");
    expect(Math.abs(Number(profile.timeNanos) / 1e6 - HEAD.startMs)).toBeLessThan(1);
    const functions = new Map(
      profile.function.map((one) => [one["id"], [text(one["name"]), text(one["filename"]), one["startLine"]]]),
    );
    const lines = new Map(profile.location.map(({ id, line }) => [id, line[0]!]));
    const stacks = profile.sample.map(({ locationId, value }) => ({
      stack: locationId.map((id) => functions.get(lines.get(id)!["functionId"]!)),
      value,
    }));
    expect(stacks).toContainEqual({
      stack: [
        ["b", "node:net", "20"],
        ["a", "file:///a.ts", "10"],
      ],
      value: ["3", "3000000000"],
    });
    expect(stacks).toContainEqual({
      stack: [
        ["(anonymous)", "", "0"],
        ["b", "node:net", "20"],
        ["a", "file:///a.ts", "10"],
      ],
      value: ["1", "5"],
    });
    expect(functions.size).toBe(3);
    expect(profile.location.map(({ line }) => line[0]!["line"]).sort()).toEqual(["0", "10", "20"]);
  });

  it("holds thousands of stacks, more than one buffer", () => {
    const samples = Array.from({ length: 5000 }, (_, i) => ({
      frames: [frame(`leaf-${i}`, i), frame("trunk")],
      values: [i, i * 1000],
    }));
    const profile = decode(encodeProfile(HEAD, samples));
    expect(profile.sample).toHaveLength(5000);
    expect(profile.function).toHaveLength(5001);
    expect(new Set(profile.sample.map(({ value }) => Number(value[0]))).size).toBe(5000);
  });

  it("is a profile without samples, too", () => {
    expect(decode(encodeProfile(HEAD, [])).sample).toEqual([]);
  });
});
