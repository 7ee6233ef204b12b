import { GROUP } from "../../../src/pool/resources/objects.ts";

/**
 * The verdict table (api-resources 8.2; R-3), row by row: for our own parser, and for an API server with the definitions
 * of deploy/crds/. Where releases differ, the newest counts.
 */
export type Spec = Readonly<Record<string, unknown>>;

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: unknown;
}

/** A row that is admitted. */
export interface Accepted {
  readonly id: string;
  readonly object: Manifest;
  /** The whole `spec` that the server keeps; undefined = none. */
  readonly stored: Spec | undefined;
  /** What the parser makes of it, in part; undefined = there is nothing to act on. */
  readonly parsed: Spec | undefined;
  /** A field that the server drops: how who refuses unknown fields speaks of it. */
  readonly unknown?: Messages;
}

/** A row that is refused. */
export interface Refused {
  readonly id: string;
  readonly object: Manifest;
  readonly says: Messages;
}

/** Pieces of the messages of both; upper and lower case of the server's has changed between its versions. */
export interface Messages {
  readonly server: readonly string[];
  readonly parser: string;
}

/** A kind of the table with the object that its rows change. */
export class Base {
  private readonly apiVersion: string;
  private readonly kind: string;
  private readonly spec: Spec;
  private readonly defaults: Spec;

  /** @param defaults what the server adds to the spec, as far as whole fields of it */
  constructor(apiVersion: string, kind: string, spec: Spec, defaults: Spec = {}) {
    this.apiVersion = apiVersion;
    this.kind = kind;
    this.spec = spec;
    this.defaults = defaults;
  }

  /** An object with exactly this spec; undefined = without. */
  object(spec?: unknown): Manifest {
    const type = { apiVersion: this.apiVersion, kind: this.kind, metadata: { name: "x" } };
    return spec === undefined ? type : { ...type, spec };
  }

  /** The base object with some fields of its spec changed; `undefined` removes one. */
  with(change: Spec): Manifest {
    return this.object(defined({ ...this.spec, ...change }));
  }

  /**
   * @param parsed what the parser makes of the change, in part
   * @param stored the changed fields as the server keeps them, where it does not keep them as they are
   */
  accepted(id: string, change: Spec, parsed: Spec, stored: Spec = {}, unknown?: Messages): Accepted {
    const kept = defined({ ...this.spec, ...this.defaults, ...change, ...stored });
    return { id, object: this.with(change), stored: kept, parsed, ...(unknown && { unknown }) };
  }

  refused(id: string, change: Spec, server: string | readonly string[], parser: string): Refused {
    return { id, object: this.with(change), says: says(server, parser) };
  }
}

export const says = (server: string | readonly string[], parser: string): Messages => ({
  server: typeof server === "string" ? [server] : server,
  parser,
});

function defined(spec: Spec): Spec {
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined));
}

const epp = { name: "epp" };
const picked = { group: "", kind: "Service", failureMode: "FailClose" };
const stableRef = { group: GROUP.stable, kind: "InferencePool", name: "p" };

export const P = new Base(
  `${GROUP.experimental}/v1alpha2`,
  "InferencePool",
  { selector: { app: "a" }, targetPortNumber: 8000, extensionRef: epp },
  { extensionRef: { ...epp, ...picked } },
);
export const V = new Base(
  `${GROUP.stable}/v1`,
  "InferencePool",
  {
    selector: { matchLabels: { app: "a" } },
    targetPorts: [{ number: 8000 }],
    endpointPickerRef: { ...epp, port: { number: 9002 } },
  },
  { appProtocol: "http", endpointPickerRef: { ...epp, ...picked, port: { number: 9002 } } },
);
export const M = new Base(
  `${GROUP.experimental}/v1alpha2`,
  "InferenceModel",
  { modelName: "food", poolRef: { name: "p" } },
  { poolRef: { group: GROUP.experimental, kind: "InferencePool", name: "p" } },
);
/** Objectives and rewrites in the group they began in and the one they moved to. */
export const O = both("InferenceObjective", { priority: 1, poolRef: { name: "p" } });
export const R = both("InferenceModelRewrite", { poolRef: { name: "p" }, rules: [] });
export const I = new Base(`${GROUP.experimental}/v1alpha1`, "InferencePoolImport", {});

function both(kind: string, spec: Spec): { readonly x: Base; readonly llmd: Base } {
  const base = (group: string) => new Base(`${group}/v1alpha2`, kind, spec, { poolRef: stableRef });
  return { x: base(GROUP.experimental), llmd: base(GROUP.llmd) };
}
