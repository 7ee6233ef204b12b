import { describe, expect, it } from "vitest";
import { loadPubSub } from "./client.ts";

describe("Google's client", () => {
  it("is installed by people who need it: without it the error names the command", async () => {
    const missing = loadPubSub(() => Promise.reject(new Error("Cannot find package '@google-cloud/pubsub'")));
    await expect(missing).rejects.toMatchObject({
      code: "PUBSUB_CLIENT_MISSING",
      message: expect.stringContaining("npm install @google-cloud/pubsub"),
    });
  });
});
