import { expect, it } from "vitest";
import { redacted, yamlLinesWithoutSecrets } from "./secrets.ts";

it("keeps passwords, tokens and users of URLs out of logs, at every depth and in JSON text (A-85)", () => {
  const shown = JSON.stringify(
    redacted({
      url: "rediss://operator:hunter2@redis.example:6380/1",
      address: "redis.example:6379",
      password: "hunter2",
      api_key: "hunter2",
      bearer_token: "hunter2",
      query: 'sum(up{job=~"a|b"})',
      page: "http://metrics.example/page?pool=a&access_token=hunter2&x=1",
      gates: [{ gate_type: "redis", gate_params: { secret: "hunter2", url: "redis://:hunter2@r:1" } }],
      saturation_gate_params: '{"password": "hunter2", "limit": 3, "url": "redis://u:hunter2@r"}',
    }),
  );
  expect(shown).not.toContain("hunter2");
  expect(shown).not.toContain("operator");
  for (const kept of ["redis.example:6380/1", "redis.example:6379", "sum(up", "pool=a", "&x=1", '\\"limit\\": 3'])
    expect(shown).toContain(kept);
});

it("leaves what is no secret as it is: numbers, names of keys, files and variables", () => {
  const plain = {
    limit: 3,
    tls: true,
    maxTokens: 64,
    budget_key: "dispatch-gate-budget",
    password_env: "REDIS_PASSWORD",
    tls_key_file: "/etc/tls/key.pem",
    window: "1m",
    none: null,
  };
  expect(redacted(plain)).toEqual(plain);
});

it("keeps users of URLs out whose password has an @ or a quote, and secrets of names with hyphens", () => {
  const shown = JSON.stringify(
    redacted({
      one: "redis://u:hun@ter2@h:1",
      two: "http://u:hun'ter2@h",
      "x-api-key": "hunter2",
      passphrase: "hunter2",
    }),
  );
  expect(shown).not.toMatch(/hun|ter2/);
  expect(shown).toContain("@h:1");
});

it("keeps secrets out of the lines of a YAML text, valid or not, and every line in its place", () => {
  const text = [
    "plugins:",
    "- name: a # kept",
    "  password: hunter2",
    "- token: hunter2",
    '  "x-api-key": hunter2',
    "  secret: |",
    "    hunter2",
    "",
    "    hunter2",
    "  parameters: {password: 'hunter2', limit: 3, token: hunter2}",
    "  maxTokens: 64",
    "  token: 7",
    "  url: redis://u:hunter2@h:1",
    "secrets:",
    "  - hunter2",
    "}} password: hunter2 [",
    "kept: yes",
  ].join("\n");
  const lines = yamlLinesWithoutSecrets(text);
  expect(lines.length).toBe(text.split("\n").length);
  expect(lines.slice(0, -2).join("\n")).not.toContain("hunter2");
  expect(lines[1]).toBe("- name: a # kept");
  expect(lines[9]).toContain("limit: 3");
  expect(lines.slice(10, 12)).toEqual(["  maxTokens: 64", "  token: 7"]);
  expect(lines.at(-1)).toBe("kept: yes");
});
