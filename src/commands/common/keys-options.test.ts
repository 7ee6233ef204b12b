import { describe, expect, it } from "vitest";
import { command } from "./command.ts";
import { type KeysOptions, keysSettingsFrom, withKeysOptions } from "./keys-options.ts";

function settingsOf(...args: string[]) {
  return keysSettingsFrom(withKeysOptions(command("gateway", "")).parse(args, { from: "user" }).opts<KeysOptions>());
}

const TOKENS = ["--jwt-issuer", "https://i", "--jwt-audience", "a", "--jwt-jwks", "https://i/jwks"];

describe("the flags about keys", () => {
  it("name no keys by default", async () => {
    expect(await settingsOf()).toEqual({ file: undefined, jwt: [], open: false });
  });

  it("are a file, one issuer, and the open door", async () => {
    const claims = ["--jwt-claim", "name=preferred_username", "--jwt-claim", "models=https://x/m=1"];
    const settings = await settingsOf("--keys", "k.yaml", ...TOKENS, ...claims, "--open");
    expect(settings).toMatchObject({
      file: "k.yaml",
      open: true,
      jwt: [
        {
          issuer: "https://i",
          audience: ["a"],
          jwks: "https://i/jwks",
          clockTolerance: 30_000,
          claims: { name: ["preferred_username"], models: ["https://x/m=1"] },
          choosesFlow: false,
        },
      ],
    });
    expect(settings.jwt[0]!.algorithms).not.toContain("HS256");
  });

  it.each([
    [["--jwt-audience", "a"], /tokens need --jwt-issuer and --jwt-jwks, too/],
    [["--jwt-claim", "name=sub"], /--jwt-claim needs/],
    [[...TOKENS, "--jwt-claim", "sub"], /--jwt-claim is "sub"; write FIELD=CLAIM, with one of the fields name, models/],
    [[...TOKENS, "--jwt-claim", "role=x"], /write FIELD=CLAIM, with one of the fields name, models/],
    [[...TOKENS, "--jwt-claim", "name="], /write FIELD=CLAIM, with one of the fields name, models/],
    [["--keys", ""], /--keys is ""/],
    [TOKENS.with(5, "http://10.0.0.1/jwks"), /--jwt-jwks: .*http:\/\/ is for loopback only/],
    [TOKENS.with(5, "ftp://i/jwks"), /--jwt-jwks: expected a file or an https:\/\/ address/],
    [TOKENS.with(5, "http://localhost.example/jwks"), /loopback only/],
  ])("refuse %j", async (args, message) => {
    await expect(settingsOf(...args)).rejects.toThrow(message);
  });

  it.each(["http://127.0.0.1:9/jwks", "http://[::1]/jwks", "http://localhost:1/j", "keys/jwks.json"])(
    "take keys of an issuer from %s",
    async (place) => {
      expect((await settingsOf(...TOKENS.with(5, place))).jwt[0]!.jwks).toBe(place);
    },
  );
});
