import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readWebhookSecrets, webhookSignature } from "./webhook-secret.ts";
import { webhookUrlProblem } from "./webhook-url.ts";

const FLAG = "--batch-webhook-secret-file";
const OLD = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const NEW = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;
const OTHER = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-webhook-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function read(text: string | undefined, given?: string) {
  const path = text === undefined ? undefined : join(folder, "secret");
  if (path !== undefined) writeFileSync(path, text!);
  return readWebhookSecrets({ path, flag: FLAG, given });
}

describe("the secrets of a webhook", () => {
  it("come from a file with a line for each, or from the environment", async () => {
    expect(await read(`${OLD}\n${NEW}\n`, OTHER)).toEqual([new Uint8Array(24).fill(1), new Uint8Array(32).fill(2)]);
    expect(await read(undefined, ` ${NEW} `)).toEqual([new Uint8Array(32).fill(2)]);
  });

  it.each([
    ["nothing", ""],
    ["five", Array.from({ length: 5 }, () => OLD).join("\n")],
    ["no prefix", Buffer.alloc(32, 1).toString("base64")],
    ["too short", `whsec_${Buffer.alloc(23).toString("base64")}`],
    ["too long", `whsec_${Buffer.alloc(65).toString("base64")}`],
    ["no base64", `whsec_${"*".repeat(44)}`],
    ["base64 with a character too many", `${NEW}a`],
  ])("are refused when they are wrong: %s", async (_, text) => {
    const refusal: unknown = await read(text).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: "FLAG_VALUE", message: expect.stringContaining(FLAG) });
    if (text !== "") expect((refusal as Error).message).not.toContain(text.split("\n")[0]!);
    await expect(read(undefined, text)).rejects.toMatchObject({
      message: expect.stringContaining("SLUICE_BATCH_WEBHOOK_SECRET"),
    });
  });

  it("must be there", async () => {
    await expect(read(undefined)).rejects.toMatchObject({ code: "FLAG_MISSING" });
  });
});

describe("the signature of an event", () => {
  const body = '{"id":"evt_1","object":"event","created_at":1,"type":"batch.completed","data":{"id":"batch_1"}}';
  const client = new OpenAI({ apiKey: "none" });

  async function unwrap(secret: string, text = body, id = "evt_1") {
    const timestamp = Math.floor(Date.now() / 1000);
    const signature = webhookSignature(await read(`${OLD}\n${NEW}`), "evt_1", timestamp, body);
    const headers = { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": signature };
    return client.webhooks.unwrap(text, headers, secret);
  }

  it("is good for the client of OpenAI with each of the secrets", async () => {
    const event = { id: "evt_1", type: "batch.completed", data: { id: "batch_1" } };
    expect(await unwrap(OLD)).toMatchObject(event);
    expect(await unwrap(NEW)).toMatchObject(event);
  });

  it("is bad for another secret, another body or another id", async () => {
    await expect(unwrap(OTHER)).rejects.toThrow(/signature/);
    await expect(unwrap(NEW, body.replace("batch_1", "batch_2"))).rejects.toThrow(/signature/);
    await expect(unwrap(NEW, body, "evt_2")).rejects.toThrow(/signature/);
  });

  it("is that of the example of Standard Webhooks", () => {
    const secret = Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64");
    const signature = webhookSignature([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}');
    expect(signature).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });
});

describe("the address of a webhook", () => {
  it.each(["https://example.com/hooks?a=1", "http://10.0.0.1:8080"])("may be %s", (text) => {
    expect(webhookUrlProblem(text)).toBeUndefined();
  });

  it.each(["", "example.com", "ftp://example.com", "file:///etc/passwd", "http://u:p@example.com"])(
    "may not be %s",
    (text) => {
      const problem = webhookUrlProblem(text);
      expect(problem).toMatch(/^it must /);
      if (text !== "" && !text.startsWith("example")) expect(problem).not.toContain(text);
    },
  );
});
