import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import type { EndpointsFlavour } from "./address.ts";
import { endpointsOf } from "./endpoints-file.ts";
import { statedModels } from "./served-models.ts";

function parse(text: string, flavour: EndpointsFlavour = "strict") {
  return endpointsOf(parseDocument(text, { file: "endpoints.yaml" }), flavour);
}

function entry(fields: Record<string, unknown>): string {
  return JSON.stringify({ endpoints: [{ name: "a", address: "10.0.0.1", port: "8000", ...fields }] });
}

/** The problem of a file with one bad entry. */
function problem(fields: Record<string, unknown>, flavour?: EndpointsFlavour): string {
  const { endpoints, problems } = parse(entry(fields), flavour);
  expect(endpoints).toEqual([]);
  expect(problems).toHaveLength(1);
  return problems[0]!;
}

function address(text: string, flavour?: EndpointsFlavour): string | undefined {
  return parse(entry({ address: text }), flavour).endpoints[0]?.address;
}

describe("endpointsOf", () => {
  it("reads YAML and JSON, fills defaults, warns of unknown keys, takes ports as text and as numbers (R-53)", () => {
    const yaml = `
endpoints:
  - name: a
    address: 10.0.0.1
    port: "8000"
    weight: 3
    labels: {zone: east}
  - {name: b, namespace: prod, address: 10.0.0.2, port: 65535}
`;
    const expected = [
      { namespace: "default", name: "a", address: "10.0.0.1", port: 8000, rank: 0, labels: { zone: "east" } },
      { namespace: "prod", name: "b", address: "10.0.0.2", port: 65535, rank: 0, labels: {} },
    ];
    const warning = "endpoints.yaml:6:5: endpoints[0].weight: unknown key `weight` has no effect";
    expect(parse(yaml)).toEqual({ endpoints: expected, problems: [], warnings: [warning] });
    const json = JSON.stringify({ endpoints: expected.map(({ rank, ...entry }) => entry) });
    expect(parse(json)).toEqual({ endpoints: expected, problems: [], warnings: [] });
  });

  it("names the nearest key of an unknown one, once for all its places", () => {
    const { endpoints, warnings } = parse(`endpoint: []
endpoints:
- {name: a, address: 10.0.0.1, port: 80, model: [m]}
- {name: b, address: 10.0.0.2, port: 80, model: [m], shceme: https}
`);
    expect(endpoints).toHaveLength(2);
    expect(warnings).toEqual([
      "endpoints.yaml:1:1: endpoint: unknown key `endpoint` has no effect; did you mean `endpoints`?",
      "endpoints.yaml:3:42: endpoints[0].model: unknown key `model` has no effect; did you mean `models`? (in 2 entries)",
      "endpoints.yaml:4:54: endpoints[1].shceme: unknown key `shceme` has no effect; did you mean `scheme`?",
    ]);
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`key${i}`, 1]));
    expect(parse(entry(many)).warnings).toHaveLength(20);
  });

  it("names the key that was meant where a required one is missing, and a wrong scheme (R-54)", () => {
    expect(problem({ port: undefined, prot: 80 })).toContain("the key `port` is missing; is `prot` it?");
    expect(problem({ port: undefined })).toContain("the key `port` is missing");
    expect(problem({ scheme: "htps" })).toContain('endpoints[0].scheme: must be http or https, not "htps"');
  });

  it("takes the models of an endpoint, one to 1,024 names", () => {
    const models = (value: unknown) => parse(entry({ models: value })).endpoints[0]?.models;
    expect(models(undefined)).toBeUndefined();
    expect(models(["a", "org/b"])).toEqual(statedModels(["a", "org/b"]));
    expect(models(["*"])).toEqual({ source: "file", byName: "any" });
    expect(models(Array.from({ length: 1024 }, (_, i) => `m${i}`))?.byName).toHaveProperty("size", 1024);
  });

  it.each([
    ["nothing", null, "endpoints[0].models: must be a list of one or more"],
    ["an empty list", [], "endpoints[0].models: must be a list of one or more"],
    ["a string", "a", "endpoints[0].models: must be a list of one or more"],
    ["a number", ["a", 5], "endpoints[0].models[1]: must be a string"],
    ["an empty name", [""], "endpoints[0].models[0]: must have 1 to 1024 characters"],
    ["a long name", ["a".repeat(1025)], "endpoints[0].models[0]: must have 1 to 1024 characters"],
    ["a name with a control character", ["a\tb"], "endpoints[0].models[0]: must have 1 to 1024 characters"],
    ["a name twice", ["a", "b", "a"], "endpoints[0].models[2]: is listed twice"],
    ["every name and another", ["a", "*"], 'endpoints[0].models[1]: "*" means every name'],
    ["1,025 names", Array.from({ length: 1025 }, (_, i) => `m${i}`), "must not have more than 1024 names"],
  ])("refuses %s as models", (_, models, expected) => {
    expect(problem({ models })).toContain(expected);
  });

  it("takes zero endpoints, with a warning (R-53)", () => {
    for (const [text, column] of [
      ["endpoints: []", 1],
      ["endpoints:", 1],
      ['{"endpoints": null}', 2],
    ] as const)
      expect(parse(text)).toEqual({
        endpoints: [],
        problems: [],
        warnings: [
          `endpoints.yaml:1:${column}: the file lists no endpoints; until it lists one, requests get 503, or wait if flow control is on`,
        ],
      });
    // Entries that are all wrong are told of one by one.
    expect(parse(entry({ name: "" })).warnings).toEqual([]);
  });

  it("names file, line and column of a bad entry and keeps the good ones (R-55)", () => {
    const { endpoints, problems } = parse(`endpoints:
- {name: a, address: 10.0.0.1, port: 80}
- name: b
  address: ::1
  port: 80
- name: c
  address: 10.0.0.3
  port: 70000
- just text
`);
    expect(endpoints.map((spec) => spec.name)).toEqual(["a"]);
    expect(problems).toEqual([
      'endpoints.yaml:4:3: endpoints[1].address: must be a literal IPv4 address here, not "::1"',
      "endpoints.yaml:8:3: endpoints[2].port: must be an integer from 1 to 65535, not 70000",
      "endpoints.yaml:9:3: endpoints[3]: must be a mapping with name, address and port",
    ]);
  });

  it("warns of an id that is listed again, with both lines; Sluice uses the last entry", () => {
    const { endpoints, problems, warnings } = parse(`endpoints:
  - {name: b, address: 10.0.0.9, port: 80}
  - {name: a, address: 10.0.0.1, port: 80}
  - {name: a, address: 10.0.0.2, port: 80}
  - {name: a, namespace: prod, address: 10.0.0.1, port: 80}
  - {name: a, namespace: default, address: 10.0.0.3, port: 80}
`);
    expect(endpoints).toHaveLength(5);
    expect(problems).toEqual([]);
    // The entry at line 3 is overridden: its address is nobody's.
    expect(warnings).toEqual([
      "endpoints.yaml:3:5: endpoint default/a is listed again at line 4; Sluice uses the last entry",
      "endpoints.yaml:4:5: endpoint default/a is listed again at line 6; Sluice uses the last entry",
    ]);
  });

  it("warns of one address under two names, however it is spelt", () => {
    const { warnings } = parse(
      `endpoints:
- {name: bad}
- {name: a, address: 127.0.0.1, port: 8000}
- {name: b, address: 127.0.0.1, port: "8000"}
- {name: c, address: 127.0.0.1, port: 8001}
- {name: d, address: "[fd00::0:1]", port: 80}
- {name: d, namespace: prod, address: fd00::1, port: 80}
`,
      "lenient",
    );
    expect(warnings).toEqual([
      "endpoints.yaml:3:3: endpoints default/a and default/b (line 4) have the same address 127.0.0.1:8000: this server gets the traffic of both",
      "endpoints.yaml:6:3: endpoints default/d and prod/d (line 7) have the same address [fd00::1]:80: this server gets the traffic of both",
    ]);
  });

  it("refuses what is no list of endpoints", () => {
    const cases: [string, string][] = [
      ["", "must be a mapping with the key `endpoints`"],
      ["- a", "must be a mapping with the key `endpoints`"],
      ["endpoint: []", "the key `endpoints` is missing; is `endpoint` it?"],
      ["endpoints: 3", "endpoints.yaml:1:1: `endpoints` must be a list"],
    ];
    for (const [text, message] of cases) {
      expect(() => parse(text)).toThrow(SluiceError);
      expect(() => parse(text)).toThrow(message);
    }
    expect(() => parse("endpoints: [")).toThrow(/^endpoints\.yaml:1:\d+: /);
  });

  it("checks every field (R-53)", () => {
    expect(problem({ name: "" })).toContain("must not be empty");
    expect(problem({ name: undefined, nam: "x" })).toContain("`name` is missing; is `nam` it?");
    expect(problem({ name: 7 })).toContain("put it in quotes");
    expect(problem({ name: "a/b" })).toContain("slashes");
    expect(problem({ name: "x".repeat(254) })).toContain("253");
    expect(problem({ namespace: "a b" })).toContain("endpoints[0].namespace");
    for (const port of ["0", 0, "65536", "+80", "8e3", 80.5, "", true, [80], " 80"])
      expect(problem({ port })).toContain("integer from 1 to 65535");
    expect(problem({ port: null })).toContain("`port` is missing");
    expect(problem({ labels: ["a"] })).toContain("mapping of strings");
    expect(problem({ labels: { a: 1 } })).toContain("endpoints[0].labels.a: must be a string");
    expect(problem({ address: 10 })).toContain("must be a string");
  });

  it("strict takes IPv4 literals only, lenient also IPv6 and host names (R-53)", () => {
    for (const text of ["10.0.0.1", "127.0.0.1"]) {
      expect(address(text)).toBe(text);
      expect(address(text, "lenient")).toBe(text);
    }
    for (const [text, taken] of [
      ["::1", "::1"],
      ["[fd00::1]", "fd00::1"],
      ["localhost", "localhost"],
      ["vLLM-0.svc.local", "vllm-0.svc.local"],
      ["compose_service", "compose_service"],
    ] as const) {
      expect(address(text)).toBeUndefined();
      expect(address(text, "lenient")).toBe(taken);
    }
    for (const text of [
      "",
      "10.0.0.256",
      "1.2.3",
      "a..b",
      "-a",
      "a b",
      "http://a",
      "fe80::1%eth0",
      "a.",
      "x".repeat(64),
    ])
      expect(problem({ address: text }, "lenient")).toContain("address");
    expect(problem({ address: "a:8000" }, "lenient")).toContain("the port has its own key");
  });

  it("D-58: what no server can have is refused, strict or lenient; loopback is not", () => {
    for (const [text, kind] of [
      ["0.0.0.0", "unspecified"],
      ["0.1.2.3", "unspecified"],
      ["169.254.169.254", "link-local"],
      ["224.0.0.1", "multicast"],
      ["239.255.255.250", "multicast"],
      ["255.255.255.255", "broadcast"],
    ] as const)
      for (const flavour of ["strict", "lenient"] as const) {
        const told = problem({ address: text }, flavour);
        expect(told).toBe(
          `endpoints.yaml:1:27: endpoints[0].address: must be the address of one server; ${text} is ${kind}`,
        );
      }
    for (const [text, kind] of [
      ["::", "unspecified"],
      ["[0::0]", "unspecified"],
      ["fe80::1", "link-local"],
      ["FEBF::1", "link-local"],
      ["[ff02::1]", "multicast"],
      ["::ffff:169.254.169.254", "link-local"],
      ["::ffff:e000:1", "multicast"],
      ["::ffff:0.0.0.0", "unspecified"],
    ] as const) {
      expect(problem({ address: text }, "lenient")).toMatch(new RegExp(`is ${kind}$`));
      expect(problem({ address: text }, "strict")).toContain("literal IPv4");
    }
    for (const text of ["localhost", "vllm.example", "1.2.3.4.example"])
      expect(problem({ address: text }, "strict")).toContain("literal IPv4");
    for (const port of [0, "0", 65536]) expect(problem({ port }, "strict")).toContain("from 1 to 65535");
    for (const text of ["127.0.0.1", "10.0.0.1", "169.253.0.1", "223.255.255.255"]) expect(address(text)).toBe(text);
    for (const text of ["::1", "fd00::1", "fec0::1", "::ffff:10.0.0.1"]) expect(address(text, "lenient")).toBe(text);
  });

  it("multicluster takes IPv4, IPv6 and DNS-1123 subdomains, and nothing else (R-57)", () => {
    const long = `${"a".repeat(200)}.${"b".repeat(52)}`;
    for (const text of ["10.0.0.1", "::1", "fd00::1", "localhost", "vllm-0.east.example", "12345", "1.2.3", "0", long])
      expect(address(text, "multicluster")).toBe(text);
    for (const text of ["", "east.example.", "East.example", "a_b", "-a", "a-", "a..b", "a b", "[::1]", "fe80::1%eth0"])
      expect(problem({ address: text }, "multicluster")).toMatch(
        /must be an IP address or a host name in lower case, not "/,
      );
    expect(problem({ address: `${long}c` }, "multicluster")).toContain("host name in lower case");
    expect(problem({ address: "east.example:8000" }, "multicluster")).toContain("the port has its own key");
    expect(problem({ address: "10.0.0.256" }, "multicluster")).toContain(
      'must be an IP address or a host name, not "10.0.0.256"',
    );
    expect(problem({ address: "fe80::1" }, "multicluster")).toMatch(/is link-local$/);
  });

  it("D-58: a name that is dialled as an address is judged as that address", () => {
    for (const text of ["2852039166", "0xa9fea9fe", "169.254.43518", "0xa9.0xfe.0xa9.0xfe"])
      expect(problem({ address: text }, "multicluster")).toMatch(/stands for 169\.254\.169\.254, which is link-local$/);
    expect(problem({ address: "0xA9FEA9FE" }, "lenient")).toMatch(/which is link-local$/);
    expect(address("2130706433", "multicluster")).toBe("2130706433");
  });

  it("multicluster reads from labels where the metrics page is; the others leave them labels (R-57)", () => {
    const metrics = (labels: Record<string, string>, flavour: EndpointsFlavour = "multicluster") =>
      parse(entry({ labels }), flavour).endpoints.map((spec) => spec.metricsHost);
    expect(metrics({ metricsAddress: "metrics.east.example" })).toEqual([
      { address: "metrics.east.example", port: 8000 },
    ]);
    expect(metrics({ metricsAddress: "fd00::1", metricsPort: "9090" })).toEqual([{ address: "fd00::1", port: 9090 }]);
    expect(metrics({ metricsPort: "9090" })).toEqual([undefined]);
    for (const flavour of ["strict", "lenient"] as const)
      expect(metrics({ metricsAddress: "10.0.0.9", metricsPort: "x" }, flavour)).toEqual([undefined]);
    const wrong = (labels: Record<string, string>) => problem({ labels }, "multicluster");
    expect(wrong({ metricsAddress: "Metrics" })).toContain(
      "endpoints[0].labels.metricsAddress: must be an IP address or",
    );
    expect(wrong({ metricsAddress: "169.254.169.254" })).toContain("is link-local");
    expect(wrong({ metricsAddress: "10.0.0.9", metricsPort: "0" })).toContain(
      'endpoints[0].labels.metricsPort: must be an integer from 1 to 65535, not "0"',
    );
  });

  it("answers any text with endpoints or a SluiceError", () => {
    const anything = fc.oneof(
      fc.string(),
      fc.json(),
      fc.json().map((text) => `{"endpoints": [${text}]}`),
    );
    fc.assert(
      fc.property(anything, (text) => {
        for (const flavour of ["lenient", "multicluster"] as const)
          try {
            for (const spec of parse(text, flavour).endpoints) {
              expect(spec.name).not.toBe("");
              expect(spec.port).toBeGreaterThanOrEqual(1);
            }
          } catch (error) {
            expect(error).toBeInstanceOf(SluiceError);
          }
      }),
    );
  });
});
