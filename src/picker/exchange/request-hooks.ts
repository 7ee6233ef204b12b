import type { SchedulingResult } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { oneLine, SluiceError } from "../../base/inference/errors.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { RequestHook, ResponseCompleteContext, ResponseReceivedContext } from "../../base/plugin/kinds.ts";
import type { DynamicMetadata, EndCause, MetadataValue } from "./wire.ts";

/** The extension points outside of the scheduler: values of the label `extension_point` (scheduling 3.2). */
type ExchangePoint = "RequestHeader" | "PreRequest" | "ResponseReceived" | "ResponseComplete";

/**
 * Measures how long plugins take. It measures every call: a user who configures such a plugin pays more for the plugin itself.
 */
export interface PluginCalls {
  /** Monotonic milliseconds. */
  now(): number;
  called(point: ExchangePoint, plugin: { readonly name: string; readonly type: string }, ms: number): void;
}

export const UNTIMED: PluginCalls = { now: () => 0, called() {} };

/** The cause that hooks get for each way in which an exchange ends (scheduling 3.2). */
const CAUSES: Record<EndCause, ResponseCompleteContext["cause"]> = {
  complete: "natural",
  "no-response-phase": "natural",
  "client-gone": "client-disconnect",
  interrupted: "error",
  rejected: "error",
  error: "error",
};

/** Calls the hooks for one exchange. All calls use the configuration of the first call, also after a reload. */
export class HookRun {
  readonly #inForce: () => RequestHooks;
  #hooks: RequestHooks | undefined;
  /** The scheduled request without its body: hooks may read it later. */
  #request: InferenceRequest | undefined;

  /** @param inForce returns the hooks of the configuration in force */
  constructor(inForce: () => RequestHooks) {
    this.#inForce = inForce;
  }

  /** Call this when the request was scheduled. */
  routed(request: InferenceRequest, result: SchedulingResult): HookAdditions {
    const hooks = this.#take();
    if (!hooks.empty) this.#request = withoutBody(request);
    return hooks.preRequest(request, result);
  }

