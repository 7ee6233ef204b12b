import { it } from "vitest";
import { churn } from "./churn.cases.ts";

it("a picker knows the caches of engines that come and go, in its bound: the short form of churn.soak.test.ts", () =>
  churn(1));
