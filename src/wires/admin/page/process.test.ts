import { expect, it } from "vitest";
import { shown, shownArgs } from "./process.ts";

it("shows a command line without secrets", () => {
  expect(
    shownArgs([
      ...["gateway", "--keys", "keys.yaml", "--redis-password", "hunter2", "--api-key=hunter2"],
      ...["--limits-redis", "redis://me:hunter2@host:1/0", "--gateway-key-file", "key.txt", "sk-sluice-abcdef"],
    ]),
  ).toEqual([
    ...["gateway", "--keys", "keys.yaml", "--redis-password", "REDACTED", "--api-key=REDACTED"],
    ...["--limits-redis", "redis://REDACTED@host:1/0", "--gateway-key-file", "key.txt", "sk-sluice-***"],
  ]);
});

it("hides flags that are secrets whatever their name says, and those of passphrases and private keys", () => {
  const args = [
    "--inline=hunter2",
    "--inline",
    "hunter2",
    "--tls-passphrase",
    "hunter2",
    "--private-key=hunter2",
    "--in=7",
  ];
  expect(shownArgs(args, new Set(["inline"]))).toEqual([
    ...[
      "--inline=REDACTED",
      "--inline",
      "REDACTED",
      "--tls-passphrase",
      "REDACTED",
      "--private-key=REDACTED",
      "--in=7",
    ],
  ]);
});

it("shows numbers with four significant places, and unknown ones as null", () => {
  expect([1.23456, 123_456, 0.000123456, Number.NaN, Number.POSITIVE_INFINITY].map(shown)).toEqual([
    ...[1.235, 123_456, 0.0001235, null, null],
  ]);
});
