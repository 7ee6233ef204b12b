import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { validateCommand } from "./command.ts";
import { kindOf } from "./validate-file.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-validate-"));
const write = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};

async function validate(...args: readonly string[]): Promise<{ out: string; err: string; code: unknown }> {
  let [out, err] = ["", ""];
  const output = {
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      err += text;
    },
  };
  const before = process.exitCode;
  process.exitCode = undefined;
  try {
    await validateCommand(output).parseAsync(args, { from: "user" });
    return { out, err, code: process.exitCode };
  } finally {
    process.exitCode = before;
  }
}

describe("the kind of a file", () => {
  it.each([
    [{ apiVersion: "x" }, "picker"],
    [{ plugins: [], admin: {} }, "picker"],
    [{ transport: "sqlite", plugins: [], "transport-config": {} }, "dispatch"],
    [{ plugins: [] }, "picker"],
    [{ plugins: [], kind: "EndpointPickerConfig", transport: "sqlite" }, "picker"],
    [{ listeners: [] }, "gateway"],
    [{ endpoints: { file: "e.yaml" } }, "gateway"],
    [{ endpoints: [], admin: {} }, "gateway"],
    [{ endpoints: [] }, "endpoints"],
    [{ endpoints: [], comment: "x" }, "endpoints"],
    [{ retris: {}, picker: {} }, "gateway"],
    [{ retris: {} }, "picker"],
    [{ transport: "sqlite" }, "dispatch"],
    [{ queues: [] }, "dispatch"],
    [[{ id: "a", workers: 1 }], "dispatch"],
    [[], "picker"],
    [null, "picker"],
  ])("%j is %s", (value, kind) => {
    expect(kindOf(value)).toBe(kind);
  });
});

describe("sluice validate of an endpoints file", () => {
  it("counts the endpoints, and warns of keys without effect", async () => {
    const file = write("endpoints.yaml", "endpoints:\n- { name: a, address: gpu-1, port: 8000, label: {} }\n");
    const { out, err, code } = await validate(file);
    expect([out, code]).toEqual([`${file}: ok\n  1 endpoint\n`, undefined]);
    expect(err).toContain("did you mean `labels`?");
    expect((await validate("--strict", file)).code).toBe(1);
  });

  it("lists all wrong entries, as a start does", async () => {
    const file = write(
      "wrong.yaml",
      "endpoints:\n- { name: a, adress: gpu-1, port: 8000 }\n- { name: b, address: x, port: 0 }\n",
    );
    const { out, err, code } = await validate(file);
    expect([out, code]).toEqual(["", 1]);
    expect(err).toContain(`${file}:2:3: endpoints[0]: the key \`address\` is missing; is \`adress\` it?`);
    expect(err).toContain(`${file}:3:26: endpoints[1].port: must be an integer from 1 to 65535, not 0`);
    expect(err).toContain("DOCUMENT_INVALID");
  });

  it("is one by --kind, too", async () => {
    const file = write("none.yaml", "servers: []\n");
    expect((await validate("--kind", "endpoints", file)).err).toContain("the key `endpoints` is missing");
  });
});

describe("sluice validate of a file that does not say what it is", () => {
  it("says how to name its kind", async () => {
    const { err } = await validate(write("unknown.yaml", "listener: []\n"));
    expect(err).toContain(
      "no key shows the kind of this file: if it is not an EndpointPickerConfig, give --kind gateway, dispatch or endpoints",
    );
    const { err: known } = await validate(write("known.yaml", "apiVersion: x\n"));
    expect(known).not.toContain("--kind");
  });
});

