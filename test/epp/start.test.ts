import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { sluice } from "../support/process.ts";
import { endpointsFile } from "../support/stack.ts";

const endpoints = endpointsFile([1]);

function fileOf(text: string): string {
  const file = join(mkdtempSync(join(tmpdir(), "sluice-epp-")), "file.yaml");
  writeFileSync(file, text);
  return file;
}

/** Runs `sluice epp` until it ends; free ports, so that one that starts against expectation disturbs nobody. */
async function refused(...args: string[]): Promise<{ code: number | null; stderr: string; stdout: string }> {
  const process = sluice(
    "epp",
    "--bind-address",
    "127.0.0.1",
    "--grpc-port",
    "0",
    "--grpc-health-port",
    "0",
    "--metrics-port",
    "0",
    ...args,
  );
  try {
    const { code } = await process.ended();
    return { code, stderr: process.stderr, stdout: process.stdout };
  } finally {
    if (process.exit === undefined) await process.stop();
  }
}

const CONFIG = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";

describe("sluice epp refuses to start (E-120)", () => {
  it.each([
    ["without endpoints", [], 1, /give --pool-name or --endpoint-selector in Kubernetes, else --endpoints FILE/],
    [
      "with a pool where there is no Kubernetes",
      ["--pool-name", "p"],
      1,
      /Sluice finds no Kubernetes: run sluice in a pod, or name a kubeconfig file with --kubeconfig or KUBECONFIG; without Kubernetes give --endpoints/,
    ],
    [
      "with a selector and no name of its own (R-39)",
      ["--endpoint-selector", "a=b", "--endpoint-target-ports", "80"],
      1,
      /POD_NAME, which is not set; set it from metadata\.name of the pod/,
    ],
    [
      "with authentication of metrics",
      ["--endpoints", endpoints, "--metrics-endpoint-auth=true"],
      1,
      /--metrics-endpoint-auth=true needs an API server of Kubernetes, which endpoints from a file do not have/,
    ],
    [
      "with both configurations",
      ["--endpoints", endpoints, "--config-file", "a", "--config-text", "b"],
      1,
      /--config-file and --config-text: both flags cannot be set/,
    ],
    ["with an unknown flag", ["--endpoints", endpoints, "--metrics-prot", "1"], 2, /metrics-port/],
    ["without the endpoints file", ["--endpoints", "/nonexistent/e.yaml"], 1, /\/nonexistent\/e\.yaml/],
    [
      "with an objective that is no number",
      ["--endpoints", endpoints, "--objective", "a=high"],
      2,
      /is not NAME=PRIORITY/,
    ],
    ["without the certificate", ["--endpoints", endpoints, "--cert-path", "/nonexistent"], 1, /\/nonexistent/],
  ] as const)("%s", async (_, args, code, text) => {
    const end = await refused(...args);
    expect(end.stderr).toMatch(text);
    expect(end.stderr).not.toMatch(/\n\s+at /);
    expect(end.code).toBe(code);
    expect(end.stdout).not.toContain("listening");
  });

  it("with an unknown plugin type, naming its line and what was meant", async () => {
    const text = `${CONFIG}plugins:\n- type: queue-scorer\n- type: prefix-cache-scorr\n`;
    const end = await refused("--endpoints", endpoints, "--config-text", text);
    expect(end.code).toBe(1);
    expect(end.stderr).toMatch(/--config-text:5:\d+: .*prefix-cache-scorr.*prefix-cache-scorer/);
  });

  it.each([
    ["no YAML", "endpoints: [\n  {name: a", /file\.yaml:\d+:\d+: /],
    ["no list", "endpoints: 7\n", /file\.yaml:1:1: `endpoints` must be a list/],
    ["another key", "endpoint: []\n", /file\.yaml:1:1: the key `endpoints` is missing/],
  ])("with an endpoints file that is %s, naming file, line and column", async (_, text, message) => {
    const end = await refused("--endpoints", fileOf(text));
    expect(end.stderr).toMatch(message);
    expect(end.code).toBe(1);
  });
});
