import { oneLine, SluiceError } from "../../base/inference/errors.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { SchedulingResult } from "../../base/inference/scheduling-result.ts";
import type { RequestHook, ResponseCompleteContext, ResponseReceivedContext } from "../../base/plugin/kinds.ts";
import { type PluginCalls, UNTIMED } from "./plugin-calls.ts";
import type { DynamicMetadata, MetadataValue } from "./wire.ts";

/** A configured hook. */
export interface NamedHook {
  readonly name: string;
  /** Default: its name. */
  readonly type?: string;
  readonly plugin: RequestHook;
}

/** What hooks add to a message for the proxy. */
export interface HookAdditions {
  readonly headers: HeaderList | undefined;
  /** Names of received headers to leave out, lower case; none of them is in `headers`. */
  readonly removed: readonly string[] | undefined;
  readonly metadata: DynamicMetadata | undefined;
}

/** Headers that the hooks of one request may remove: with the control headers they stay below what Envoy accepts. */
const MAX_REMOVED = 64;

/** What the stations are called in metrics (scheduling 3.2). */
const POINTS = {
  preRequest: "PreRequest",
  responseReceived: "ResponseReceived",
  responseComplete: "ResponseComplete",
} as const;

const NO_ADDITIONS: HookAdditions = { headers: undefined, removed: undefined, metadata: undefined };
const NO_BODY = new Uint8Array(0);

/** Calls the request hooks of a configuration, in its order. One that throws is reported; the exchange goes on without. */
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
      // Nothing stops an author from writing `async`, and a rejection that nobody takes ends the process.
      if (result instanceof Promise) result.catch((error: unknown) => this.#onError(name, error));
    } catch (error) {
      this.#onError(name, error);
    }
    this.#calls.called(POINTS[station], { name, type }, this.#calls.now() - started);
  }
}

/** What a hook may know of a request once its body is gone: everything else. */
export function withoutBody(request: InferenceRequest): InferenceRequest {
  return { ...request, body: NO_BODY, prompts: [], modelRange: undefined, modelInsertAt: -1 };
}

/** Gathers what the hooks of one station set; a later one wins. */
class Additions {
  headers: HeaderList | undefined;
  metadata: Record<string, Record<string, MetadataValue>> | undefined;
  #removed: Set<string> | undefined;

  /** Whoever sets a header wants it more than whoever removes it, in whatever order they are asked. */
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
          oneLine(`a plugin set the header ${name} to something else than a text`),
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
          oneLine(`a plugin set the metadata ${namespace}/${key} to something else than a text, a number or a boolean`),
        );
      // Without prototypes: no name is special.
      this.metadata ??= Object.create(null) as Record<string, Record<string, MetadataValue>>;
      this.metadata[namespace] ??= Object.create(null) as Record<string, MetadataValue>;
      this.metadata[namespace][key] = value;
    },
  };
}
