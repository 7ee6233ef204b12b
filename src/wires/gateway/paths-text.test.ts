import { describe, expect, it } from "vitest";
import { pathsText } from "./paths-text.ts";

const HEAD = "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n";

/** The cells of each line. */
async function cells(...of: Parameters<typeof pathsText>): Promise<string[][]> {
  return (await pathsText(...of))
    .trimEnd()
    .split("\n")
    .map((line) => line.split(/ {2,}/));
}

describe("the text of --print-paths", () => {
  it("has the paths of the default parsers", async () => {
    const lines = await cells({}, []);
    for (const path of ["*/chat/completions", "*/messages/count_tokens", "*/inference/v1/generate"])
      expect(lines).toContainEqual(["POST OPTIONS", path, "inference", "passes"]);
    expect(lines.at(-1)).toEqual(["*", "/*", "administration", "403"]);
  });

  it("has the paths of the configured parsers instead, and the allowed ones", async () => {
    const configText = `${HEAD}plugins:\n- {type: openai-parser}\n- {type: vllmgrpc-parser}\n- {type: max-score-picker}\n`;
    const parsers = "requestHandler: {parsers: [{pluginRef: openai-parser}, {pluginRef: vllmgrpc-parser}]}\n";
    const lines = await cells({ configText: configText + parsers }, ["/sleep", "/v1/files/*"]);
    const paths = lines.map(([, path]) => path);
    expect(paths).toContain("*/vllm.grpc.engine.VllmEngine/Generate");
    expect(paths).not.toContain("*/messages");
    for (const path of ["/sleep", "/v1/files/*"]) {
      expect(lines).toContainEqual(["*", path, "allowed", "passes"]);
      expect(paths.filter((each) => each === path)).toHaveLength(1);
    }
  });

  it("reports a fault of the configuration and of a path", async () => {
    await expect(pathsText({ configText: "kind: [" }, [])).rejects.toMatchObject({ name: "SluiceError" });
    await expect(pathsText({}, ["sleep"])).rejects.toMatchObject({ code: "FLAG_VALUE" });
  });
});
