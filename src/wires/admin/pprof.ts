import { WIRE, Writer } from "../../base/grpc/protobuf.ts";

/** A function as V8 names it. */
export interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  /** Counts from 0; -1 = unknown. */
  readonly lineNumber: number;
}

/** The measured values of one stack. */
export interface StackSample {
  /** Innermost function first. */
  readonly frames: readonly CallFrame[];
  /** One value for each of `ProfileHead.types`. */
  readonly values: readonly number[];
}

export interface ProfileHead {
  /** The meaning and the unit of each value, such as `cpu` in `nanoseconds`. */
  readonly types: readonly (readonly [type: string, unit: string])[];
  /** The quantity that triggers samples, and its amount between two samples. */
  readonly periodType: readonly [type: string, unit: string];
  readonly period: number;
  /** Wall-clock milliseconds of the start, and the length in milliseconds. */
  readonly startMs: number;
  readonly durationMs: number;
}

/** Fields of the messages in github.com/google/pprof, proto/profile.proto. */
const PROFILE = {
  sampleType: 1,
  sample: 2,
  location: 4,
  function: 5,
  string: 6,
  time: 9,
  duration: 10,
  periodType: 11,
  period: 12,
};
const SAMPLE = { location: 1, value: 2 };
const LOCATION = { id: 1, line: 4 };
const LINE = { function: 1, line: 2 };
const FUNCTION = { id: 1, name: 2, filename: 4, startLine: 5 };

const NANOSECONDS = 1e6;

/**
 * Encodes a `perftools.profiles.Profile` for pprof, without compression. Every function is one location, at the line where the
 * function begins.
 */
export function encodeProfile(head: ProfileHead, samples: readonly StackSample[]): Uint8Array {
  return new Encoding().encode(head, samples);
}

/**
 * One encoding. The writer works back to front, so it writes lists in reverse order. The strings are complete last and come
 * first.
 */
class Encoding {
  readonly #writer = new Writer();
  readonly #strings = new Map<string, number>([["", 0]]);
  readonly #functions = new Map<string, { readonly id: number; readonly frame: CallFrame }>();

  encode(head: ProfileHead, samples: readonly StackSample[]): Uint8Array {
    const writer = this.#writer;
    writer.begin();
    for (const sample of samples) this.#sample(sample);
    for (const { id, frame } of this.#functions.values()) this.#function(id, frame);
    this.#number(PROFILE.period, head.period);
    this.#valueType(PROFILE.periodType, head.periodType);
    this.#number(PROFILE.duration, Math.round(head.durationMs * NANOSECONDS));
    this.#number(PROFILE.time, Math.round(head.startMs) * NANOSECONDS);
    for (const type of head.types.toReversed()) this.#valueType(PROFILE.sampleType, type);
    for (const text of [...this.#strings.keys()].toReversed()) {
      const mark = writer.length;
      writer.utf8(text);
      this.#close(PROFILE.string, mark);
    }
    return writer.finish();
  }

  #sample({ frames, values }: StackSample): void {
    const mark = this.#writer.length;
    this.#packed(SAMPLE.value, values);
    this.#packed(
      SAMPLE.location,
      frames.map((frame) => this.#functionId(frame)),
    );
    this.#close(PROFILE.sample, mark);
  }

  /** Writes the function, and the location with the same number. */
  #function(id: number, { functionName, url, lineNumber }: CallFrame): void {
    const line = lineNumber + 1;
    let mark = this.#writer.length;
    this.#number(FUNCTION.startLine, line);
    this.#number(FUNCTION.filename, this.#string(url));
    this.#number(FUNCTION.name, this.#string(functionName || "(anonymous)"));
    this.#number(FUNCTION.id, id);
    this.#close(PROFILE.function, mark);
    mark = this.#writer.length;
    this.#number(LINE.line, line);
    this.#number(LINE.function, id);
    this.#close(LOCATION.line, mark);
    this.#number(LOCATION.id, id);
    this.#close(PROFILE.location, mark);
  }

  #valueType(field: number, [type, unit]: readonly [string, string]): void {
    const mark = this.#writer.length;
    this.#number(2, this.#string(unit));
    this.#number(1, this.#string(type));
    this.#close(field, mark);
  }

  #functionId(frame: CallFrame): number {
    const key = `${frame.functionName}\0${frame.url}\0${frame.lineNumber}`;
    let known = this.#functions.get(key);
    if (known === undefined) {
      known = { id: this.#functions.size + 1, frame };
      this.#functions.set(key, known);
    }
    return known.id;
  }

  #string(text: string): number {
    let index = this.#strings.get(text);
    if (index === undefined) {
      index = this.#strings.size;
      this.#strings.set(text, index);
    }
    return index;
  }

  #packed(field: number, values: readonly number[]): void {
    const mark = this.#writer.length;
    for (const value of values.toReversed()) this.#writer.varint(value);
    this.#close(field, mark);
  }

  #number(field: number, value: number): void {
    this.#writer.varint(value);
    this.#writer.varint(field * 8 + WIRE.varint);
  }

  #close(field: number, mark: number): void {
    this.#writer.close(field * 8 + WIRE.bytes, mark);
  }
}
