import { expect, it } from "vitest";
import { singleProfileHandler } from "./single-profile-handler.ts";

it("single-profile-handler takes no parameters", () => {
  expect(singleProfileHandler.kind).toBe("profile-handler");
  expect(singleProfileHandler.parameters.safeParse({}).success).toBe(true);
  expect(singleProfileHandler.parameters.safeParse({ primary: "x" }).success).toBe(false);
});
