import { parseDuration } from "../../base/document/duration.ts";
import { didYouMean, nearest } from "../../base/document/nearest.ts";
import { parseQuantity } from "../../base/document/quantity.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";

/** Duration: milliseconds. Quantity: a Kubernetes quantity, with an optional trailing B. List: comma-separated, repeatable. */
type FlagType = "bool" | "int" | "string" | "duration" | "list" | "quantity";

/** One flag of a program with the same command line as the reference's Go programs. */
export interface FlagRow {
  /** Current name, without dashes. */
  readonly name: string;
  /** Older spellings. */
  readonly aliases?: readonly string[];
  readonly type: FlagType;
  /** The default as typed; "" for an empty string or list. */
  readonly default: string;
  /** Release of the reference that introduced the flag; "ours" for flags that only Sluice has. */
  readonly since: string;
  readonly help: string;
  /** Placeholder of the value in help texts; the type when absent. */
  readonly takes?: string;
  /** The only legal texts, in any case of letters. */
  readonly choices?: readonly string[];
  /** Bounds of an int, a duration (milliseconds) or a quantity. */
  readonly min?: number;
  readonly max?: number;
  /** Environment variable that sets the value when the flag is absent. */
  readonly env?: string;
  /** The value may contain a secret anywhere, so no log and no page shows any of it. */
  readonly secret?: boolean;
  /** The reason why users should stop using the flag. It works, with a warning. */
  readonly deprecated?: string;
  /** For a flag of the reference that has no effect in sluice. */
  readonly inert?: Inert;
}

/** The treatment of a flag that has no effect. */
export interface Inert {
  /** Values that ask for the behaviour that Sluice has anyway: accepted without a warning. */
  readonly harmless?: readonly string[];
  /** Any other value causes a warning, or an error. */
  readonly otherwise: "warn" | "refuse";
  /** The rest of the sentence that begins with the flag. */
  readonly because: string;
}

interface TypeValues {
  readonly bool: boolean;
  readonly int: number;
  readonly string: string;
  readonly duration: number;
  readonly list: readonly string[];
  readonly quantity: number;
}

type ValueOf<R extends FlagRow> = R extends { readonly choices: readonly (infer C)[] } ? C : TypeValues[R["type"]];

/** The values of a table's flags by name. */
export type FlagValues<T extends readonly FlagRow[]> = { [R in T[number] as R["name"]]: ValueOf<R> };

/** The values of the flags of one part of a larger table. */
export interface GivenFlags<T extends readonly FlagRow[]> {
  readonly values: FlagValues<T>;
  /** Names of the flags on the command line, including those of other parts. */
  readonly explicit: ReadonlySet<string>;
}

/** A parsed command line. */
export interface ParsedFlags<T extends readonly FlagRow[]> {
  readonly values: FlagValues<T>;
  /** Names of the flags on the command line. */
  readonly explicit: ReadonlySet<T[number]["name"]>;
  /** True for `--help` or `-h`; the parser does not read the words after it. */
  readonly help: boolean;
  readonly warnings: readonly string[];
}

/** Node's timers take 31 bits of milliseconds, a little less than 25 days. */
export const MAX_DURATION = 2 ** 31 - 1;
const TRUE = new Set(["1", "t", "T", "TRUE", "true", "True"]);
const FALSE = new Set(["0", "f", "F", "FALSE", "false", "False"]);

/**
 * Reads a command line by the rules of Go's `flag` and `pflag` together: one or two dashes for every name, `--name value` and
 * `--name=value`, and a boolean without a value for true. Source: epp-protocol 13.1, api-resources 6B.2.
 * @param env environment; a malformed value in it causes a warning and counts as absent
 * @throws SluiceError FLAG_UNKNOWN, FLAG_SYNTAX, FLAG_VALUE, FLAG_UNSUPPORTED; the caller chooses the exit code
 */
export function parseGoFlags<const T extends readonly FlagRow[]>(
  args: readonly string[],
  table: T,
  env: Readonly<Record<string, string | undefined>>,
): ParsedFlags<T> {
  const rows = new Map<string, FlagRow>();
  for (const row of table) for (const name of [row.name, ...(row.aliases ?? [])]) rows.set(name, row);
  const values: Record<string, unknown> = {};
  const explicit = new Set<string>();
  const warnings: string[] = [];
  for (const row of table) values[row.name] = initial(row, env, warnings);

  for (let at = 0; at < args.length; at++) {
    const { name, text: attached } = split(args[at]!, rows);
    if (name === "help" || name === "h") return done(true);
    const row = rows.get(name);
    if (row === undefined) throw unknown(name, rows);
    const text = attached ?? (row.type === "bool" ? boolWord() : valueWord(row));
    const value = parseValue(row, text);
    warnings.push(...checkInert(row, value));
    if (row.deprecated !== undefined) warnings.push(`--${row.name} is deprecated: ${row.deprecated}`);
    // The first list replaces the default; each further list adds to it.
    const before = row.type === "list" && explicit.has(row.name) ? (values[row.name] as readonly string[]) : [];
    values[row.name] = row.type === "list" ? [...before, ...(value as readonly string[])] : value;
    explicit.add(row.name);

    function boolWord(): string {
      const next = args[at + 1];
      if (next === undefined || next.startsWith("-")) return "true";
      // Charts that render flags from maps write a boolean as two words. Go would take the second word for the end of the flags
      // (api-resources 6B.2).
      if (next === "true" || next === "false") return args[++at]!;
      throw new SluiceError(
        "FLAG_SYNTAX",
        `--${name} takes no separate value, but ${JSON.stringify(next)} follows it; write --${name} or --${name}=false`,
      );
    }

    function valueWord({ type }: FlagRow): string {
      const next = args[at + 1];
      const isFlag = next !== undefined && /^--?[^-=\d]/.test(next) && rows.has(nameOf(next));
      if (next === undefined || isFlag) {
        const found = isFlag ? `, but the flag ${next} follows` : "";
        throw new SluiceError("FLAG_SYNTAX", `--${name} needs a value (${KINDS[type]})${found}; write --${name}=VALUE`);
      }
      at++;
      return next;
    }
  }
  return done(false);

  function done(help: boolean): ParsedFlags<T> {
    return { values: values as FlagValues<T>, explicit: explicit as Set<T[number]["name"]>, help, warnings };
  }
}

