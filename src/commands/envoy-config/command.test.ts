import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { SluiceError } from "../../base/inference/errors.ts";
import { envoyConfigCommand } from "./command.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests reach deep into a configuration
type Plain = any;

const ROOT = join(import.meta.dirname, "..", "..", "..");
const FOLDER = join(ROOT, "deploy", "envoy");

async function run(...args: readonly string[]): Promise<{ out: string; err: string }> {
  let [out, err] = ["", ""];
  const command = envoyConfigCommand({
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
  });
  await command.parseAsync([...args], { from: "user" });
  return { out, err };
}

async function refusal(...args: readonly string[]): Promise<string> {
  try {
    await run(...args);
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "accepted";
}

const POOL = (name: string, more = "") => `
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: { name: ${name} }
spec:
  selector: { matchLabels: { app: vllm } }
  targetPorts: [{ number: 8000 }]
  endpointPickerRef: { name: ${name}-epp, port: { number: 9002 }${more} }
`;

describe("the configurations in deploy/envoy", () => {
  const shipped = readdirSync(FOLDER).filter((name) => name.endsWith(".yaml"));

  it("are there for every variant", () => {
    expect(shipped).toEqual(
      expect.arrayContaining(["override-host.yaml", "standalone.yaml", "subset-hint.yaml", "tls.yaml"]),
    );
  });

  it.each(shipped)("%s is what the command in its heading prints", async (name) => {
    const text = readFileSync(join(FOLDER, name), "utf8");
    const command = /^# +sluice envoy-config (.*)$/m.exec(text)?.[1];
    expect(command).toBeDefined();
    // Paths in it are those of the repository, where the command was given.
    const words = command!.split(" ");
    const { out, err } = await run(
      ...words.map((word) => (/^(deploy|examples)\//.test(word) ? join(ROOT, word) : word)),
    );
    expect(out.replaceAll(`${ROOT}/`, "")).toBe(text);
    expect(err).toBe("");
  });
});

describe("sluice envoy-config", () => {
  let folder: string;
  let endpoints: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "sluice-pools-"));
    writeFileSync(join(folder, "a.yaml"), POOL("one"));
    endpoints = join(mkdtempSync(join(tmpdir(), "sluice-pools-")), "endpoints.yaml");
    writeFileSync(endpoints, "endpoints:\n- { name: a, address: 10.0.0.1, port: 8000 }\n");
  });

  const folderWith = (text: string): string => {
    const made = mkdtempSync(join(tmpdir(), "sluice-pools-"));
    writeFileSync(join(made, "pool.yaml"), text);
    return made;
  };

  it("names the picker's Service of the pool and listens where it is told", async () => {
    const { out } = await run("--resources", folder, "--listen", ":8443", "--admin", "[::1]:9901");
    const { admin, static_resources: made } = parse(out);
    expect(made.listeners[0].address.socket_address).toEqual({ address: "0.0.0.0", port_value: 8443 });
    expect(admin.address.socket_address).toEqual({ address: "::1", port_value: 9901 });
    expect(made.clusters[1].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address).toEqual({
      address: "one-epp.default.svc",
      port_value: 9002,
    });
  });

  it("names each replica of the picker that it is told, and refuses one told twice, or too many", async () => {
    const pickers = ["--picker", "10.0.0.1:9002", "--picker", "[::1]:9003"];
    const { out } = await run("--resources", folder, ...pickers);
    const { endpoints: groups } = parse(out).static_resources.clusters[1].load_assignment;
    expect(groups[0].lb_endpoints.map((one: Plain) => one.endpoint.address.socket_address)).toEqual([
      { address: "10.0.0.1", port_value: 9002 },
      { address: "::1", port_value: 9003 },
    ]);
    expect(out).toContain(`--resources ${folder} --picker 10.0.0.1:9002 --picker '[::1]:9003'`);
    expect(await refusal("--resources", folder, ...pickers, "--picker", "10.0.0.1:9002")).toMatch(/^FLAG_CONFLICT: /);
    const many = Array.from({ length: 65 }, (_, n) => ["--picker", `10.0.0.1:${9000 + n}`]).flat();
    expect(await refusal("--resources", folder, ...many)).toMatch(/^FLAG_VALUE: .*at most 64/);
  });

  it("reads a pool of v1alpha2, whose picker answers on 9002 unless it says otherwise", async () => {
    const old = folderWith(`
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: { name: old, namespace: prod }
spec:
  selector: { app: vllm }
  targetPortNumber: 8000
  extensionRef: { name: old-epp }
`);
    expect((await run("--resources", old)).out).toContain(
      "# Envoy connects to the picker at old-epp.prod.svc:9002 in clear text",
    );
  });

  it("prints its command in one order, quoted for a shell, whatever the order of the options", async () => {
    const { out } = await run(
      ...["--subset", "10.0.0.1:8000, 10.0.0.2:8000", "--variant", "subset-hint", "--tls", "--resources", folder],
    );
    expect(out).toContain(
      `#   sluice envoy-config --resources ${folder} --variant subset-hint --tls --subset '10.0.0.1:8000, 10.0.0.2:8000'\n`,
    );
  });

  it("chooses among several pools by name, and lists them when it cannot", async () => {
    const several = folderWith(`${POOL("one")}---${POOL("two")}`);
    expect(await refusal("--resources", several)).toMatch(/^POOL_AMBIGUOUS: .*default\/one, default\/two/);
    expect((await run("--resources", several, "--pool-name", "two")).out).toContain("InferencePool default/two");
    expect(await refusal("--resources", several, "--pool-name", "three")).toMatch(
      /^ENVOY_RESOURCES: no InferencePool .* matches --pool-name and --pool-namespace; the pools are default\/one, default\/two$/,
    );
  });

  it("warns on standard error of what Envoy cannot keep", async () => {
    const open = folderWith(POOL("one", ", failureMode: FailOpen"));
    expect((await run("--resources", open)).err).toMatch(/^sluice: pool one asks for FailOpen.*use override-host\n$/);
    expect((await run("--resources", open, "--variant", "override-host", "--endpoints", endpoints)).err).toBe("");
  });

  it.each<readonly [readonly string[], RegExp]>([
    [[], /^FLAG_MISSING: give --resources FOLDER/],
    [["--resources", join(ROOT, "nowhere")], /^RESOURCES_FOLDER: \S+\/nowhere does not exist$/],
    [
      ["--resources", FOLDER],
      /^RESOURCES_FILE: invalid manifest[\s\S]*override-host\.yaml:\d+:\d+: apiVersion: is missing/,
    ],
    [["--variant", "tsl"], /^FLAG_VALUE: --variant is "tsl"; give standalone, .*; did you mean `tls`\?$/],
    [["--envoy-version", "1.33"], /^FLAG_VALUE: --envoy-version is "1.33"; give 1.36, /],
    [["--failure-mode", "failopen"], /^FLAG_VALUE: .*did you mean `FailOpen`\?$/],
    [["--request-body-mode", "streamed"], /^FLAG_VALUE: .*give full-duplex, buffered/],
    [["--listen", "here:80"], /^FLAG_VALUE: --listen "here:80" is a host name/],
    [["--listen", "eighty"], /^FLAG_VALUE: /],
    [["--picker", "llm epp:9002"], /^FLAG_VALUE: --picker "llm epp:9002" is not an address; write host:port/],
    [["--picker", "llm-epp"], /^FLAG_VALUE: --picker "llm-epp" is not an address; write host:port/],
    [["--variant", "override-host"], /^ENVOY_ENDPOINTS: .*give --endpoints FILE/],
  ])("refuses %j in words that say what to do", async (args, message) => {
    const resources = args.includes("--resources") || args.length === 0 ? [] : ["--resources", folder];
    expect(await refusal(...resources, ...args)).toMatch(message);
  });

  it("says where an endpoints file is wrong", async () => {
    const bad = join(mkdtempSync(join(tmpdir(), "sluice-pools-")), "endpoints.yaml");
    writeFileSync(bad, "endpoints:\n- { name: a, address: 10.0.0.1 }\n- { name: b, port: 8000 }\n");
    const args = ["--resources", folder, "--variant", "override-host", "--endpoints", bad];
    expect(await refusal(...args)).toBe(
      `DOCUMENT_INVALID: ${bad}:2:3: endpoints[0]: the key \`port\` is missing\n${bad}:3:3: endpoints[1]: the key \`address\` is missing`,
    );
  });
});
