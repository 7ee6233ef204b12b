import type { Caller } from "../../base/inference/caller.ts";
import type { LimitAmounts } from "./counter.ts";
import { type LimitRule, ruleName } from "./limits-settings.ts";

/** The longest id of a key or model with a counter of its own, in characters; longer ones share one. */
const MAX_ID = 512;
const NO_ADDRESS = "unknown";
const LONG = "(long names)";

/** One rule, ready to be compared with requests. */
export class Rule {
  /** In messages, logs and labels. */
  readonly name: string;
  readonly limits: LimitAmounts;
  readonly #key: string | undefined;
  readonly #model: string | undefined;
  /** The beginning of the ids of its counters. */
  readonly #start: string;

  constructor(rule: LimitRule) {
    const { key, model, ...limits } = rule;
    this.name = ruleName(rule);
    this.limits = limits;
    this.#key = key;
    this.#model = model;
    this.#start = [key, model].map(encoded).join(":");
  }

  /**
   * @param model the name that the client sends
   * @param target the name that the model server gets: a rule for it counts requests under all its names
   */
  matches(caller: Caller | undefined, model: string, target: string): boolean {
    if (this.#model !== undefined && this.#model !== "*" && this.#model !== model && this.#model !== target)
      return false;
    if (this.#key === undefined || this.#key === "*") return true;
    return caller !== undefined && (caller.name === this.#key || caller.id === this.#key);
  }

  /**
   * The id of the counter of one request. Two gateways with the same rule have the same id.
   * @param client what stands for the client in a rule for each key
   */
  counterId(client: string, target: string): string {
    let id = this.#start;
    if (this.#key === "*") id += `:${encoded(client)}`;
    if (this.#model === "*") id += `:${encoded(target)}`;
    return id;
  }

  /** The counter for people. */
  counterName(client: string, target: string): string {
    if (this.#key !== "*" && this.#model !== "*") return this.name;
    return ruleName({
      key: this.#key === "*" ? client.slice(0, MAX_ID) : this.#key,
      model: this.#model === "*" ? target.slice(0, MAX_ID) : this.#model,
    });
  }
}

/**
 * What stands for a client in a rule for each key: the key, else the address. Where no key is needed, nobody has one.
 * @param address an IPv4 address or the network of an IPv6 address: one machine has as many IPv6 addresses as it likes
 */
export function clientOf(caller: Caller | undefined, address: string): string {
  // A key cannot be named as an address is.
  return caller === undefined ? address || NO_ADDRESS : `key ${caller.id}`;
}

/** Without colons, so that two lists of parts never make one id. */
function encoded(part: string | undefined): string {
  if (part === undefined) return "";
  if (part.length > MAX_ID) return LONG;
  return /^[\w.*/@-]+$/.test(part) ? part : encodeURIComponent(part.toWellFormed());
}
