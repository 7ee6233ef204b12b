import { expect, it } from "vitest";
import { redacted } from "./secrets.ts";

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
