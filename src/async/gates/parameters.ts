import { z } from "zod";
import { parseDuration } from "../../base/document/duration.ts";
import { isObject } from "../../base/document/json-object.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { GateSpec } from "../../base/plugin/gate.ts";
import { plainNumber } from "./number-text.ts";

/**
 * The kinds of gate parameters with the coercions of async-processor 3.2. Absent, null and "" mean the default. Without a
 * default they are an error, and with `optional` they are undefined. Messages repeat no texts, because texts may be secrets.
 */
export interface ParameterOptions<T> {
  readonly default?: T;
}

export interface OptionalParameter {
  readonly optional: true;
}

/** The range of a number; a default is not checked. */
export interface Bounds {
  readonly min?: number;
  readonly max?: number;
  /** The value must be above this. */
  readonly moreThan?: number;
  /** The value must be below this. */
  readonly lessThan?: number;
}

type Parameters = Readonly<Record<string, unknown>>;
type JsonType = "string" | "number" | "boolean" | "object" | "array";
type Schema<T> = z.ZodType<T, unknown>;

interface Kind<T> {
  /** For messages: "a number". */
  readonly name: string;
  readonly accepts: readonly JsonType[];
  /** For the JSON Schema: the only words, or what the value is made of. */
  readonly words?: readonly string[];
  readonly holds?: "gate" | "gates";
  /** @throws SluiceError with the error in a value that is neither absent, null nor "" */
  read(value: unknown): T | undefined;
}

const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** @param shown the default as the reference shows it */
function parameter<T>(kind: Kind<T>, options: ParameterOptions<T> | OptionalParameter, shown?: unknown): Schema<T> {
  const fallback = "default" in options ? options.default : undefined;
  return z
    .unknown()
    .optional()
    .meta({
      type: kind.accepts.join(" or "),
      ...(fallback === undefined ? {} : { default: shown ?? fallback }),
      ...(kind.words === undefined ? {} : { words: kind.words }),
      ...(kind.holds === undefined ? {} : { holds: kind.holds }),
    })
    .transform((value, context) => {
      let problem = `is missing (${kind.name})`;
      try {
        const read = value === undefined || value === null || value === "" ? undefined : kind.read(value);
        const result = read ?? fallback;
        if (result !== undefined || "optional" in options) return result as T;
      } catch (error) {
        problem = (error as Error).message;
      }
      context.addIssue({ code: "custom", message: problem });
      return z.NEVER;
    });
}

function wrong(problem: string): SluiceError {
  return new SluiceError("GATE_PARAMETERS", problem);
}

/** `undefined` for texts that Go would not read as a number either: "NaN" and "inf" are no thresholds. */
function numberIn(value: unknown): number | undefined {
  const number = typeof value === "string" && DECIMAL.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

function bounded(value: number, { min, max, moreThan, lessThan }: Bounds): number {
  if (min !== undefined && value < min) throw wrong(`must be at least ${min}, got ${value}`);
  if (max !== undefined && value > max) throw wrong(`must be at most ${max}, got ${value}`);
  if (moreThan !== undefined && value <= moreThan) throw wrong(`must be more than ${moreThan}, got ${value}`);
  if (lessThan !== undefined && value >= lessThan) throw wrong(`must be less than ${lessThan}, got ${value}`);
  return value;
}

/** The JSON value in a text; other values unchanged. */
function parsed(value: unknown, name: string): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    throw wrong(`expected ${name}, or the same as JSON text; this text is not JSON`);
  }
}

function objectIn(value: unknown, name: string): Parameters | undefined {
  const found = parsed(value, name);
  if (found === null) return undefined;
  if (typeof found !== "object" || Array.isArray(found)) throw wrong(`expected ${name}, or the same as JSON text`);
  return found as Parameters;
}

function textOf(value: unknown): string | undefined {
  if (typeof value === "number") return plainNumber(value);
  return typeof value === "string" || typeof value === "boolean" ? String(value) : undefined;
}

const stringKind: Kind<string> = {
  name: "a string",
  accepts: ["string", "number", "boolean"],
  // A value that is not a text means the default, too.
  read: textOf,
};

/** A text; numbers are rendered without exponent. */
export function stringParameter(options?: ParameterOptions<string>): Schema<string>;
export function stringParameter(options: OptionalParameter): Schema<string | undefined>;
export function stringParameter(
  options: ParameterOptions<string> | OptionalParameter = {},
): Schema<string | undefined> {
  return parameter(stringKind, options);
}

/** One of a few words. */
export function choiceParameter<const W extends string>(
  words: readonly W[],
  options: ParameterOptions<NoInfer<W>> = {},
): Schema<W> {
  const list = words.map((word) => `\`${word}\``).join(", ");
  return parameter<W>(
    {
      name: `one of ${list}`,
      accepts: ["string"],
      words,
      read(value) {
        const word = words.find((known) => known === value);
        if (word === undefined) throw wrong(`expected one of ${list}`);
        return word;
      },
    },
    options,
  );
}

/** Yes or no: a boolean, or "true" or "false". */
export function booleanParameter(options?: ParameterOptions<boolean>): Schema<boolean> {
  return parameter<boolean>(
    {
      name: "true or false",
      accepts: ["boolean", "string"],
      read(value) {
        if (value === true || value === "true") return true;
        if (value === false || value === "false") return false;
        throw wrong("expected true or false");
      },
    },
    options ?? {},
  );
}

