import { describe, expect, it } from "vitest";
import { FakeServer, refusal } from "../../../test/support/kubernetes/fake-api.cases.ts";
import { ApiError } from "./api-error.ts";
import { ApplyConflictError, applyStatus } from "./apply.ts";

const TYPE = { group: "test.io", version: "v1", plural: "things", kind: "Thing" };

describe("applyStatus", () => {
  it("patches the status subresource as a field manager, with kind and name filled in", async () => {
    const api = new FakeServer(() => ({ done: true }));
    const status = { conditions: [] };
    expect(await applyStatus(api, TYPE, "ml", "a", "sluice", { status }, { force: true })).toEqual({ done: true });
    expect(api.requests).toEqual([
      {
        method: "PATCH",
        path: "/apis/test.io/v1/namespaces/ml/things/a/status",
        query: { fieldManager: "sluice", force: true },
        contentType: "application/apply-patch+yaml",
        body: { apiVersion: "test.io/v1", kind: "Thing", metadata: { namespace: "ml", name: "a" }, status },
      },
    ]);
  });

  it("names the managers that own the fields", async () => {
    const api = new FakeServer(() => {
      throw new ApiError("Apply failed with 3 conflicts", {
        status: 409,
        reason: "Conflict",
        causes: [
          { field: ".status.a", message: 'conflict with "kubectl-edit" using test.io/v1' },
          { field: ".status.b", message: 'conflict with "other" with subresource "status" using test.io/v1' },
          { field: ".status.c", message: 'conflict with "other" using test.io/v1' },
        ],
      });
    });
    const failed = applyStatus(api, TYPE, "ml", "a", "sluice", { status: {} }, { force: false });
    await expect(failed).rejects.toBeInstanceOf(ApplyConflictError);
    await expect(failed).rejects.toMatchObject({
      status: 409,
      managers: ["kubectl-edit", "other"],
      message: "Apply failed with 3 conflicts",
      causes: [{ field: ".status.a" }, { field: ".status.b" }, { field: ".status.c" }],
    });
  });

  it("passes other refusals on", async () => {
    const api = new FakeServer(() => {
      throw refusal(404, "NotFound");
    });
    const failed = applyStatus(api, TYPE, "ml", "a", "sluice", { status: {} }, { force: false });
    await expect(failed).rejects.toMatchObject({ status: 404 });
    await expect(failed).rejects.not.toBeInstanceOf(ApplyConflictError);
  });
});