describe("sluice validate of a gateway.yaml", () => {
  it("says which adapters have no limit, because a rule names their base model alone", async () => {
    write("m.yaml", "endpoints:\n- { name: a, address: 10.0.0.1, port: 1, models: [llama, llama-sql] }\n");
    write("l.yaml", "rules:\n- { model: llama, requestsPerMinute: 9 }\n");
    const file = write("adapters.yaml", "endpoints: { file: m.yaml }\nlimits: { file: l.yaml }\n");
    const { out, err, code } = await validate("--strict", file);
    expect([err, code]).toEqual(["", undefined]);
    expect(out).toContain("limits of llama do not count requests for llama-sql: an adapter counts as a separate model");
    const inPlace = write(
      "counted.yaml",
      "endpoints: { file: m.yaml }\nlimits: { rules: [{ model: '*', requestsPerMinute: 9 }] }\n",
    );
    expect((await validate(inPlace)).out).not.toContain("an adapter counts");
  });

  it("reports the faults of the file, of the inline configuration and of the endpoints file together", async () => {
    write("e.yaml", "endpoints:\n- { name: a, address: a }\n");
    const file = write(
      "bad.yaml",
      "retris: {}\nendpoints: { file: e.yaml }\npicker:\n  config:\n    apiVersion: llm-d.ai/v1alpha1\n    kind: EndpointPickerConfig\n    plugins:\n    - { type: queue-scorr }\n",
    );
    const { out, err, code } = await validate(file);
    expect([out, code]).toEqual(["", 1]);
    expect(err).toContain(`${file}:1:1: retris: unknown key \`retris\`; did you mean \`retries\`?`);
    expect(err).toContain(`${file}:8:9: plugins[0].type: plugin type queue-scorr is not registered`);
    expect(err).toContain(`${join(folder, "e.yaml")}:2:3: endpoints[0]: the key \`port\` is missing`);
  });

  it("reports the faults of certificates, keys and limits together, beside those of its keys", async () => {
    write("k.yaml", "keys: [{ name: a }]\n");
    write("l.yaml", "rules: [{ key: a }]\n");
    write("j.json", "{}");
    write("c.crt", "no certificate");
    const file = write(
      "parts.yaml",
      "retris: {}\nlisteners: [{ address: 127.0.0.1:1, tls: { certificate: c.crt, key: c.key } }]\nservers: { tls: { ca: c.crt } }\n" +
        "keys: { file: k.yaml, jwt: [{ issuer: i, audience: a, jwks: j.json }] }\nlimits: { file: l.yaml }\n" +
        "peers: { redis: 'rediss://r', ca: p.crt }\n",
    );
    const { out, err, code } = await validate(file);
    expect([out, code]).toEqual(["", 1]);
    const [certificate, key] = [join(folder, "c.crt"), join(folder, "c.key")];
    expect(err).toContain(`${file}:1:1: retris: unknown key`);
    expect(err).toContain(key);
    expect(err).toContain(certificate);
    expect(err).toContain(`${join(folder, "k.yaml")}:1:`);
    expect(err).toContain(join(folder, "j.json"));
    expect(err).toContain(`${join(folder, "l.yaml")}:1:`);
    expect(err).toContain(join(folder, "p.crt"));
    const limits = write("limits.yaml", "limits: { redis: 'redis://r', ca: l.crt }\n");
    expect((await validate(limits)).err).toContain(
      "limits.ca (--limits-ca) is for TLS only: the Redis URL must begin with rediss://",
    );
  });

  it.each([
    ["listeners: [{address: '0.0.0.0:1'}]", "0.0.0.0:1 is open to other machines, and the gateway has no keys"],
    ["keys: {open: true, jwt: [{issuer: i, audience: a, jwks: 'https://i/j'}]}", "but the gateway has keys or issuers"],
  ])("refuses %j, as a start does", async (text, problem) => {
    expect((await validate(write("door.yaml", text))).err).toContain(problem);
  });

  it.each([
    ["endpoints: {list: [{name: a, address: a, port: 1}]}", "1 endpoint; profile default"],
    ["endpoints: {slurm: {hosts: 'a[1-3]', port: 1, servers: 2}}", "6 endpoints; profile default"],
    ["endpoints: {slurm: {env: NODES, port: 1}}", "endpoints from $NODES"],
    [
      "endpoints: {dns: {names: [{srv: a.b}]}}\npicker: {profile: legacy-v0.3}",
      "endpoints from DNS: a.b; profile legacy-v0.3",
    ],
    ["admin: {open: true}", "endpoints of the flags or of the configuration"],
  ])("accepts %j", async (text, summary) => {
    const { out, err, code } = await validate(write("good.yaml", text));
    expect([err, code]).toEqual(["", undefined]);
    expect(out).toContain(`good.yaml: ok\n  gateway on 127.0.0.1:8080; `);
    expect(out).toContain(summary);
  });

  it("takes the kind from the flag, and refuses other kinds", async () => {
    const file = write("typo.yaml", "retris: {}\n");
    expect((await validate("--kind", "gateway", file)).err).toContain("invalid gateway file");
    expect((await validate(file)).err).toContain("invalid EndpointPickerConfig");
    await expect(validate("--kind", "gatway", file)).rejects.toMatchObject({
      ...{
        code: "FLAG_VALUE",
        message: '--kind is "gatway"; give picker, gateway, dispatch or endpoints; did you mean `gateway`?',
      },
    });
  });

  it("prints the schema, with that of the picker inside", async () => {
    const schema = JSON.parse((await validate("--schema", "gateway")).out);
    expect(schema.properties.retries.properties.max).toMatchObject({ type: "integer", minimum: 0, maximum: 7 });
    expect(schema.properties.retries.additionalProperties).toBe(false);
    expect(schema.properties.picker.properties.config.properties.plugins).toBeDefined();
    expect(schema.required).toBeUndefined();
    expect(JSON.parse((await validate("--schema")).out).title).toBe("EndpointPickerConfig");
  });
});
