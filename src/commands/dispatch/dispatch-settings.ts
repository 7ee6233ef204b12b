import { isIP } from "node:net";
import { resolve } from "node:path";
import { z } from "zod";
import { type ConfigDocument, readConfigDocument } from "../../async/dispatch/config/config-document.ts";
import { type DispatchFile, readDispatchFile, type SectionName } from "../../async/dispatch/config/dispatch-file.ts";
import { isHttpUrl } from "../../async/dispatch/config/fields.ts";
import { duration } from "../../base/document/duration-schema.ts";
import { quantity } from "../../base/document/quantity.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { type FlagSetting, flagSettings } from "../common/flag-settings.ts";
import { checkInert, type FlagRow, type FlagValues, MAX_DURATION, type ParsedFlags } from "../common/go-flags.ts";
import { DISPATCH_FLAGS } from "./dispatch-flag-table.ts";
import { LEGACY_FLAGS } from "./dispatch-legacy-table.ts";

/** All flags of `sluice dispatch`. */
export const ALL_FLAGS = [...DISPATCH_FLAGS, ...LEGACY_FLAGS] as const;

export type DispatchValues = FlagValues<typeof ALL_FLAGS>;

/** Flags that are not keys of the file: the file has sections for three of them, and the fourth names the file. */
const NOT_IN_FILE: ReadonlySet<string> = new Set([
  "config",
  "transport",
  "transport-config",
  "request-merge-policy-config",
]);

/** The flags that are keys of a dispatch.yaml. */
export const FILE_FLAGS: readonly FlagRow[] = DISPATCH_FLAGS.filter(({ name }) => !NOT_IN_FILE.has(name));

/** The settings in force: those of the command line, then those of a dispatch.yaml. */
export class DispatchSettings {
  readonly values: DispatchValues;
  /** Names of the flags on the command line or in the file. */
  readonly given: ReadonlySet<string>;
  readonly file: DispatchFile | undefined;
  readonly warnings: readonly string[];
  readonly #explicit: ReadonlySet<string>;

  private constructor(line: ParsedFlags<typeof ALL_FLAGS>, file: DispatchFile | undefined) {
    const fromFile = Object.entries(file?.values ?? {}).filter(([name]) => !line.explicit.has(name as never));
    this.values = { ...line.values, ...Object.fromEntries(fromFile) };
    this.given = new Set([...line.explicit, ...fromFile.map(([name]) => name)]);
    this.file = file;
    this.#explicit = line.explicit;
    this.warnings = [
      ...line.warnings,
      ...FILE_FLAGS.flatMap((row) =>
        fromFile.some(([name]) => name === row.name) ? checkInert(row, file?.values[row.name]) : [],
      ),
    ];
  }

  /** @throws SluiceError DOCUMENT_... for a fault in the file */
  static async read(line: ParsedFlags<typeof ALL_FLAGS>): Promise<DispatchSettings> {
    const path = line.values.config;
    return new DispatchSettings(line, path === "" ? undefined : await readDispatchFile(path, fileSchemas()));
  }

  /** @param file the only source of settings besides the defaults of `line` */
  static ofFile(line: ParsedFlags<typeof ALL_FLAGS>, file: DispatchFile): DispatchSettings {
    return new DispatchSettings(line, file);
  }

  /** Whether the flag is on the command line, not in the file. */
  isExplicit(flag: keyof DispatchValues): boolean {
    return this.#explicit.has(flag);
  }

  /** The name of a flag in messages: `--name`, or its place in the file. */
  nameOf(flag: keyof DispatchValues): string {
    return this.file !== undefined && !this.#explicit.has(flag) && this.given.has(flag)
      ? this.file.placeOf(flag)
      : `--${flag}`;
  }

  /** The path that a flag names; undefined = none. A path in the file is relative to the folder of the file. */
  pathOf(flag: PathFlag): string | undefined {
    const path = this.values[flag];
    if (path === "") return undefined;
    return this.file === undefined || this.#explicit.has(flag) ? path : resolve(this.file.folder, path);
  }

