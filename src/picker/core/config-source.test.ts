import { describe, expect, it } from "vitest";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { readConfig } from "./config-source.ts";

const ALPHA = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: session-affinity-scorer
`;

describe("readConfig", () => {
  it("S-64: refuses alpha plugins unless they are allowed", async () => {
    await expect(readConfig({ configText: ALPHA }, silentLogger)).rejects.toThrow(
      "invalid EndpointPickerConfig: --config-text:5:3: plugins[1].type: plugin session-affinity-scorer is experimental; requires --allow-experimental-plugins",
    );
    const config = await readConfig({ configText: ALPHA, allowExperimental: true }, silentLogger);
    expect(config.profiles[0]?.plugins.map(({ name }) => name)).toContain("session-affinity-scorer");
  });
});
