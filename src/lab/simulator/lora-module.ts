import { SluiceError } from "../../base/inference/errors.ts";

/** An adapter as `--lora-modules` or a load request names it. */
export interface LoraModule {
  readonly name: string;
  readonly path: string;
}

/** Whether a name can be listed in `vllm:lora_requests_info`, which separates names by commas. */
export function isAdapterName(name: string): boolean {
  return name.length > 0 && name.length <= 256 && !name.includes(",");
}

/**
 * Reads one value of `--lora-modules`: `{"name": "a", "path": "/x"}` or `a=/x`.
 * @throws SluiceError SIM_OPTION when it is neither
 */
export function parseLoraModule(value: string): LoraModule {
  if (value.trimStart().startsWith("{")) {
    try {
      const { name, path } = JSON.parse(value) as Record<string, unknown>;
      if (typeof name === "string" && isAdapterName(name) && typeof path === "string") return { name, path };
    } catch {
      // Not JSON: the message below says what is expected.
    }
  } else {
    const at = value.indexOf("=");
    if (at > 0 && isAdapterName(value.slice(0, at))) return { name: value.slice(0, at), path: value.slice(at + 1) };
  }
  throw new SluiceError(
    "SIM_OPTION",
    `lora-modules: expected {"name": ..., "path": ...} or name=path, got ${JSON.stringify(value.slice(0, 200))}`,
  );
}
