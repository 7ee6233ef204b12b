/** How strongly the model server protocol asks for something. */
export type Level = "MUST" | "SHOULD" | "MAY";

interface Obligation {
  /** As people read it. */
  readonly title: string;
  readonly level: Level;
  /** The heading it stands under in the model server protocol of the Gateway API Inference Extension. */
  readonly paragraph: string;
}

const API = "Inference API Protocol";
const METRICS = "Metrics Reporting";
const LORA = "LoRA Adapter Serving";
const PREFIX = "Prefix Cache Reuse";

/**
 * What a model server owes an Endpoint Picker, in the order it is looked at. The paragraph "Prefix Cache Reuse", the
 * running requests and the waiting adapters joined the protocol after its first version; api-resources 7 has all of them.
 */
export const OBLIGATIONS = {
  models: { title: "model list", level: "SHOULD", paragraph: API },
  completions: { title: "completions", level: "MUST", paragraph: API },
  completionsUsage: { title: "token usage of completions", level: "SHOULD", paragraph: API },
  completionsStream: { title: "streamed completions", level: "MUST", paragraph: API },
  completionsStreamUsage: { title: "token usage of streamed completions", level: "SHOULD", paragraph: API },
  chat: { title: "chat completions", level: "MUST", paragraph: API },
  chatUsage: { title: "token usage of chat completions", level: "SHOULD", paragraph: API },
  chatStream: { title: "streamed chat completions", level: "MUST", paragraph: API },
  chatStreamUsage: { title: "token usage of streamed chat completions", level: "SHOULD", paragraph: API },
  unknownModel: { title: "unknown model", level: "SHOULD", paragraph: LORA },
  adapter: { title: "LoRA adapter by name", level: "MUST", paragraph: LORA },
  page: { title: "metrics page", level: "MUST", paragraph: METRICS },
  queued: { title: "TotalQueuedRequests", level: "MUST", paragraph: METRICS },
  running: { title: "TotalRunningRequests", level: "SHOULD", paragraph: METRICS },
  kvUsage: { title: "KVCacheUtilization", level: "MUST", paragraph: METRICS },
  lora: { title: "LoRA metrics", level: "MUST", paragraph: LORA },
  loraWaiting: { title: "waiting LoRA adapters", level: "SHOULD", paragraph: LORA },
  cacheConfig: { title: "size of the KV cache", level: "MAY", paragraph: PREFIX },
  prefixReuse: { title: "prefix cache", level: "SHOULD", paragraph: PREFIX },
} as const satisfies Record<string, Obligation>;

export type ObligationName = keyof typeof OBLIGATIONS;
