import type { Json } from "./object.ts";

/** One field of `details.causes`. */
export interface Cause {
  readonly reason: string;
  readonly message: string;
  readonly field: string;
}

const REASONS: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "Conflict",
  410: "Expired",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** What an API server answers instead of the thing asked for. */
export class Refusal extends Error {
  readonly status: number;
  readonly reason: string;
  readonly details: Json | undefined;

  constructor(status: number, message: string, options: { readonly reason?: string; readonly details?: Json } = {}) {
    super(message);
    this.status = status;
    this.reason = options.reason ?? REASONS[status] ?? "";
    this.details = options.details;
  }

  /** The body: a `Status` object. */
  body(): Json {
    return {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: this.message,
      ...(this.reason === "" ? {} : { reason: this.reason }),
      ...(this.details === undefined ? {} : { details: this.details }),
      code: this.status,
    };
  }
}

/** What a refusal says of the kind of the object. */
export interface Named {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
}

/** `pods`, `leases.coordination.k8s.io` */
export function qualified({ group, plural }: Pick<Named, "group" | "plural">): string {
  return group === "" ? plural : `${plural}.${group}`;
}

function detailsOf({ group, plural }: Named, name: string, more: Json = {}): Json {
  return { name, ...(group === "" ? {} : { group }), kind: plural, ...more };
}

export function notFound(kind: Named, name: string): Refusal {
  return new Refusal(404, `${qualified(kind)} "${name}" not found`, { details: detailsOf(kind, name) });
}

export function alreadyExists(kind: Named, name: string): Refusal {
  const details = detailsOf(kind, name);
  return new Refusal(409, `${qualified(kind)} "${name}" already exists`, { reason: "AlreadyExists", details });
}

export function conflict(kind: Named, name: string, why?: string): Refusal {
  const cause = why ?? "the object has been modified; please apply your changes to the latest version and try again";
  const message = `Operation cannot be fulfilled on ${qualified(kind)} "${name}": ${cause}`;
  return new Refusal(409, message, { details: detailsOf(kind, name) });
}

/** Fields that break the rules of their kind. */
export function invalid(kind: Named, name: string, causes: readonly Cause[]): Refusal {
  const each = causes.map((cause) => `${cause.field}: ${cause.message}`);
  const what = kind.group === "" ? kind.kind : `${kind.kind}.${kind.group}`;
  const list = each.length === 1 ? each[0] : `[${each.join(", ")}]`;
  return new Refusal(422, `${what} "${name}" is invalid: ${list}`, {
    details: { ...detailsOf(kind, name), kind: kind.kind, causes },
  });
}

/** The version asked for is no longer kept. */
export function expired(message: string): Refusal {
  return new Refusal(410, message);
}
