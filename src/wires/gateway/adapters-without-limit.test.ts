import { expect, it } from "vitest";
import { adaptersWithoutLimit } from "./adapters-without-limit.ts";

const rule = (model?: string, key?: string) => ({ ...{ model, key }, requestsPerMinute: 1 });

it.each([
  ["an adapter of the model of a rule", [rule("a")], "limits of a do not count requests for sql"],
  ["an adapter that has a rule for another key", [rule("a", "k"), rule("sql", "l")], "limits of a"],
  ["an adapter that has a rule for the same key", [rule("a", "k"), rule("sql", "k")], undefined],
  ["a rule for each model", [rule("a"), rule("*")], undefined],
  ["a rule for all models", [rule("a"), rule(undefined)], undefined],
  ["a rule for the adapter alone", [rule("sql")], undefined],
  ["a rule for a model that nobody states", [rule("b")], undefined],
  ["no rule", [], undefined],
])("%s", (_, rules, expected) => {
  const found = adaptersWithoutLimit(rules, [["a", "sql"], ["c"], []]);
  if (expected === undefined) expect(found).toBeUndefined();
  else expect(found).toContain(expected);
});

it("names three models and counts the others", () => {
  expect(
    adaptersWithoutLimit(
      [rule("a"), rule("b")],
      [
        ["a", "1", "2", "3", "4"],
        ["b", "5"],
      ],
    ),
  ).toBe("limits of a, b do not count requests for 1, 2, 3 and 2 more: an adapter counts as a separate model");
});
