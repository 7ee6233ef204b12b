/** Where plugins are called outside of the scheduler: values of the label `extension_point` (scheduling 3.2). */
type ExchangePoint = "RequestHeader" | "PreRequest" | "ResponseReceived" | "ResponseComplete";

/** Told how long plugins take. Not only of some calls: who configures such a plugin pays more for the plugin itself. */
export interface PluginCalls {
  /** Monotonic milliseconds. */
  now(): number;
  called(point: ExchangePoint, plugin: { readonly name: string; readonly type: string }, ms: number): void;
}

export const UNTIMED: PluginCalls = { now: () => 0, called() {} };
