import { messageOf, oneLine, SluiceError } from "../../base/inference/errors.ts";
import type { ApiRequest } from "./api-client.ts";

/** Why an API server refused, from its `Status` object (api-resources 1.10). */
interface StatusDetails {
  /** HTTP status; 0 = no answer came. */
  readonly status: number;
  /** `Conflict`, `NotFound`, `Expired`, `Invalid` and so on; "" where the server gives none. */
  readonly reason: string;
  /** Milliseconds after which the client may ask again (`Retry-After`); undefined = not given. */
  readonly retryAfter?: number | undefined;
  /** Of `Invalid` and `Conflict`: one entry per field. */
  readonly causes?: readonly { readonly field: string; readonly message: string }[];
}

/** The API server refused a request or could not be reached; the code is `KUBERNETES_API`. */
export class ApiError extends SluiceError {
  readonly status: number;
  readonly reason: string;
  readonly retryAfter: number | undefined;
  readonly causes: readonly { readonly field: string; readonly message: string }[];

  constructor(message: string, details: StatusDetails, options?: { readonly cause?: unknown }) {
    super("KUBERNETES_API", message, options);
    this.status = details.status;
    this.reason = details.reason;
    this.retryAfter = details.retryAfter;
    this.causes = details.causes ?? [];
  }

  /** The server no longer keeps the requested resource version: list again. */
  get expired(): boolean {
    return this.status === 410 || this.reason === "Expired";
  }

  /** The kind or object does not exist, or this client may not see it. For optional kinds neither is an error. */
  get absent(): boolean {
    return this.status === 404 || this.status === 403;
  }
}

/** The valid fields of a `Status` object. */
interface Status {
  readonly message: string;
  readonly reason: string;
  readonly code: number | undefined;
  readonly causes: readonly { readonly field: string; readonly message: string }[];
  readonly retryAfterSeconds: number | undefined;
}

/** The parts of a request that explain its refusal. */
type Asked = Pick<ApiRequest, "method" | "path" | "query">;

/** The answer with an error status. */
interface ErrorAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: string;
  /** Unix milliseconds now. */
  readonly wall: number;
}

/** Longest `Retry-After` that is honoured, milliseconds. */
const LONGEST_WAIT = 3_600_000;
/** Most causes that are kept; a validation error has one per field. */
const MAX_CAUSES = 100;

/** The error for an answer with an error status. Its message says what to do where that is known. */
export function answerError(server: string, asked: Asked, answer: ErrorAnswer): ApiError {
  const status = readStatus(parsed(answer.body));
  const details = {
    status: answer.status,
    reason: status?.reason ?? "",
    retryAfter: waitOf(answer.retryAfter, answer.wall) ?? secondsOf(status?.retryAfterSeconds),
    causes: status?.causes ?? [],
  };
  return new ApiError(oneLine(messageFor(server, asked, answer, status)), details);
}

/** The error in a watch event of type ERROR. @param what the watched kind, for the message */
export function eventError(what: string, object: unknown): ApiError {
  const status = readStatus(object);
  const message = status === undefined || status.message === "" ? "an error without a message" : status.message;
  return new ApiError(oneLine(`watch of ${what}: ${message}`), {
    status: status?.code ?? 500,
    reason: status?.reason ?? "",
    retryAfter: secondsOf(status?.retryAfterSeconds),
    causes: status?.causes ?? [],
  });
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function readStatus(value: unknown): Status | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { kind, message, reason, code, details } = value as Record<string, unknown>;
  if (kind !== "Status") return undefined;
  const { causes, retryAfterSeconds } = (typeof details === "object" && details !== null ? details : {}) as Record<
    string,
    unknown
  >;
  return {
    message: text(message),
    reason: text(reason),
    code: typeof code === "number" ? code : undefined,
    causes: (Array.isArray(causes) ? causes.slice(0, MAX_CAUSES) : []).map((cause) => ({
      field: text(cause?.field),
      message: text(cause?.message),
    })),
    retryAfterSeconds: typeof retryAfterSeconds === "number" ? retryAfterSeconds : undefined,
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function secondsOf(seconds: number | undefined): number | undefined {
  return seconds === undefined || !(seconds > 0) ? undefined : Math.min(LONGEST_WAIT, seconds * 1000);
}

/** Milliseconds for which a `Retry-After`, in seconds or as a date, asks. */
function waitOf(value: string | undefined, wall: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d+$/.test(value)) return Math.min(LONGEST_WAIT, Number(value) * 1000);
  const until = Date.parse(value);
  return Number.isNaN(until) ? undefined : Math.min(LONGEST_WAIT, Math.max(0, until - wall));
}

function messageFor(server: string, asked: Asked, { status, body }: ErrorAnswer, said: Status | undefined): string {
  const plain = `${server} answered ${status} to ${asked.method} ${asked.path}`;
  let message = said?.message ?? "";
  if (message === "") {
    const words = /^\s*[<{]/.test(body) ? "" : messageOf(body).trim().slice(0, 200);
    message = words === "" ? plain : `${plain}: ${words}`;
  }
  const what = resourceOf(asked);
  if (status === 401)
    return `${message}: ${server} does not accept Sluice's token or certificate, which may have expired`;
  if (status === 403 && what !== undefined) {
    const account = /system:serviceaccount:([^:"\s]+):([^:"\s]+)/.exec(message);
    const who = account === null ? "this user" : `the service account ${account[1]}/${account[2]}`;
    const role = what.namespace === undefined ? "a ClusterRole" : "a Role";
    const where = what.namespace === undefined ? "" : ` in namespace ${what.namespace}`;
    return `${message}: give ${who} ${role} with ${what.verb} on ${what.resource}${where}`;
  }
  if (
    status === 404 &&
    what !== undefined &&
    (said === undefined || /could not find the requested resource/.test(message))
  )
    return `${message}: the server has no ${what.resource}; the CRD may be missing`;
  return message;
}

/** Verb, resource and namespace as a role names them; undefined for paths that aren't about objects. */
function resourceOf({ method, path, query }: Asked) {
  const parts =
    /^\/(?:api\/[^/]+|apis\/([^/]+)\/[^/]+)(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(path);
  if (parts === null) return undefined;
  const [, group, namespace, plural, name, subresource] = parts;
  const verbs = { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" } as const;
  const reading = name !== undefined ? "get" : query?.["watch"] ? "watch" : "list";
  const resource = group === undefined ? plural! : `${plural}.${group}`;
  return {
    verb: method === "GET" ? reading : verbs[method],
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    namespace,
  };
}
