import type { Endpoint } from "../inference/endpoint.ts";
import { HeaderList } from "../inference/headers.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { RequestHook, ResponseCompleteContext, ResponseReceivedContext } from "../plugin/kinds.ts";
import type { DynamicMetadata, MetadataValue } from "./wire.ts";

/** A configured hook. */
export interface NamedHook {
  readonly name: string;
  readonly plugin: RequestHook;
}

/** What hooks add to a message for the proxy. */
export interface HookAdditions {
  readonly headers: HeaderList | undefined;
  readonly metadata: DynamicMetadata | undefined;
}

const NO_ADDITIONS: HookAdditions = { headers: undefined, metadata: undefined };
const NO_BODY = new Uint8Array(0);

/** Calls the request hooks of a configuration, in its order. One that throws is reported; the exchange goes on without. */
export class RequestHooks {
  readonly #hooks: readonly NamedHook[];
  readonly #onError: (hook: string, error: unknown) => void;

  constructor(hooks: readonly NamedHook[], onError: (hook: string, error: unknown) => void) {
    this.#hooks = hooks;
    this.#onError = onError;
  }

  get empty(): boolean {
    return this.#hooks.length === 0;
  }

  /** The request is routed (scheduling 3.2 `PreRequest`). */
  preRequest(request: InferenceRequest, endpoints: readonly Endpoint[]): HookAdditions {
    if (this.empty) return NO_ADDITIONS;
    const added = new Additions();
    for (const hook of this.#hooks)
      this.#guarded(hook, () => hook.plugin.preRequest?.({ request, endpoints, ...added.setters }));
    return added;
  }

  /** Response headers have arrived (`ResponseReceived`). */
  responseReceived(context: Omit<ResponseReceivedContext, "setHeader">): HeaderList | undefined {
    if (this.empty) return undefined;
    const added = new Additions();
    for (const hook of this.#hooks)
      this.#guarded(hook, () => hook.plugin.responseReceived?.({ ...context, ...added.setters }));
    return added.headers;
  }

  /** The exchange is over (`ResponseComplete`). */
  responseComplete(context: Omit<ResponseCompleteContext, "setMetadata">): DynamicMetadata | undefined {
    if (this.empty) return undefined;
    const added = new Additions();
    for (const hook of this.#hooks)
      this.#guarded(hook, () => hook.plugin.responseComplete?.({ ...context, ...added.setters }));
    return added.metadata;
  }

  #guarded(hook: NamedHook, call: () => unknown): void {
    try {
      const result = call();
      // Nothing stops an author from writing `async`, and a rejection that nobody takes ends the process.
      if (result instanceof Promise) result.catch((error: unknown) => this.#onError(hook.name, error));
    } catch (error) {
      this.#onError(hook.name, error);
    }
  }
}

/** What a hook may know of a request once its body is gone: everything else. */
export function withoutBody(request: InferenceRequest): InferenceRequest {
  return { ...request, body: NO_BODY, prompts: [], modelRange: undefined, modelInsertAt: -1 };
}

/** Gathers what the hooks of one station set; a later one wins. */
class Additions implements HookAdditions {
  headers: HeaderList | undefined;
  metadata: Record<string, Record<string, MetadataValue>> | undefined;

  readonly setters = {
    setHeader: (name: string, value: string): void => {
      this.headers ??= new HeaderList();
      const at = this.headers.keys.indexOf(name.toLowerCase());
      if (at < 0) this.headers.add(name, value);
      else this.headers.values[at] = value;
    },
    setMetadata: (namespace: string, key: string, value: string | number | boolean): void => {
      // Without prototypes: no name is special.
      this.metadata ??= Object.create(null) as Record<string, Record<string, MetadataValue>>;
      this.metadata[namespace] ??= Object.create(null) as Record<string, MetadataValue>;
      this.metadata[namespace][key] = value;
    },
  };
}