const KINDS: Readonly<Record<FlagType, string>> = {
  bool: "true or false",
  int: "a whole number",
  string: "a string",
  duration: "a duration such as 50ms or 1m30s",
  list: "a comma-separated list",
  quantity: "a size such as 64Mi",
};

/** Splits `--name=text`, and `-v4` as pflag does; throws for a word that is not a flag. */
function split(word: string, rows: ReadonlyMap<string, FlagRow>): { name: string; text: string | undefined } {
  if (!/^--?[^-=]/.test(word)) {
    const hint = nearest(word, rows.keys());
    const help =
      hint === undefined
        ? "write each value after its flag, as --name=value"
        : `did you mean --${rows.get(hint)?.name}?`;
    throw new SluiceError("FLAG_SYNTAX", `${JSON.stringify(word.slice(0, 100))} is not a flag; ${help}`);
  }
  const short = /^-([a-zA-Z])(\d+)$/.exec(word);
  if (short !== null && !rows.has(nameOf(word)) && rows.get(short[1]!)?.type === "int")
    return { name: short[1]!, text: short[2] };
  const equals = word.indexOf("=");
  return { name: nameOf(word), text: equals < 0 ? undefined : word.slice(equals + 1) };
}

function nameOf(word: string): string {
  return word.replace(/^--?/, "").split("=", 1)[0]!;
}

function initial(row: FlagRow, env: Readonly<Record<string, string | undefined>>, warnings: string[]): unknown {
  const text = row.env === undefined ? undefined : env[row.env];
  if (text) {
    try {
      return parseValue(row, text);
    } catch (error) {
      const wrong = messageOf(error).slice(`--${row.name}=`.length);
      warnings.push(`environment variable ${row.env} is ignored: ${wrong}`);
    }
  }
  return parseValue(row, row.default);
}

function parseValue(row: FlagRow, text: string): unknown {
  switch (row.type) {
    case "string":
      return row.choices === undefined ? text : choiceOf(row, row.choices, text);
    case "list":
      return text
        .split(",")
        .map((part) => part.trim())
        .filter((part) => part !== "");
    case "bool":
      if (TRUE.has(text) || FALSE.has(text)) return TRUE.has(text);
      throw wrong(row, text, "use true or false");
    case "int":
      if (!/^[+-]?\d{1,15}$/.test(text)) throw wrong(row, text, `the flag takes ${KINDS.int}`);
      return bounded(row, text, Number(text) + 0, row.max);
    case "duration":
      return bounded(row, text, orWrong(row, text, parseDuration), row.max ?? MAX_DURATION);
    case "quantity":
      // The reference's default is the empty text, which means 0.
      if (text === "") return row.default === "" ? 0 : parseValue(row, row.default);
      // People write `10MiB` and `25MB`; the B has no meaning.
      return bounded(row, text, orWrong(row, text.replace(/[bB]$/, ""), parseQuantity), row.max);
  }
}

function choiceOf(row: FlagRow, choices: readonly string[], text: string): string {
  const lower = text.toLowerCase();
  const found = choices.find((choice) => choice.toLowerCase() === lower);
  if (found !== undefined) return found;
  const shown = choices.filter((choice) => choice !== "").join(", ");
  throw wrong(row, text, `the flag takes one of ${shown}${didYouMean(text, choices)}`);
}

function orWrong(row: FlagRow, text: string, parse: (text: string) => number): number {
  try {
    return parse(text);
  } catch (error) {
    throw wrong(row, text, messageOf(error));
  }
}

function bounded(row: FlagRow, text: string, value: number, max: number | undefined): number {
  const unit = row.type === "duration" ? "ms" : "";
  if (row.min !== undefined && value < row.min) throw wrong(row, text, `the smallest value is ${row.min}${unit}`);
  if (max !== undefined && value > max) throw wrong(row, text, `the largest value is ${max}${unit}`);
  return value;
}

function wrong(row: FlagRow, text: string, problem: string): SluiceError {
  return new SluiceError("FLAG_VALUE", `--${row.name}=${JSON.stringify(text.slice(0, 100))} is not valid: ${problem}`);
}

function unknown(name: string, rows: ReadonlyMap<string, FlagRow>): SluiceError {
  const hint = nearest(name, rows.keys());
  const ending = hint === undefined ? "; --help lists the flags" : `; did you mean --${rows.get(hint)?.name}?`;
  return new SluiceError("FLAG_UNKNOWN", `unknown flag --${name.slice(0, 100)}${ending}`);
}

/**
 * The warnings that an inert flag causes.
 * @throws SluiceError FLAG_UNSUPPORTED
 */
export function checkInert({ name, inert, type }: FlagRow, value: unknown): string[] {
  if (inert === undefined) return [];
  // Charts for other engines render values with quotes inside (api-resources 6B.2).
  const text = type === "string" ? String(value).replace(/^"(.*)"$/, "$1") : String(value);
  if (inert.harmless?.includes(text)) return [];
  if (inert.otherwise === "warn") return [`--${name} ${inert.because}`];
  throw new SluiceError("FLAG_UNSUPPORTED", `--${name} ${inert.because}`);
}