/** A finite number, or one as text. */
export function floatParameter(options?: ParameterOptions<number> & Bounds): Schema<number>;
export function floatParameter(options: OptionalParameter & Bounds): Schema<number | undefined>;
export function floatParameter(
  options: (ParameterOptions<number> | OptionalParameter) & Bounds = {},
): Schema<number | undefined> {
  const name = 'a number such as 0.8 or "0.8"';
  return parameter<number>(
    {
      name,
      accepts: ["number", "string"],
      read(value) {
        const number = numberIn(value);
        if (number === undefined) throw wrong(`expected ${name}`);
        return bounded(number, options);
      },
    },
    options,
  );
}

/** A whole number, or one in decimal digits as text. */
export function intParameter(options?: ParameterOptions<number> & Bounds): Schema<number>;
export function intParameter(options: OptionalParameter & Bounds): Schema<number | undefined>;
export function intParameter(
  options: (ParameterOptions<number> | OptionalParameter) & Bounds = {},
): Schema<number | undefined> {
  const name = 'a whole number such as 10 or "10"';
  return parameter<number>(
    {
      name,
      accepts: ["number", "string"],
      read(value) {
        const number = typeof value === "string" && !/^[+-]?\d+$/.test(value) ? undefined : numberIn(value);
        if (number === undefined || !Number.isSafeInteger(number)) throw wrong(`expected ${name}`);
        return bounded(number, options);
      },
    },
    options,
  );
}

/** A duration in Go's notation; the result is in milliseconds. `default` uses the same notation, bounds are milliseconds. */
export function durationParameter(options: ParameterOptions<string> & Bounds = {}): Schema<number> {
  const name = 'a duration with a unit such as "90s" or "1m30s"';
  const kind: Kind<number> = {
    name,
    accepts: ["string"],
    read(value) {
      if (typeof value !== "string") throw wrong(`expected ${name}`);
      let milliseconds: number;
      try {
        milliseconds = parseDuration(value);
      } catch {
        throw wrong(`expected ${name}`);
      }
      return bounded(milliseconds, { min: 0, ...options });
    },
  };
  const { default: text } = options;
  return text === undefined ? parameter(kind, {}) : parameter(kind, { default: parseDuration(text) }, text);
}

/** Names and texts: an object, or one as JSON text. Absent = none. */
export function textMapParameter(): Schema<Readonly<Record<string, string>>> {
  const name = "an object that maps names to strings";
  return parameter<Readonly<Record<string, string>>>(
    {
      name,
      accepts: ["object", "string"],
      read(value) {
        const object = objectIn(value, name);
        if (object === undefined) return undefined;
        return Object.fromEntries(
          Object.entries(object).map(([key, inner]) => {
            const text = textOf(inner);
            if (text === undefined) throw wrong(`expected a string for ${JSON.stringify(key)}`);
            return [key, text];
          }),
        );
      },
    },
    { default: {} },
  );
}

/** Parameters of an inner part: an object, or one as JSON text. */
export function objectParameter(options: ParameterOptions<Parameters> = {}): Schema<Parameters> {
  const name = "an object";
  return parameter({ name, accepts: ["object", "string"], read: (value) => objectIn(value, name) }, options);
}

const GATE = "a gate with `gate_type` and optional `gate_params`";

/** One gate inside this one: `{"gate_type": ..., "gate_params": ...}`, or that as JSON text. */
export function gateParameter(): Schema<GateSpec> {
  return parameter({ name: GATE, accepts: ["object", "string"], holds: "gate", read: gateIn }, {});
}

/** Gates inside this one: a list, or one as JSON text. */
export function gateListParameter(): Schema<readonly GateSpec[]> {
  const name = "a list of gates";
  return parameter<readonly GateSpec[]>(
    {
      name,
      accepts: ["array", "string"],
      holds: "gates",
      read(value) {
        const list = parsed(value, name);
        if (list === null) return undefined;
        if (!Array.isArray(list)) throw wrong(`expected ${name}, or the same as JSON text`);
        return list.map((entry, at) => {
          const gate = gateIn(entry, `entry ${at}: `);
          if (gate === undefined) throw wrong(`entry ${at}: expected ${GATE}`);
          return gate;
        });
      },
    },
    {},
  );
}

function gateIn(value: unknown, where = ""): GateSpec | undefined {
  const { gate_type: type, gate_params: parameters, ...rest } = objectIn(value, `${where}${GATE}`) ?? {};
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw wrong(`${where}unknown key \`${unknown.slice(0, 80)}\`; expected ${GATE}`);
  // A gate without a type would let every message pass; an inner gate for that purpose is a mistake.
  if (typeof type !== "string" || type === "") throw wrong(`${where}\`gate_type\` is missing; expected ${GATE}`);
  const none = parameters === undefined || parameters === null || parameters === "";
  return { type, parameters: (none ? undefined : objectIn(parameters, `${where}\`gate_params\` as an object`)) ?? {} };
}

/** JSON with ordered keys: equal parameters give equal text. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}