  /**
   * The document that a flag names, or that the file contains.
   * @throws SluiceError FLAG_CONFLICT when the file has both, DOCUMENT_...
   */
  async document(flag: PathFlag, section: SectionName): Promise<ConfigDocument | undefined> {
    const path = this.pathOf(flag);
    const inline = this.file?.section(section);
    if (path !== undefined && inline !== undefined && !this.#explicit.has(flag))
      throw new SluiceError("FLAG_CONFLICT", `${this.nameOf(flag)} and ${section} are mutually exclusive`);
    return path === undefined ? inline : readConfigDocument(path);
  }

  /** Checks combinations of flags, and values that their type does not limit. @throws SluiceError FLAG_... */
  validate(): void {
    const { values } = this;
    if (this.given.has("metrics-endpoint-auth") && values["metrics-endpoint-auth"])
      throw new SluiceError(
        "FLAG_UNSUPPORTED",
        `${this.nameOf("metrics-endpoint-auth")}=true is not supported; remove the flag, or write false: then ` +
          "/metrics answers everyone",
      );
    if ((values["tls-cert"] === "") !== (values["tls-key"] === ""))
      throw new SluiceError("FLAG_CONFLICT", "--tls-cert and --tls-key must be given together");
    if (values["health-port"] === values["metrics-port"] && values["health-port"] !== 0)
      throw new SluiceError(
        "FLAG_CONFLICT",
        `--health-port and --metrics-port are both ${values["health-port"]}; give each its own port`,
      );
    if (isIP(this.bindAddress) === 0)
      throw this.#wrong("bind-address", "is not an IP address; write for example 127.0.0.1, 0.0.0.0 or ::");
    if (!/^([\w!#$%&'*+.^`|~-]{1,256})?$/.test(values["deadline-header"]))
      throw this.#wrong("deadline-header", "is not a legal header name");
    // The URL may contain a password, so the message does not repeat it.
    if (values["prometheus-url"] !== "" && !isHttpUrl(values["prometheus-url"]))
      throw new SluiceError(
        "FLAG_CONFLICT",
        `${this.nameOf("prometheus-url")} must be an absolute URL such as http://prometheus:9090`,
      );
  }

  /** Every flag with the origin of its value, without secrets. */
  entries(env: Readonly<Record<string, string | undefined>>): readonly FlagSetting[] {
    return flagSettings(ALL_FLAGS, { values: this.values, explicit: this.#explicit }, env, (flag) =>
      this.file !== undefined && this.given.has(flag) ? this.nameOf(flag as keyof DispatchValues) : undefined,
    );
  }

  get bindAddress(): string {
    return this.values["bind-address"].replace(/^\[(.*)\]$/, "$1");
  }

  #wrong(flag: keyof DispatchValues, problem: string): SluiceError {
    return new SluiceError(
      "FLAG_CONFLICT",
      `${this.nameOf(flag)}: ${JSON.stringify(String(this.values[flag]).slice(0, 100))} ${problem}`,
    );
  }
}

type PathFlag =
  | "transport-config-file"
  | "pool-config-file"
  | "request-merge-policy-config-file"
  | "request-merge-policy-config"
  | "transform-config-file"
  | "tls-ca-cert"
  | "tls-cert"
  | "tls-key"
  | "gateway-key-file";

/** The schemas of the keys of a dispatch.yaml that are flags, by name. */
export function fileSchemas(): Readonly<Record<string, z.ZodType>> {
  return Object.fromEntries(FILE_FLAGS.map((row) => [row.name, flagSchema(row)]));
}

/** The schema of a flag's value in a file: the same values as on the command line, but with YAML types. */
export function flagSchema(row: FlagRow): z.ZodType {
  switch (row.type) {
    case "bool":
      return z.boolean();
    case "int":
      return z
        .int()
        .min(row.min ?? Number.MIN_SAFE_INTEGER)
        .max(row.max ?? Number.MAX_SAFE_INTEGER);
    case "duration":
      return z.preprocess(
        // 0 is the one duration that needs no unit, on the command line, too.
        (value) => (value === 0 ? "0" : value),
        duration({ min: row.min ?? 0 }).pipe(z.number().max(row.max ?? MAX_DURATION)),
      );
    case "quantity":
      return quantity().pipe(
        z
          .number()
          .min(row.min ?? 0)
          .max(row.max ?? Number.MAX_SAFE_INTEGER),
      );
    case "list":
      return z.array(z.string());
    case "string":
      return row.choices === undefined ? z.string() : z.enum(row.choices);
  }
}
