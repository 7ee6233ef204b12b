import { it } from "vitest";
import { churn } from "./churn.cases.ts";

const SECONDS = 600;

it(
  "a picker knows the caches of engines that come and go, in its bound, for ten minutes",
  () => churn(SECONDS),
  3_000 * SECONDS,
);