  /** Call this when response headers have arrived, with or without a request phase before them. */
  received(
    endpoint: Endpoint | undefined,
    status: number,
    headers: HeaderList,
    metadata: ResponseReceivedContext["metadata"],
  ): HeaderList | undefined {
    const hooks = this.#take();
    if (hooks.empty) return undefined;
    return hooks.responseReceived({ request: this.#request, endpoint, status, headers, metadata });
  }

  /**
   * Call this when the exchange is over. Hooks hear only of exchanges that were scheduled.
   * @returns metadata for the last message of a complete response
   */
  ended(
    cause: EndCause,
    evicted: boolean,
    seen: Pick<ResponseCompleteContext, "endpoint" | "status" | "usage">,
  ): DynamicMetadata | undefined {
    if (this.#request === undefined || this.#hooks === undefined) return undefined;
    const { endpoint, status, usage } = seen;
    const told = evicted ? "evicted" : CAUSES[cause];
    const metadata = this.#hooks.responseComplete({ request: this.#request, endpoint, status, usage, cause: told });
    return cause === "complete" ? metadata : undefined;
  }

  #take(): RequestHooks {
    this.#hooks ??= this.#inForce();
    return this.#hooks;
  }
}

/** A configured hook. */
export interface NamedHook {
  readonly name: string;
  /** Default: `name`. */
  readonly type?: string;
  readonly plugin: RequestHook;
}

/** The additions of hooks to a message for the proxy. */
export interface HookAdditions {
  readonly headers: HeaderList | undefined;
  /** Names of received headers to leave out, lower case; none of them is in `headers`. */
  readonly removed: readonly string[] | undefined;
  readonly metadata: DynamicMetadata | undefined;
}

/** The most headers that the hooks of one request may remove. Together with the control headers, Envoy accepts so many. */
const MAX_REMOVED = 64;

/** The name of each extension point in metrics (scheduling 3.2). */
const POINTS = {
  preRequest: "PreRequest",
  responseReceived: "ResponseReceived",
  responseComplete: "ResponseComplete",
} as const;

const NO_ADDITIONS: HookAdditions = { headers: undefined, removed: undefined, metadata: undefined };
const NO_BODY = new Uint8Array(0);

/** Calls the request hooks of a configuration, in its order. Reports a hook that throws; the exchange goes on without it. */
export class RequestHooks {
  readonly #hooks: readonly NamedHook[];
  readonly #onError: (hook: string, error: unknown) => void;
  readonly #calls: PluginCalls;

  constructor(
    hooks: readonly NamedHook[],
    onError: (hook: string, error: unknown) => void,
    calls: PluginCalls = UNTIMED,
  ) {
    this.#hooks = hooks;
    this.#onError = onError;
    this.#calls = calls;
  }

  get empty(): boolean {
    return this.#hooks.length === 0;
  }

  /** The request is routed (scheduling 3.2 `PreRequest`). */
  preRequest(request: InferenceRequest, { endpoints, profiles: ran, record }: SchedulingResult): HookAdditions {
    if (this.empty) return NO_ADDITIONS;
    const added = new Additions();
    const { removeHeader, setters } = added;
    const profiles = ran ?? new Map([[record.profile, endpoints]]);
    for (const hook of this.#hooks)
      this.#call("preRequest", hook, { request, endpoints, profiles, removeHeader, ...setters });
    return { headers: added.headers, removed: added.removed, metadata: added.metadata };
  }

  /** Response headers have arrived (`ResponseReceived`). */
  responseReceived(context: Omit<ResponseReceivedContext, "setHeader">): HeaderList | undefined {
    if (this.empty) return undefined;
    const added = new Additions();
    for (const hook of this.#hooks) this.#call("responseReceived", hook, { ...context, ...added.setters });
    return added.headers;
  }

  /** The exchange is over (`ResponseComplete`). */
  responseComplete(context: Omit<ResponseCompleteContext, "setMetadata">): DynamicMetadata | undefined {
    if (this.empty) return undefined;
    const added = new Additions();
    for (const hook of this.#hooks) this.#call("responseComplete", hook, { ...context, ...added.setters });
    return added.metadata;
  }

  #call<K extends keyof typeof POINTS>(
    station: K,
    hook: NamedHook,
    context: Parameters<NonNullable<RequestHook[K]>>[0],
  ): void {
    const { name, type = name, plugin } = hook;
    const called = plugin[station] as ((context: unknown) => unknown) | undefined;
    if (called === undefined) return;
    const started = this.#calls.now();
    try {
      const result = called.call(plugin, context);
      // A plugin author may write `async`, and an unhandled rejection ends the process.
      if (result instanceof Promise) result.catch((error: unknown) => this.#onError(name, error));
    } catch (error) {
      this.#onError(name, error);
    }
    this.#calls.called(POINTS[station], { name, type }, this.#calls.now() - started);
  }
}

/** Returns a request without its body and the values that refer to the body. */
function withoutBody(request: InferenceRequest): InferenceRequest {
  return { ...request, body: NO_BODY, prompts: [], modelRange: undefined, modelInsertAt: -1 };
}

/** Gathers the additions of the hooks at one extension point. A later hook overwrites an earlier one. */
class Additions {
  headers: HeaderList | undefined;
  metadata: Record<string, Record<string, MetadataValue>> | undefined;
  #removed: Set<string> | undefined;

  /** A header that one hook sets and another hook removes stays set, in either order of the calls. */
  get removed(): readonly string[] | undefined {
    if (this.#removed === undefined) return undefined;
    const removed = [...this.#removed].filter((name) => this.headers?.get(name) === undefined);
    return removed.length === 0 ? undefined : removed;
  }

  readonly removeHeader = (name: string): void => {
    this.#removed ??= new Set();
    if (this.#removed.size >= MAX_REMOVED && !this.#removed.has(name.toLowerCase()))
      throw new SluiceError("PLUGIN_HEADERS", `plugins removed more than ${MAX_REMOVED} headers of one request`);
    this.#removed.add(name.toLowerCase());
  };

  readonly setters = {
    setHeader: (name: string, value: string): void => {
      if (typeof value !== "string")
        throw new SluiceError(
          "PLUGIN_HEADERS",
          oneLine(`a plugin set the header ${name} to a value that is not a string`),
        );
      this.headers ??= new HeaderList();
      const at = this.headers.keys.indexOf(name.toLowerCase());
      if (at < 0) this.headers.add(name, value);
      else this.headers.values[at] = value;
    },
    setMetadata: (namespace: string, key: string, value: string | number | boolean): void => {
      const legal = typeof value === "number" ? Number.isFinite(value) : ["string", "boolean"].includes(typeof value);
      if (!legal)
        throw new SluiceError(
          "PLUGIN_METADATA",
          oneLine(
            `a plugin set the metadata ${namespace}/${key} to a value that is not a string, a finite number or a boolean`,
          ),
        );
      // Objects without prototypes: a plugin may use any name, such as `__proto__`.
      this.metadata ??= Object.create(null) as Record<string, Record<string, MetadataValue>>;
      this.metadata[namespace] ??= Object.create(null) as Record<string, MetadataValue>;
      this.metadata[namespace][key] = value;
    },
  };
}
